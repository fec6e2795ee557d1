package storetest

import "testing"

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Should fails the test if there is an error, and lets it go on.
func Should(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// ErrOf returns the error of a call without its result.
func ErrOf[T any](_ T, err error) error { return err }

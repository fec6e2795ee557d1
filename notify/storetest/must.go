package storetest

import (
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

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

// Is fails the test unless a value is the one that is wanted.
func Is[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Same fails the test with the difference between what is wanted and what there is.
func Same(t testing.TB, what string, want, got any, o ...gocmp.Option) {
	t.Helper()
	if diff := gocmp.Diff(want, got, o...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Fails fails the test unless an error is the one that is wanted.
func Fails(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got the error %v, want %v", what, err, want)
	}
}

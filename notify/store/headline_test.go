package store

import "testing"

func TestHeadline(t *testing.T) {
	const traceback = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    pay()\nValueError: no such card"
	for reason, want := range map[string]string{
		"":                                     "",
		"no route to host":                     "no route to host",
		"panic: a\n\ngoroutine 1":              "panic: a\n\ngoroutine 1",
		traceback:                              "ValueError: no such card",
		"exit status 1: " + traceback + "\n\n": "exit status 1: ValueError: no such card",
		"Traceback (most recent call last):":   "Traceback (most recent call last):",
	} {
		if got := Headline(reason); got != want {
			t.Errorf("of %q the headline is %q, want %q", reason, got, want)
		}
	}
}

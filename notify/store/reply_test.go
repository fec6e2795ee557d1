package store

import (
	"errors"
	"testing"
)

// Each read of a value of the wrong kind fails, says which value it was, and ends the reply.
func TestReply(t *testing.T) {
	reads := map[string]func(r *reply){
		"an integer":         func(r *reply) { r.integer() },
		"a string":           func(r *reply) { r.text() },
		"an integer as text": func(r *reply) { r.decimal() },
		"a list":             func(r *reply) { r.list() },
	}
	fit := map[string][]any{
		"an integer": {int64(1)}, "a string": {"", "x", "-7"}, "an integer as text": {"-7"}, "a list": {[]any{}, []any{"x"}},
	}
	values := []any{nil, int64(1), "", "x", "-7", []any{}, []any{"x"}, 1.5, true}
	for kind, read := range reads {
		for _, value := range values {
			r := &reply{name: "s", values: []any{"before", value}}
			r.text()
			read(r)
			r.text() // a missing value behind the fault, which must not replace it
			want := !contains(fit[kind], value)
			var err *ReplyError
			if errors.As(r.end(), &err); !want {
				if err == nil || err.At != 3 {
					t.Errorf("%v as %s: %v; want that value 3 is missing", value, kind, err)
				}
				continue
			}
			if err == nil || err.At != 2 || err.Script != "s" {
				t.Errorf("%v as %s: %v", value, kind, err)
			}
		}
	}
}

// contains is slices.Contains of values that lists may be among.
func contains(all []any, value any) bool {
	for _, one := range all {
		_, a := one.([]any)
		if _, b := value.([]any); a || b {
			if a && b {
				return true
			}
			continue
		}
		if one == value {
			return true
		}
	}
	return false
}

func TestReplyMaybe(t *testing.T) {
	r := &reply{name: "s", values: []any{nil, "x", int64(7)}}
	if s, there := r.textOrNone(); s != "" || there {
		t.Errorf("%q, %v", s, there)
	}
	if s, there := r.textOrNone(); s != "x" || !there {
		t.Errorf("%q, %v", s, there)
	}
	if _, _ = r.textOrNone(); r.end() == nil {
		t.Error("a number is no string")
	}
}

// A wrong value in a list ends the reply around it, and a value that is left is an error.
func TestReplyOfLists(t *testing.T) {
	r := &reply{name: "s", values: []any{[]any{"x", int64(7)}, "y"}}
	l := r.list()
	if l.text(); l.text() != "" || r.text() != "" || r.more() || l.more() {
		t.Error("it goes on")
	}
	var err *ReplyError
	if !errors.As(r.end(), &err) || err.At != 2 || err.Want != "a string" || err.Got != int64(7) {
		t.Errorf("%v", err)
	}
	if r = (&reply{values: []any{"x", "y"}}); r.text() != "x" || r.end() == nil {
		t.Error("one is left, and nobody says so")
	}
	if r = (&reply{values: []any{"x"}}); r.text() != "x" || r.end() != nil {
		t.Errorf("%v", r.end())
	}
}

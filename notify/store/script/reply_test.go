package script

import (
	"errors"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// Each read of a value of the wrong kind fails, says which value it was, and ends the reply.
func TestReply(t *testing.T) {
	reads := map[string]func(r *Reply){
		"an integer":         func(r *Reply) { r.Integer() },
		"a string":           func(r *Reply) { r.Text() },
		"an integer as text": func(r *Reply) { r.Decimal() },
		"a list":             func(r *Reply) { r.List() },
	}
	fit := map[string][]any{
		"an integer": {int64(1)}, "a string": {"", "x", "-7"}, "an integer as text": {"-7"}, "a list": {[]any{}, []any{"x"}},
	}
	values := []any{nil, int64(1), "", "x", "-7", []any{}, []any{"x"}, 1.5, true}
	for kind, read := range reads {
		for _, value := range values {
			r := &Reply{name: "s", values: []any{"before", value}}
			r.Text()
			read(r)
			r.Text() // a missing value behind the fault, which must not replace it
			want := !contains(fit[kind], value)
			var err *ReplyError
			if errors.As(r.End(), &err); !want {
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
	r := &Reply{name: "s", values: []any{nil, "x", int64(7)}}
	if s, there := r.TextOrNone(); s != "" || there {
		t.Errorf("%q, %v", s, there)
	}
	if s, there := r.TextOrNone(); s != "x" || !there {
		t.Errorf("%q, %v", s, there)
	}
	if _, _ = r.TextOrNone(); r.End() == nil {
		t.Error("a number is no string")
	}
}

// A wrong value in a list ends the reply around it, and a value that is left is an error.
func TestReplyOfLists(t *testing.T) {
	r := &Reply{name: "s", values: []any{[]any{"x", int64(7)}, "y"}}
	l := r.List()
	if l.Text(); l.Text() != "" || r.Text() != "" || r.More() || l.More() {
		t.Error("it goes on")
	}
	var err *ReplyError
	if !errors.As(r.End(), &err) || err.At != 2 || err.Want != "a string" || err.Got != int64(7) {
		t.Errorf("%v", err)
	}
	if r = (&Reply{values: []any{"x", "y"}}); r.Text() != "x" || r.End() == nil {
		t.Error("one is left, and nobody says so")
	}
	if r = (&Reply{values: []any{"x"}}); r.Text() != "x" || r.End() != nil {
		t.Errorf("%v", r.End())
	}
}

func TestDue(t *testing.T) {
	for score, want := range map[string]int64{
		"1763676000123": 1763676000123000, "5.25": 5250, "-inf": 0, "inf": record.Never, "-3": 0, "1e300": record.Never, "1e999": record.Never, "": record.Never, "nan": record.Never,
	} {
		r := &Reply{values: []any{score}}
		if got := r.Due(); got != want || r.End() != nil {
			t.Errorf("%q is due at %d, want %d; %v", score, got, want, r.End())
		}
	}
	r := &Reply{values: []any{"x"}}
	if r.Due(); r.End() == nil {
		t.Error("x is a due time")
	}
}

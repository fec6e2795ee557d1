package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A ReplyError is the error of an answer that the script never gives: another
// program, such as a proxy, is between Bellhop and Redis. What the script changed
// stays changed.
type ReplyError struct {
	Script string
	At     int    // the place of the value in its list, from 1
	Want   string // what belongs there
	Got    any    // what was there; nil if nothing was
}

// Error says which value of which script is wrong, and what belongs there.
func (e *ReplyError) Error() string {
	return fmt.Sprintf("script %s answered %.100q as its value %d; want %s", e.Script, fmt.Sprint(e.Got), e.At, e.Want)
}

// A reply is a cursor over a script's answer. A value of the wrong kind ends it:
// from then on all reads return zero, and end returns the error.
type reply struct {
	name   string
	values []any
	at     int
	err    *ReplyError
	within *reply // the reply that it is a list in; nil: none
}

// next returns the next value, nil if there is none. The caller calls fail if the
// value is missing or of the wrong kind.
func (r *reply) next() (value any) {
	if r.at < len(r.values) {
		value = r.values[r.at]
	}
	r.at++
	return value
}

// fail ends the reply, and all replies that it is in.
func (r *reply) fail(want string, got any) {
	err := &ReplyError{Script: r.name, At: r.at, Want: want, Got: got}
	for ; r != nil; r = r.within {
		if r.err == nil {
			r.err = err
		}
		r.at = len(r.values)
	}
}

// more reports whether there is another value.
func (r *reply) more() bool { return r.err == nil && r.at < len(r.values) }

// left returns how many values are left.
func (r *reply) left() int { return max(len(r.values)-r.at, 0) }

// integer reads a number.
func (r *reply) integer() int64 {
	value := r.next()
	n, ok := value.(int64)
	if !ok && r.err == nil {
		r.fail("an integer", value)
	}
	return n
}

// flag reads 0 or 1.
func (r *reply) flag() bool { return r.integer() != 0 }

// text reads a string.
func (r *reply) text() string {
	value := r.next()
	s, ok := value.(string)
	if !ok && r.err == nil {
		r.fail("a string", value)
	}
	return s
}

// textOrNone reads a string that may be nil or missing at the end, and reports
// whether there is one.
func (r *reply) textOrNone() (s string, there bool) {
	there = r.at < len(r.values) && r.values[r.at] != nil
	if !there && r.more() {
		r.at++
		return "", false
	}
	return r.text(), there
}

// decimal reads an integer that is sent as text, because Lua's numbers cannot hold
// every large one.
func (r *reply) decimal() int64 {
	s := r.text()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && r.err == nil {
		r.fail("an integer as text", s)
	}
	return n
}

// due reads a due time, a score in ms, and returns it in us. A score out of range is
// the nearest time in range, and an empty one is record.Never.
func (r *reply) due() int64 {
	s := r.text()
	if s == "" {
		return record.Never
	}
	ms, err := strconv.ParseFloat(s, 64) // a foreign score may have a fraction
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		if r.err == nil {
			r.fail("a score in ms", s)
		}
		return record.Never
	case ms != ms:
		return record.Never
	}
	return int64(min(max(ms*1000, 0), record.Never))
}

// list reads a list.
func (r *reply) list() *reply {
	l := new(reply)
	r.listInto(l)
	return l
}

// listInto is list into a cursor of the caller's: one serves all lists of a list.
func (r *reply) listInto(l *reply) {
	value := r.next()
	values, ok := value.([]any)
	if !ok && r.err == nil {
		r.fail("a list", value)
	}
	*l = reply{name: r.name, values: values, within: r, err: r.err}
}

// texts reads a list of strings.
func (r *reply) texts() []string {
	l := r.list()
	all := make([]string, 0, len(l.values))
	for l.more() {
		all = append(all, l.text())
	}
	return all
}

// end returns the error of the reply, or one that says that values are left.
func (r *reply) end() error {
	if r.err == nil && r.at < len(r.values) {
		r.fail("the end", r.next())
	}
	if r.err == nil {
		return nil
	}
	return r.err
}

// state reads a state's name; an empty text is 0: the message has no place.
func (r *reply) state() record.State {
	name := r.text()
	if name == "" {
		return 0
	}
	s, err := record.ParseState(name)
	if err != nil {
		r.fail("a state", name)
	}
	return s
}

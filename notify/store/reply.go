package store

import (
	"errors"
	"fmt"
	"strconv"
)

// A ReplyError is the error of a script that answered what it does not answer: a
// program beside Bellhop, a proxy or another server stands between. What the
// script did stands.
type ReplyError struct {
	Script string
	At     int    // the position of the value in the reply, from 1; 0 in a list within
	Want   string // what was wanted there
	Got    any    // what stood there; nil where nothing did
}

// Error says which value of which script is wrong.
func (e *ReplyError) Error() string {
	return fmt.Sprintf("script %s answered %.100q as its value %d; want %s", e.Script, fmt.Sprint(e.Got), e.At, e.Want)
}

// A reply is a cursor over what a script answered. A value of another kind than
// asked for ends it: from then on all are zero, and end returns the error.
type reply struct {
	name   string
	values []any
	at     int
	err    *ReplyError
	within *reply // what it is a list in
}

// next returns the next value, nil where there is none; then, and where it is of
// another kind, the caller fails.
func (r *reply) next() (value any) {
	if r.at < len(r.values) {
		value = r.values[r.at]
	}
	r.at++
	return value
}

// fail ends the reply, and all that it is in.
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

// left returns how many values there are still.
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

// maybe reads a string that may be missing: then there is none.
func (r *reply) maybe() (s string, there bool) {
	there = r.at < len(r.values) && r.values[r.at] != nil
	if !there && r.more() {
		r.at++
		return "", false
	}
	return r.text(), there
}

// decimal reads an integer that stands there as text, because it may be too
// large for a number of Lua to keep.
func (r *reply) decimal() int64 {
	s := r.text()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && r.err == nil {
		r.fail("an integer as text", s)
	}
	return n
}

// due reads a due time, a score in ms, and returns it in us: what is no time of
// ours is that nearest to it, and an empty one is never.
func (r *reply) due() int64 {
	s := r.text()
	if s == "" {
		return Never
	}
	ms, err := strconv.ParseFloat(s, 64) // another program's may have a fraction
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		if r.err == nil {
			r.fail("a score in ms", s)
		}
		return Never
	case ms != ms:
		return Never
	}
	return int64(min(max(ms*1000, 0), Never))
}

// list reads a list.
func (r *reply) list() *reply {
	l := new(reply)
	r.open(l)
	return l
}

// open is list with a cursor that is there: one for the lists of a list.
func (r *reply) open(l *reply) {
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

// end returns what was wrong with the reply, or that something of it is left.
func (r *reply) end() error {
	if r.err == nil && r.at < len(r.values) {
		r.fail("the end", r.next())
	}
	if r.err == nil {
		return nil
	}
	return r.err
}

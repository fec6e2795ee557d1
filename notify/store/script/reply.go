package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// A Reply is a cursor over a script's answer. A value of the wrong kind ends it:
// from then on all reads return zero, and End returns the error.
type Reply struct {
	name   string
	values []any
	at     int
	err    *ReplyError
	within *Reply // the reply that it is a list in; nil: none
}

// NewReply returns a cursor over what a transition answered.
func NewReply(t *Transition, values []any) *Reply { return &Reply{name: t.Name, values: values} }

// next returns the next value, nil if there is none. The caller calls fail if the
// value is missing or of the wrong kind.
func (r *Reply) next() (value any) {
	if r.at < len(r.values) {
		value = r.values[r.at]
	}
	r.at++
	return value
}

// Fail ends the reply, and all replies that it is in: where a value belongs that is
// described by want, got was. Of several faults the first one counts.
func (r *Reply) Fail(want string, got any) {
	err := &ReplyError{Script: r.name, At: r.at, Want: want, Got: got}
	for ; r != nil; r = r.within {
		if r.err == nil {
			r.err = err
		}
		r.at = len(r.values)
	}
}

// More reports whether there is another value.
func (r *Reply) More() bool { return r.err == nil && r.at < len(r.values) }

// Left returns how many values are left.
func (r *Reply) Left() int { return max(len(r.values)-r.at, 0) }

// Integer reads a number.
func (r *Reply) Integer() int64 {
	value := r.next()
	n, ok := value.(int64)
	if !ok && r.err == nil {
		r.Fail("an integer", value)
	}
	return n
}

// Flag reads 0 or 1.
func (r *Reply) Flag() bool { return r.Integer() != 0 }

// Text reads a string.
func (r *Reply) Text() string {
	value := r.next()
	s, ok := value.(string)
	if !ok && r.err == nil {
		r.Fail("a string", value)
	}
	return s
}

// TextOrNone reads a string that may be nil or missing at the end, and reports
// whether there is one.
func (r *Reply) TextOrNone() (s string, there bool) {
	there = r.at < len(r.values) && r.values[r.at] != nil
	if !there && r.More() {
		r.at++
		return "", false
	}
	return r.Text(), there
}

// Decimal reads an integer that is sent as text, because Lua's numbers cannot hold
// every large one.
func (r *Reply) Decimal() int64 {
	s := r.Text()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && r.err == nil {
		r.Fail("an integer as text", s)
	}
	return n
}

// Due reads a due time, a score in ms, and returns it in us. A score out of range is
// the nearest time in range, and an empty one is record.Never.
func (r *Reply) Due() int64 {
	s := r.Text()
	if s == "" {
		return record.Never
	}
	ms, err := strconv.ParseFloat(s, 64) // a foreign score may have a fraction
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		if r.err == nil {
			r.Fail("a score in ms", s)
		}
		return record.Never
	case ms != ms:
		return record.Never
	}
	return int64(min(max(ms*1000, 0), record.Never))
}

// Raw returns all values as they were answered.
func (r *Reply) Raw() []any { return r.values }

// List reads a list.
func (r *Reply) List() *Reply {
	l := new(Reply)
	r.ListInto(l)
	return l
}

// ListInto is List into a cursor of the caller's: one serves all lists of a list.
func (r *Reply) ListInto(l *Reply) {
	value := r.next()
	values, ok := value.([]any)
	if !ok && r.err == nil {
		r.Fail("a list", value)
	}
	*l = Reply{name: r.name, values: values, within: r, err: r.err}
}

// Texts reads a list of strings.
func (r *Reply) Texts() []string {
	l := r.List()
	all := make([]string, 0, len(l.values))
	for l.More() {
		all = append(all, l.Text())
	}
	return all
}

// End returns the error of the reply, or one that says that values are left.
func (r *Reply) End() error {
	if r.err == nil && r.at < len(r.values) {
		r.Fail("the end", r.next())
	}
	if r.err == nil {
		return nil
	}
	return r.err
}

// State reads a state's name; an empty text is 0: the message has no place.
func (r *Reply) State() record.State {
	name := r.Text()
	if name == "" {
		return 0
	}
	s, err := record.ParseState(name)
	if err != nil {
		r.Fail("a state", name)
	}
	return s
}

// Indexes reads the rest as places in a list of n, counted from 1, and returns
// them counted from 0.
func (r *Reply) Indexes(n int) (all []int) {
	for r.More() {
		all = append(all, r.Index(n))
	}
	if r.err != nil {
		return nil
	}
	return all
}

// UpTo reads a number from 0 to n.
func (r *Reply) UpTo(n int) int {
	i := r.Integer()
	if r.err == nil && (i < 0 || i > int64(n)) {
		r.Fail("how many of what was given", i)
		return 0
	}
	return int(i)
}

// Index reads a place in a list of n, counted from 1, and returns it counted from 0.
func (r *Reply) Index(n int) int {
	at := r.Integer()
	if r.err != nil {
		return 0
	}
	if at < 1 || at > int64(n) {
		r.Fail("a position in what was given", at)
		return 0
	}
	return int(at - 1)
}

// Number reads an integer as text; 0 for a foreign text.
func (r *Reply) Number() int64 {
	n, _ := strconv.ParseInt(r.Text(), 10, 64)
	return n
}

// Position reads a position that is sent as text. A foreign number is 0.
func (r *Reply) Position() record.Position {
	text := r.Text()
	if _, err := strconv.ParseFloat(text, 64); errors.Is(err, strconv.ErrSyntax) && r.err == nil {
		r.Fail("a position as text", text)
	}
	return record.PositionIn(text)
}

// PositionOrNone reads a position; an empty text is 0: there is none.
func (r *Reply) PositionOrNone() record.Position {
	if r.at < len(r.values) && r.values[r.at] == "" {
		r.at++
		return 0
	}
	return r.Position()
}

// StoreID reads the mark of a store, FORMAT ID, and returns the id.
func (r *Reply) StoreID() string {
	mark := r.Text()
	_, id, ok := strings.Cut(mark, " ")
	if !ok && r.err == nil {
		r.Fail("the mark of a store", mark)
	}
	return id
}

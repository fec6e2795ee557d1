// Package fault has the errors of input that is not as it must be: each names the field, its fault and
// the remedy.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrInvalid is the error of input outside its grammar or limits; nothing was
// changed. Every [Fault] is one, for errors.Is.
var ErrInvalid = errors.New("invalid")

// A Fault is the error of one invalid field of an input. A field has one name in Go
// options, JSON, HTTP and flags, such as max_attempts.
type Fault struct {
	Field string
	Err   error // a whole sentence: the field, its fault, and the remedy
}

// New returns a Fault whose sentence is "invalid" and the formatted text.
func New(field, format string, args ...any) error {
	return &Fault{Field: field, Err: fmt.Errorf("%w %w", ErrInvalid, fmt.Errorf(format, args...))}
}

// Within returns a Fault if value is not between least and most, otherwise nil. Its
// sentence calls the field by words, such as "carrier lease".
func Within[T ~int | ~int64](field, words string, value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return New(field, "%s %v: use %v to %v", words, shown(value), shown(least), shown(most))
}

func shown(value any) any {
	if d, ok := value.(time.Duration); ok {
		return Short(d)
	}
	return value
}

// Short returns a duration without trailing zeros: 10m, not 10m0s as String does.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Error returns the sentence.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Fault) Unwrap() error { return f.Err }

// Is reports whether the target is ErrInvalid: a Fault is one even if Err only says
// that a file cannot be read.
func (f *Fault) Is(target error) bool { return target == ErrInvalid }

// Renamed returns err as a Fault of a field by the name that the caller knows, such
// as that of a setting; nil if err is nil.
func Renamed(field string, err error) error {
	if err == nil {
		return nil
	}
	return &Fault{Field: field, Err: err}
}

// All returns all Faults that an error wraps or joins. errors.As finds only the first.
func All(err error) (all []*Fault) {
	var several []error
	switch e := err.(type) {
	case *Fault:
		return []*Fault{e}
	case interface{ WrappedErrors() []error }: // go-multierror, whose Unwrap is a chain
		several = e.WrappedErrors()
	case interface{ Unwrap() []error }:
		several = e.Unwrap()
	case interface{ Unwrap() error }:
		return All(e.Unwrap())
	}
	for _, one := range several {
		all = append(all, All(one)...)
	}
	return all
}

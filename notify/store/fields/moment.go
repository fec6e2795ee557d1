package fields

import (
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Moment is a time, or how long ago it was by a clock that is asked later. The zero Moment is none.
type Moment struct {
	at     time.Time
	before time.Duration
	isAgo  bool
}

// ParseMoment reads a time of RFC 3339, or how long ago it was, such as 24h, for a named field; none if the text is empty. The error is
// a fault.Fault of the field.
func ParseMoment(field, text string) (Moment, error) {
	if text == "" {
		return Moment{}, nil
	}
	if before, err := ParseDuration(field, text); err == nil && before >= 0 {
		return Moment{before: before, isAgo: true}, nil
	}
	at, err := ParseTime(field, text)
	if err == nil {
		err = (&Field{Name: field}).from1970(at)
	}
	if err != nil {
		err = fault.New(field, "%s %.100q: write a time such as 2030-01-02T15:04:05Z, or how long ago, such as 24h", field, text)
	}
	return Moment{at: at}, err
}

// Time returns the time; zero if there is none. It asks for the time that it is now only for one that is told by how long ago it was.
// The error is that of asking.
func (m Moment) Time(now func() (time.Time, error)) (time.Time, error) {
	if !m.isAgo {
		return m.at, nil
	}
	at, err := now()
	return at.Add(-m.before), err
}

// IsZero reports whether there is none.
func (m Moment) IsZero() bool { return m == Moment{} }

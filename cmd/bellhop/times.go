package main

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
)

// stamp returns a time as it is printed: in the local zone for people, on a
// terminal, and in UTC elsewhere, so that programs and machines agree.
func (a *app) stamp(t time.Time) string {
	if text.IsTerminal(a.out) {
		return t.Local().Format(text.StampLayout)
	}
	return t.UTC().Format(text.StampLayout)
}

// tellsWithin is how long Redis may take to tell the time.
const tellsWithin = 2 * time.Second

// now returns the time by Redis's clock, by which all times of messages are. It is zero if
// Redis does not tell it, and for JSON: what is printed then has no distances from it.
func (a *app) now(ctx context.Context, s *session) time.Time {
	if a.json {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, tellsWithin)
	defer cancel()
	now, err := s.store.Now(ctx)
	if err != nil {
		return time.Time{}
	}
	return now
}

// when returns a time and its distance from now; "-" for none.
func (a *app) when(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case now.IsZero():
		return a.stamp(t)
	}
	return a.stamp(t) + " (" + text.Relative(t, now) + ")"
}

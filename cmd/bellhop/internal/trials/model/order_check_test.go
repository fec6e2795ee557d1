package model_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// The check finds an order if there is one, and only then.
func TestCheck(t *testing.T) {
	t.Parallel()
	// At is a publish that was answered, and that begins and ends at some ms.
	at := func(begin, end, key int64, mode notify.IfExists, answer string, due, previous int64) call {
		c := call{Key: key, Begin: begin * 1000, End: end * 1000, Answered: true, Mode: mode, Delay: 100, Limit: 1, Answer: answer, Due: due, Previous: previous}
		if due > 0 {
			c.State = "scheduled"
		}
		return c
	}
	lost := func(c call) call { // its answer was lost
		c.Answered, c.Answer, c.State, c.Due, c.Previous = false, "", "", 0, 0
		return c
	}
	waiting := func(c call, wait int64) call {
		c.MaxWait = wait
		return c
	}
	made := at(10, 11, 1, notify.Refuse, "created", 110, 0)
	claimed := call{Kind: claiming, Key: 7, Begin: 111_000, End: 112_000, Lease: 100, Answered: true, Body: 1, Attempt: 1, Due: 110, First: 110, Published: 10}
	acked := call{Kind: acking, Key: 8, Begin: 113_000, End: 114_000, Lease: 7, Answered: true, Answer: "ok"}
	early, other, lostLease := claimed, claimed, acked
	early.Begin, early.End, other.Body = 105_000, 106_000, 2
	lostLease.Answer = "lost"
	for name, test := range map[string]struct {
		calls []call
		right bool
	}{
		"one after the other":      {[]call{made, at(20, 21, 2, notify.Refuse, "exists", 0, 0)}, true},
		"created twice":            {[]call{made, at(20, 21, 2, notify.Refuse, "created", 120, 0)}, false},
		"overlapping, other order": {[]call{at(10, 30, 1, notify.Refuse, "exists", 0, 0), at(20, 40, 2, notify.Refuse, "created", 130, 0)}, true},
		"overlapping, both":        {[]call{at(10, 30, 1, notify.Refuse, "created", 115, 0), at(20, 40, 2, notify.Refuse, "created", 130, 0)}, false},
		"without an answer, done":  {[]call{lost(made), at(20, 21, 2, notify.Refuse, "exists", 0, 0)}, true},
		"without an answer, not":   {[]call{lost(made), at(20, 21, 2, notify.Refuse, "created", 120, 0)}, true},
		"kept, another due time":   {[]call{made, at(20, 21, 2, notify.Keep, "kept", 120, 120)}, false},
		"put off":                  {[]call{made, at(20, 21, 2, notify.Debounce, "moved", 120, 110)}, true},
		"put off, not far enough":  {[]call{made, at(20, 21, 2, notify.Debounce, "moved", 119, 110)}, false},
		"put off as far as it may": {[]call{made, waiting(at(20, 21, 2, notify.Debounce, "moved", 115, 110), 105)}, true},
		"put off too far":          {[]call{made, waiting(at(20, 21, 2, notify.Debounce, "moved", 120, 110), 105)}, false},
		"another due time before":  {[]call{made, at(20, 21, 2, notify.Debounce, "moved", 120, 111)}, false},
		"claimed":                  {[]call{made, claimed, acked}, true},
		"claimed early":            {[]call{made, early}, false},
		"claimed, another body":    {[]call{made, other}, false},
		"kept while leased":        {[]call{made, claimed, at(150, 151, 3, notify.Keep, "kept", 110, 110)}, false},
		"lost in time":             {[]call{made, claimed, lostLease}, false},
		"in use after the end":     {[]call{made, claimed, acked, at(150, 151, 3, notify.Refuse, "exists", 0, 0)}, false},
	} {
		if err := check(test.calls); err == nil != test.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}

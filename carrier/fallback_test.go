package carrier

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

func TestLookout(t *testing.T) {
	t.Parallel()
	const second = int64(1_000_000)
	for _, test := range []struct {
		name   string
		known  int64 // when it went to sleep
		byBeat bool
		before []int64 // nudges heard in the sleep
		after  []int64 // and behind the call
		due    int64
		want   bool
	}{
		{name: "nobody told of it", known: record.Never, byBeat: true, due: 9 * second, want: true},
		{name: "known to be due", known: 9 * second, byBeat: true, due: 9 * second},
		{name: "told of in time", known: record.Never, byBeat: true, before: []int64{9 * second}, due: 9 * second},
		{name: "told of another", known: record.Never, byBeat: true, before: []int64{11 * second}, due: 9 * second, want: true},
		{name: "no beat", known: record.Never, due: 9 * second},
		{name: "not late", known: record.Never, byBeat: true, due: 10*second - 50_000},
		{name: "somewhat late", known: record.Never, byBeat: true, due: 10*second - 50_001, want: true},
		{name: "nothing", known: record.Never, byBeat: true, due: record.Never},
		{name: "a nudge that coincides with the beat", known: record.Never, byBeat: true, after: []int64{9 * second}, due: 9 * second},
		{name: "one of another that follows", known: record.Never, byBeat: true, after: []int64{12 * second}, due: 9 * second, want: true},
		{name: "a connection that stands anew", known: record.Never, byBeat: true, after: []int64{0}, due: 9 * second, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l lookout
			l.noteSleep(test.known)
			for _, due := range test.before {
				l.noteNudge(due)
			}
			l.byBeat = test.byBeat
			told := l.carried(Carried{Moved: 1}, test.due, 10*second)
			l.noteBeat(store.Event{Kind: reach.Beat, Payload: "1 9999 orders"})
			if told == nil && l.decided(l.beat.Load()) != nil {
				t.Error("decided by the beat before")
			}
			l.noteSleep(record.Never)
			for _, due := range test.after {
				l.noteNudge(due)
			}
			l.noteBeat(store.Event{Kind: reach.Beat, Payload: "1 10000"})
			l.noteBeat(store.Event{Kind: reach.Received, Payload: "1 1"})
			if told == nil {
				told = l.decided(l.beat.Load())
			}
			if told == nil || told.Moved != 1 || told.Fallback != test.want {
				t.Errorf("told %+v, want a fallback: %v", told, test.want)
			}
			if l.decided(l.beat.Load()) != nil {
				t.Error("told twice")
			}
		})
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	runs := []store.Run{{Due: 1_000_000, N: 3}, {Due: 2_000_000, N: 1}, {Due: 9_999_000, N: 2}}
	if got := lateness(runs, 2_000_250); len(got) != 3 ||
		got[0] != (Lateness{1000250 * time.Microsecond, 3}) || got[1] != (Lateness{250 * time.Microsecond, 1}) || got[2].Late != 0 {
		t.Errorf("got %v", got)
	}
}

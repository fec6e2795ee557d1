package notify_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// Nothing is put into a foreign scheduled set: the call returns an error and changes nothing.
// Other topics, and ready messages, are not affected.
func TestForeignSchedule(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish leased
	claim 1 = leased
	publish ready
	redis SET scheduled:order.timeout x
	freeze
	publish a due=future = ~the scheduled set of
	nack leased delay=1h = ~the scheduled set of
	reschedule ready delay=1h = ~the scheduled set of
	frozen
	publish a topic=another due=future
	publish b
	cancel ready = ready
	cancel b = ready
	counts leased=1 published=3
	`, scenario())
}

// The same holds for a foreign index of scheduled sets.
func TestForeignIndexOfScheduledSets(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish waits due=future
	publish ready
	redis SET scheduled x
	freeze
	publish a due=future = ~foreign
	reschedule ready delay=1h = ~foreign
	frozen
	cancel waits = scheduled
	claim 1 = ready
	`, scenario())
}

// The index of scheduled sets has each topic's first due time, whatever comes and goes.
func TestHeadOfAScheduledSet(t *testing.T) {
	t.Parallel()
	s := scenario()
	s.Verbs["first"] = func(p *storetest.Player, words []string) string { // the first is due at that time, of 2199
		storetest.Heads(p, p.Store)
		return score(p, p.Store, "scheduled", topic).UTC().Format("15:04")
	}
	storetest.Play(t, `
	publish b due=2199-01-02T04:00:00Z
	first = 04:00
	publish a due=2199-01-02T03:00:00Z
	first = 03:00
	publish c due=2199-01-02T05:00:00Z
	first = 03:00
	reschedule a due=2199-01-02T06:00:00Z = scheduled
	first = 04:00
	cancel b = scheduled
	first = 05:00
	cancel a = scheduled
	cancel c = scheduled
	empty
	`, s)
}

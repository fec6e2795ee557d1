package subscribers_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// While nobody carries, what comes to be due at once, in any way, waits behind
// what is overdue in its topic; then it is carried in the order of due times.
func TestOrderBehindWhatIsOverdue(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish dead
	claim 1 = dead
	bury dead
	publish hand
	claim 1 = hand
	publish ready
	publish a delay=1ms
	publish later delay=1h
	pass 5ms                        # a is overdue
== published
	publish b
	claim 9 = ready
	carry
	claim 9 = a b
== published among others
	publish c b
	publish d topic=other = ready
	claim 9 = ready
	carry
	claim 9 = a b c
== published as long due
	publish b due=past
	claim 9 = ready
	carry
	claim 9 = a b
== rescheduled
	reschedule later delay=0s = ready
	is later=scheduled
	claim 9 = ready
	carry
	claim 9 = a later
== rescheduled from ready
	reschedule ready delay=0s = ready
	is ready=scheduled
	claim 9 = nothing
	carry
	claim 9 = a ready
== requeued
	requeue dead
	claim 9 = ready
	carry
	claim 9 = a dead
== released without a due time
	release hand
	claim 9 = ready
	carry
	claim 9 = a hand
== released with its due time
	return hand
	claim 9 = hand ready
	carry
	claim 9 = a
== resumed
	pause
	publish b
	resume
	claim 9 = ready
	carry
	claim 9 = a b
	`, storetest.Scenario{
		Verbs: map[string]func(*storetest.Player, []string) string{
			"return": func(p *storetest.Player, words []string) string {
				back := store.Return{Lease: p.Leases(topic, words[0])[0], Due: inspect(p.T, p.Store, "ready").Due.Add(-1)}
				lost, err := p.Shard.Release(p.Context(), topic, reach.Inbox{}, 0, []store.Return{back})
				storetest.Is(p, "lost", len(lost), 0)
				return storetest.Said(err)
			},
		},
		After: func(p *storetest.Player) { storetest.Heads(p, p.Store) },
	})
}

package store_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// housekeeping has the verbs of a scenario about what the housekeeping does with groups.
var housekeeping = storetest.Scenario{Verbs: map[string]func(*storetest.Player, []string) string{
	// sweep: as many steps as look at all groups.
	"sweep": func(p *storetest.Player, _ []string) string {
		var w store.Sweep
		for range 4 {
			swept := p.Sweep(w)
			w.Group, w.Seat = swept.Group, swept.Seat
		}
		return "ok"
	},
	// age N TIME: that time of the group of that number was at the beginning of all times.
	"age": func(p *storetest.Player, words []string) string {
		keys := p.Store.KeysOf(p.Topic)
		head, err := p.Store.Client().HGet(p.Context(), keys.GroupsOf(p.Topic), "#"+words[0]).Result()
		storetest.Must(p, err)
		aged := regexp.MustCompile(words[1]+`=\d+`).ReplaceAllString(head, words[1]+"=1")
		if aged == head {
			return "it is not " + words[1]
		}
		return storetest.Said(p.Store.Client().HSet(p.Context(), keys.GroupsOf(p.Topic), "#"+words[0], aged).Err())
	},
	// ghost ID SCORE: an entry of nobody, as a call leaves that stops half way.
	"ghost": func(p *storetest.Player, words []string) string {
		var score float64
		fmt.Sscan(words[1], &score)
		return storetest.Said(p.Store.Client().ZAdd(p.Context(), p.Store.KeysOf(p.Topic).Grouped(p.Topic), redis.Z{Member: words[0], Score: score}).Err())
	},
}}

// A complete group is kept for an hour, so that its name stays taken, and one that nobody waits for, and nobody is in, for a week.
func TestGroupsAreForgotten(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a group=g
== complete
	claim 1 = a
	publish done after_group=orders:g on_dead=go = scheduled
	bury a = dead
	carry
	has done died=1
	age 1 complete
	sweep
	publish b group=g = complete      # one of it is dead still
	purge a
	sweep
	redis EXISTS groups:orders grouped = 0
	publish b group=g = ready
== complete and young
	cancel a = ready
	publish done after_group=orders:g = scheduled
	carry
	sweep
	publish b group=g = complete
== open
	cancel a = ready
	sweep
	redis EXISTS groups:orders = 1
	age 1 changed
	sweep
	redis EXISTS groups:orders grouped = 0
== open with one in it
	age 1 changed
	sweep
	redis HGET groups:orders g = 1
== of which the callback was cancelled
	publish done after_group=orders:g = scheduled
	cancel done = scheduled
	cancel a = ready
	age 1 changed
	sweep
	redis EXISTS groups:orders = 0
	`, housekeeping)
}

// What a call leaves that stopped half way holds a group until the housekeeping looks.
func TestGroupsAreMended(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a group=g delay=1h
	publish plain delay=1h
	publish done after_group=orders:g on_dead=go = scheduled
== an entry of nobody
	ghost nobody 1
	cancel a = scheduled
	has done left=1
	carry
	is done=scheduled
	sweep
	has done left=0
	carry
	has done left=none
== an entry of one that has no group
	ghost plain 1
	cancel a = scheduled
	carry
	has done left=1
	cancel plain = scheduled
	has done left=0
== one that lives and counts as dead
	ghost a 1.5
	has done left=0
	sweep
	has done left=1
	carry
	is done=scheduled
	has done left=1
== one that is dead and counts as living
	reschedule a delay=0s = ready
	claim 1 = a
	bury a = dead
	ghost a 1
	has done left=1
	sweep
	has done left=0
	carry
	has done died=1
== a look that is lost
	cancel a = scheduled
	redis DEL alarms
	carry
	is done=scheduled
	has done left=0
	sweep
	carry
	has done left=none cancelled=1
	`, housekeeping)
}

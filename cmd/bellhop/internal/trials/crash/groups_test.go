package crash_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var groupsFlag = flag.Int("crash.groups", 300, "how many groups TestGroupsWhileProcessesAreKilled publishes, at least")

const (
	addedRows    = 5           // that a handler publishes
	importers    = 8           // goroutines of the publisher
	secondLife   = 1000        // is added to the attempts of those that were dead
	sinceRequeue = ".requeued" // behind the name of the ledger: a file that is there once dead letters were requeued
)

// An importHouse is a house of groups.
type importHouse struct {
	*house
	all []importing
}

// openImports starts all of it.
func openImports(t *testing.T, groups int) *importHouse {
	t.Helper()
	h := &importHouse{house: newHouse(t, "imports")}
	n := 0
	for ; len(h.all) < groups; n++ {
		h.all = append(h.all, importOf(n)...)
	}
	for _, topic := range []string{rowTopic, partTopic} {
		h.set(topic, notify.SettingsChange{})
	}
	h.publish = func() *process { return h.employ("row-publisher", fmt.Sprint("CRASH_COUNT=", n)) }
	h.work = func(int) *process { return h.employ("row-worker") }
	h.done = h.came
	h.open(2)
	return h
}

// came returns how many callbacks were handled.
func (h *importHouse) came() (n int) {
	h.Helper()
	h.read()
	for _, one := range h.all {
		if h.ledger.ended(one.callback) {
			n++
		}
	}
	return n
}

// requeue requeues the dead letters that groups wait for.
func (h *importHouse) requeue() {
	h.Helper()
	var ids []string
	for _, one := range h.all {
		if one.onDead == "stop" && !h.ledger.ended(one.callback) {
			ids = append(ids, slices.DeleteFunc(slices.Clone(one.rows), func(id string) bool { return !dies(id) })...)
		}
	}
	_, err := storetest.Inspector(h.T, h.store).Requeue(h.Context(), rowTopic, ids...)
	storetest.Must(h.T, err)
}

// complete checks that all groups are complete, and nobody is left.
func (h *importHouse) complete() {
	h.Helper()
	n := 0
	for _, topic := range []string{rowTopic, partTopic} {
		for cursor, more := "", true; more; more = cursor != "" {
			var groups []store.Group
			var err error
			groups, cursor, err = store.ListGroups(h.Context(), h.store, topic, cursor, store.MaxGroups)
			storetest.Must(h.T, err)
			for _, g := range groups {
				if g.State != store.GroupDone || g.Left != 0 {
					h.Errorf("%s of %s is %s, and %d are left", g.Name, topic, g.State, g.Left)
				}
			}
			n += len(groups)
		}
	}
	storetest.Is(h.T, "groups that are complete", n, len(h.all))
}

// A publisher of groups of up to 50 members, workers, daemons and Redis are killed by kill -9 in turns, while members are handled as they are
// published. By the ledger of the handlers each callback comes once, and again only if its own lease ended; and behind the end of each member of its
// group: also of those that a member added, or that were dead until they were requeued, and where the members are the callbacks of other groups.
func TestGroupsWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	h := openImports(t, *groupsFlag)
	defer h.explain()
	held := 0
	for _, one := range h.all {
		if one.onDead == "stop" {
			held++
		}
	}
	began := time.Now()
	h.killUntil(len(h.all)-held, max(1, len(h.all)/200), func() {})
	h.published()
	storetest.Is(t, "callbacks that came before dead letters were requeued", h.came(), len(h.all)-held)
	storetest.Must(t, os.WriteFile(h.file.Name()+sinceRequeue, nil, 0o600))
	h.killUntil(len(h.all), max(1, len(h.all)/200), h.requeue)
	h.rest(rowTopic, partTopic)
	h.complete()
	h.came()
	wrong, again := h.ledger.against(h.all)
	h.blame(wrong)
	h.report(time.Since(began), again)
}

// explain prints what is not done, if the test failed.
func (h *importHouse) explain() {
	if !h.Failed() {
		return
	}
	for _, one := range h.all {
		if h.ledger.ended(one.callback) {
			continue
		}
		g, some, err := store.ShowGroup(context.Background(), h.store, one.topic, one.name)
		h.Logf("the first group that is not done: %+v, %+v, %v", g, some, err)
		break
	}
	h.house.explain()
}

// report prints what was done.
func (h *importHouse) report(took time.Duration, again int) {
	members, repeated := 0, 0
	for _, one := range h.all {
		members += len(h.ledger.members(one))
		for _, id := range h.ledger.members(one) {
			if len(h.ledger.runs[id]) > 1 {
				repeated++
			}
		}
	}
	h.Logf("%d groups of %d messages in %.0f s; killed %v; %d messages and %d callbacks came again", len(h.all), members, took.Seconds(), h.kills, repeated, again)
}

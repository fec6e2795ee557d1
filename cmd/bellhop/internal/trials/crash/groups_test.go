package crash_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var groupsFlag = flag.Int("crash.groups", 300, "how many groups TestGroupsWhileProcessesAreKilled publishes, at least")

const (
	addedRows    = 5 // that a handler publishes
	importers    = 8 // goroutines of the publisher
	importLease  = time.Second
	secondLife   = 1000        // is added to the attempts of those that were dead
	sinceRequeue = ".requeued" // behind the name of the ledger: a file that is there once dead letters were requeued
)

// An importHouse has a publisher of groups, workers and daemons, which are killed, as is Redis.
type importHouse struct {
	*testing.T
	all       []importing
	redis     *redisserver.Server
	store     *notify.Store
	ledger    importLedger
	file      *os.File // ledger
	publisher *process
	workers   []*process
	daemons   []*process
	kills     map[string]int
}

// openImports starts all of it.
func openImports(t *testing.T, groups int) *importHouse {
	t.Helper()
	h := &importHouse{T: t, kills: make(map[string]int)}
	for n := 0; len(h.all) < groups; n++ {
		h.all = append(h.all, importOf(n)...)
	}
	var err error
	h.file, err = os.Create(filepath.Join(t.TempDir(), "ledger"))
	storetest.Must(t, err)
	t.Cleanup(func() { h.file.Close() })
	h.redis = storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	h.store = storetest.At(t, h.redis.URL(), "imports")
	for _, topic := range []string{rowTopic, partTopic} {
		storetest.Set(t, h.store, topic, notify.SettingsChange{Lease: new(importLease), Attempts: new(1000), BackoffMin: new(time.Millisecond), BackoffMax: new(50 * time.Millisecond)})
	}
	for range 2 {
		h.daemons = append(h.daemons, h.daemon())
		h.workers = append(h.workers, h.worker())
	}
	h.publish()
	return h
}

func (h *importHouse) daemon() *process {
	return startDaemon(h.T, h.store, nil, "CARRIER_LEASE=600ms", "REDIS_URL="+h.redis.URL())
}

func (h *importHouse) worker() *process {
	return start(h.T, h.store, "row-worker", func(string) {}, "CRASH_NAME="+h.file.Name())
}

func (h *importHouse) publish() {
	last := strings.Split(h.all[len(h.all)-1].name, ".")[0]
	n, _ := strconv.Atoi(last)
	h.publisher = start(h.T, h.store, "row-publisher", func(string) {}, "CRASH_NAME="+h.file.Name(), fmt.Sprint("CRASH_COUNT=", n+1))
}

// killPublisher kills the publisher, which runs again, unless all is published.
func (h *importHouse) killPublisher() {
	select {
	case <-h.publisher.ended:
	default:
		h.kills["the publisher"]++
		h.publisher.end(syscall.SIGKILL)
		h.publish()
	}
}

func (h *importHouse) killWorker() {
	h.kills["workers"]++
	h.workers[0].end(syscall.SIGKILL)
	h.workers = append(h.workers[1:], h.worker())
}

// killCarrier kills the daemon that carries.
func (h *importHouse) killCarrier() {
	h.kills["carriers"]++
	pid := func(p *process) string { return fmt.Sprint(":", p.Process.Pid) }
	storetest.Eventually(h.T, "a daemon carries", func() bool {
		now := elected(h.T, h.store, "").Name
		i := slices.IndexFunc(h.daemons, func(p *process) bool { return strings.HasSuffix(now, pid(p)) })
		if i >= 0 {
			h.daemons[i].end(syscall.SIGKILL)
			h.daemons[i] = h.daemon()
		}
		return i >= 0
	})
}

// killRedis kills Redis for a while.
func (h *importHouse) killRedis() {
	h.kills["Redis"]++
	h.redis.Kill()
	time.Sleep(rand.N(300 * time.Millisecond))
	redis, err := h.redis.Restart(h.Context())
	storetest.Must(h.T, err)
	h.Cleanup(redis.Stop)
	h.redis = redis
}

// came returns how many callbacks were handled.
func (h *importHouse) came() (n int) {
	h.Helper()
	text := make([]byte, 1<<20)
	size, _ := h.file.Read(text) // io.EOF is none: it grows
	whole := strings.LastIndexByte(string(text[:size]), '\n') + 1
	_, err := h.file.Seek(int64(whole-size), 1)
	storetest.Must(h.T, err)
	h.ledger.add(text[:whole])
	for _, one := range h.all {
		if h.ledger.ended(one.callback) {
			n++
		}
	}
	return n
}

// killUntil kills one after the other, each time once some more callbacks were handled, until enough were.
func (h *importHouse) killUntil(enough int, meanwhile func()) {
	h.Helper()
	victims := []func(){h.killPublisher, h.killWorker, h.killRedis, h.killCarrier}
	for n := 0; h.came() < enough; n++ {
		next := min(h.came()+1+rand.IntN(max(1, len(h.all)/200)), enough)
		storetest.Eventually(h.T, fmt.Sprintf("%d callbacks were handled", next), func() bool {
			meanwhile()
			return h.came() >= next
		})
		victims[n%len(victims)]()
	}
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
	h.killUntil(len(h.all)-held, func() {})
	storetest.Receive(t, "all is published", h.publisher.ended)
	storetest.Is(t, "the exit code of "+h.publisher.log(), h.publisher.ProcessState.ExitCode(), 0)
	storetest.Is(t, "callbacks that came before dead letters were requeued", h.came(), len(h.all)-held)
	storetest.Must(t, os.WriteFile(h.file.Name()+sinceRequeue, nil, 0o600))
	h.killUntil(len(h.all), h.requeue)
	for _, topic := range []string{rowTopic, partTopic} {
		storetest.Eventually(t, "no message is scheduled, ready or leased", func() bool {
			c, err := storetest.Count(h.store, topic)
			return err == nil && c.Scheduled+c.Ready+c.Leased == 0
		})
	}
	h.complete()
	h.came()
	wrong, again := h.ledger.against(h.all)
	for i, text := range wrong {
		if i == 20 {
			t.Fatalf("and %d more", len(wrong)-i)
		}
		t.Error(text)
	}
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
	for _, p := range slices.Concat(h.daemons, h.workers) {
		log := p.log()
		h.Logf("%v says at the end: %s", p.Env[len(p.Env)-2:], log[max(0, len(log)-500):])
	}
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

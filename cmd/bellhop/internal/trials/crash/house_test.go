package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A house has a publisher, workers and daemons, which are killed, as is Redis, and the ledger of what they did.
type house struct {
	*testing.T
	redis   *redisserver.Server
	store   *notify.Store
	ledger  runLedger
	file    *os.File           // ledger
	publish func() *process    // starts the publisher
	work    func(int) *process // starts a worker, by how many there were before
	done    func() int         // returns how much of what is to be done the ledger has

	publisher *process
	workers   []*process
	daemons   []*process
	kills     map[string]int
}

// newHouse starts a Redis that forgets nothing.
func newHouse(t *testing.T, prefix string) *house {
	t.Helper()
	h := &house{T: t, kills: make(map[string]int)}
	var err error
	h.file, err = os.Create(filepath.Join(t.TempDir(), "ledger"))
	storetest.Must(t, err)
	t.Cleanup(func() { h.file.Close() })
	h.redis = storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	h.store = storetest.At(t, h.redis.URL(), prefix)
	return h
}

// set changes settings of a topic, so that what is killed is soon made good.
func (h *house) set(topic string, c notify.SettingsChange) {
	h.Helper()
	c.Lease, c.Attempts, c.BackoffMin, c.BackoffMax = new(heldFor), new(1000), new(time.Millisecond), new(50*time.Millisecond)
	storetest.Set(h.T, h.store, topic, c)
}

// open starts two daemons, so many workers, and the publisher.
func (h *house) open(workers int) {
	for range 2 {
		h.daemons = append(h.daemons, h.daemon())
	}
	for n := range workers {
		h.workers = append(h.workers, h.work(n))
	}
	h.publisher = h.publish()
}

func (h *house) daemon() *process {
	return startDaemon(h.T, h.store, nil, "CARRIER_LEASE=600ms", "REDIS_URL="+h.redis.URL())
}

// employ starts a process in a role that writes the ledger.
func (h *house) employ(role string, env ...string) *process {
	return start(h.T, h.store, role, func(string) {}, append(env, "CRASH_NAME="+h.file.Name())...)
}

// killPublisher kills the publisher, which runs again, unless all is published.
func (h *house) killPublisher() {
	select {
	case <-h.publisher.ended:
	default:
		h.kills["the publisher"]++
		h.publisher.end(syscall.SIGKILL)
		h.publisher = h.publish()
	}
}

func (h *house) killWorker() {
	h.workers[0].end(syscall.SIGKILL)
	h.workers = append(h.workers[1:], h.work(len(h.workers)+h.kills["workers"]))
	h.kills["workers"]++
}

// killCarrier kills the daemon that carries.
func (h *house) killCarrier() {
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
func (h *house) killRedis() {
	h.kills["Redis"]++
	h.redis.Kill()
	time.Sleep(rand.N(300 * time.Millisecond))
	redis, err := h.redis.Restart(h.Context())
	storetest.Must(h.T, err)
	h.Cleanup(redis.Stop)
	h.redis = redis
}

// read reads what was written to the ledger since.
func (h *house) read() {
	h.Helper()
	text := make([]byte, 1<<20)
	size, _ := h.file.Read(text) // io.EOF is none: it grows
	whole := strings.LastIndexByte(string(text[:size]), '\n') + 1
	_, err := h.file.Seek(int64(whole-size), 1)
	storetest.Must(h.T, err)
	h.ledger.add(text[:whole])
}

// killUntil kills one after the other, each time once some more is done, until enough is.
func (h *house) killUntil(enough, most int, meanwhile func()) {
	h.Helper()
	victims := []func(){h.killPublisher, h.killWorker, h.killRedis, h.killCarrier}
	for n := 0; h.done() < enough; n++ {
		next := min(h.done()+1+rand.IntN(most), enough)
		storetest.Eventually(h.T, fmt.Sprintf("%d are done", next), func() bool {
			meanwhile()
			return h.done() >= next
		})
		victims[n%len(victims)]()
	}
}

// rest waits until no message of some topics is scheduled, ready or leased.
func (h *house) rest(topics ...string) {
	h.Helper()
	for _, topic := range topics {
		storetest.Eventually(h.T, "no message of "+topic+" is scheduled, ready or leased", func() bool {
			c, err := storetest.Count(h.store, topic)
			return err == nil && c.Scheduled+c.Ready+c.Blocked+c.Leased == 0
		})
	}
}

// published checks that all is published.
func (h *house) published() {
	h.Helper()
	storetest.Receive(h.T, "all is published", h.publisher.ended)
	storetest.Is(h.T, "the exit code of "+h.publisher.log.String(), h.publisher.ProcessState.ExitCode(), 0)
}

// blame fails the test for each fault that the ledger shows.
func (h *house) blame(wrong []string) {
	h.Helper()
	for i, text := range wrong {
		if i == 20 {
			h.Fatalf("and %d more", len(wrong)-i)
		}
		h.Error(text)
	}
}

// explain prints what the processes logged last, if the test failed.
func (h *house) explain() {
	if !h.Failed() {
		return
	}
	for _, p := range slices.Concat(h.daemons, h.workers, []*process{h.publisher}) {
		log := p.log.String()
		h.Logf("%v says at the end: %s", p.Env[len(p.Env)-2:], log[max(0, len(log)-500):])
	}
}

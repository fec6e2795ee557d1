package crash_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// lines are what a process printed.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
}

func (l *lines) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.all {
		if strings.HasPrefix(text, id+" ") {
			return true
		}
	}
	return false
}

// isHanded reports whether the message m is leased by a hand-over, and whether that is confirmed.
func isHanded(t *testing.T, db *notify.Store) (leased, confirmed bool) {
	t.Helper()
	score, err := db.Client().Do(t.Context(), "ZSCORE", db.Keys().Leased(), record.Member(topic, "m")).Text()
	return err == nil, err == nil && !strings.HasSuffix(score, ".5")
}

// A point is where a subscriber is killed, between a hand-over and its acknowledgement.
type point struct {
	stopped bool   // it does not receive the hand-over
	lacks   string // command of Redis that its scripts lack
	pause   string // of its handler

	reached func(t *testing.T, db *notify.Store, printed *lines) bool

	least, most int // the next attempt
}

// Wherever kill -9 meets a subscriber that was handed a message, the message comes again. No
// attempt is used up before the subscriber has confirmed.
func TestKillAfterHandover(t *testing.T) {
	t.Parallel()
	begun := func(_ *testing.T, _ *notify.Store, printed *lines) bool { return printed.has("m") }
	for name, p := range map[string]point{
		"on its way": {stopped: true, pause: "1m", least: 1, most: 1, reached: func(t *testing.T, db *notify.Store, _ *lines) bool {
			leased, _ := isHanded(t, db)
			return leased
		}},
		"not confirmed": {lacks: "zadd", pause: "1m", least: 1, most: 1, reached: begun},
		"confirmed": {pause: "1m", least: 2, most: 2, reached: func(t *testing.T, db *notify.Store, _ *lines) bool {
			_, confirmed := isHanded(t, db)
			return confirmed
		}},
		"handled": {lacks: "hdel", pause: "0s", least: 1, most: 2, reached: begun}, // it may be confirmed
	} {
		t.Run(name, func(t *testing.T) { p.kill(t) })
	}
}

func (p point) kill(t *testing.T) {
	server := storetest.Server(t)
	db := storetest.At(t, server.URL(), "")
	watch := standstill.Start(t)
	storetest.Set(t, db, topic, notify.SettingsChange{Lease: new(record.HandoverLease)})
	run(t, db)
	setUser(t, db, "victim", "on", ">secret", "~*", "&*", "+@all")
	printed := new(lines)
	url := strings.Replace(server.URL(), "redis://", "redis://victim:secret@", 1)
	victim := start(t, db, "worker", printed.add, "CRASH_PAUSE="+p.pause, "CRASH_URL="+url)
	waiting(t, db)
	if p.stopped {
		pause(t, victim)
	}
	if p.lacks != "" {
		setUser(t, db, "victim", "-"+p.lacks)
	}
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "m", Body: []byte("x")})
	storetest.Eventually(t, "the point is reached", func() bool { return p.reached(t, db, printed) })
	victim.end(syscall.SIGKILL)
	killed := clock(t, db)
	l := newLedger()
	worker(t, db, l, subscribers.HandleOptions{})
	gone(t, db)
	if at, again := l.claimed["m"]; again {
		watch.Judge(t, "its coming again", killed, at, record.HandoverLease+record.HandoverSpare) // the lease, whole as it was killed
	}
	if got := l.handled["m"]; len(got) != 1 || got[0] < p.least || got[0] > p.most {
		t.Errorf("handled in attempts %v, want one of %d to %d", got, p.least, p.most)
	}
	storetest.Empty(t, db)
}

// pause stops a process as a debugger does, and waits until it has stopped.
func pause(t *testing.T, p *process) {
	t.Helper()
	storetest.Must(t, p.Process.Signal(syscall.SIGSTOP))
	storetest.Eventually(t, "the process is stopped", func() bool { return p.state(t) == "T" })
}

// A subscriber that is stopped in a debugger is handed one message. It gets no second one, and
// others handle both.
func TestStoppedSubscriberIsHandedOne(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	printed := new(lines)
	stopped := start(t, db, "worker", printed.add, "CRASH_PAUSE=0s")
	waiting(t, db)
	pause(t, stopped)
	for _, id := range []string{"m", "n"} {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: id, Body: []byte("x")})
	}
	if c, err := storetest.Count(db, topic); err != nil || c.Leased != 1 || c.Ready != 1 {
		t.Errorf("it has %+v, %v", c, err)
	}
	run(t, db) // by which the hand-over lapses
	l := newLedger()
	stop := worker(t, db, l, subscribers.HandleOptions{})
	gone(t, db)
	l.check(t, 2)
	l.once(t)
	stop()
	storetest.Must(t, stopped.Process.Signal(syscall.SIGCONT))
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "o", Body: []byte("x")})
	storetest.Eventually(t, "it goes on", func() bool { return printed.has("o") })
	gone(t, db)
	if printed.has("n") {
		t.Error("it handled the message that it was not handed")
	}
	storetest.Empty(t, db)
}

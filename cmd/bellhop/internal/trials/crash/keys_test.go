package crash_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The topic whose messages have accounts as keys, and what a publisher publishes to it.
const (
	accounts   = "accounts"
	perBook    = 5  // accounts of a publisher
	perAccount = 40 // messages
)

// publishEntries publishes the messages of some accounts, one after the other.
func publishEntries(ctx context.Context, store *notify.Store) error {
	pub, err := notify.NewPublisher(store)
	if err != nil {
		return err
	}
	for i := range perBook * perAccount {
		account := fmt.Sprintf("%s.%d", os.Getenv("CRASH_NAME"), i%perBook)
		m := notify.Message{Topic: accounts, ID: fmt.Sprintf("%s.%06d", account, i/perBook), Key: account, Body: []byte("x")}
		if _, err := pub.Publish(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// enterEntries prints a line when a handler begins, and one when it is done. Some fail.
func enterEntries(ctx context.Context, store *notify.Store, logger *slog.Logger) error {
	sub, err := subscribers.NewSubscriber(store, subscribers.SubscriberOptions{Logger: logger})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	note := func(what string, d *subscribers.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s %s %s %d %d\n", what, d.Key, d.ID, d.Fence, time.Now().UnixMicro())
	}
	err = sub.Handle(accounts, func(_ context.Context, d *subscribers.Delivery) error {
		note("begin", d)
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		if rand.IntN(20) == 0 {
			note("fail", d)
			return subscribers.RetryAfter(errors.New("not this time"), time.Millisecond)
		}
		note("end", d)
		return nil
	}, subscribers.HandleOptions{Concurrency: 8})
	if err != nil {
		return err
	}
	return sub.Run(ctx)
}

// An entry is one run of a handler.
type entry struct {
	id           string
	fence        int64
	began, ended int64 // us; 0: it was killed
}

// entries are what handlers of several processes printed.
type entries struct {
	mu   sync.Mutex
	of   map[string]map[int64]*entry // account → fence
	done map[string]bool             // ids
}

func (e *entries) line(text string) {
	var what, account, id string
	var fence, at int64
	if _, err := fmt.Sscan(text, &what, &account, &id, &fence, &at); err != nil {
		return // a process was killed in the middle of a line
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if what == "begin" {
		if e.of[account] == nil {
			e.of[account] = make(map[int64]*entry)
		}
		e.of[account][fence] = &entry{id: id, fence: fence, began: at}
		return
	}
	e.of[account][fence].ended = at
	if what == "end" {
		e.done[id] = true
	}
}

func (e *entries) size() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.done)
}

// check checks that each account's messages were handled in their order, by their fences, and never two at once.
func (e *entries) check(t *testing.T, lease time.Duration) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for account, all := range e.of {
		next, last := 0, (*entry)(nil)
		for _, fence := range slices.Sorted(maps.Keys(all)) {
			one := all[fence]
			if last != nil && last.ended > one.began && last.ended-last.began < lease.Microseconds() {
				t.Errorf("%s began %d us before %s ended", one.id, last.ended-one.began, last.id)
			}
			if last == nil || last.id != one.id {
				if want := fmt.Sprintf("%s.%06d", account, next); one.id != want {
					t.Errorf("%s was handled, want %s", one.id, want)
					break
				}
				next++
			}
			last = one
		}
		if next != perAccount {
			t.Errorf("%d of %s were handled, want %d", next, account, perAccount)
		}
	}
}

// Ten publishers, five workers of eight hands and two carriers, of which one after the other is killed: each account's messages are handled
// in order, no two at once, and all of them, also where the topic has limits.
func TestKeysWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	const books, workers, kills, lease = 10, 5, 12, 2 * time.Second
	db := storetest.Open(t)
	storetest.Set(t, db, accounts, notify.SettingsChange{Lease: new(lease), Attempts: new(1000), Concurrency: new(30)})
	e := &entries{of: make(map[string]map[int64]*entry), done: make(map[string]bool)}
	silent := func(string) {}
	crew := []func() *process{
		func() *process { return start(t, db, "carrier", silent, "CRASH_NAME=one") },
		func() *process { return start(t, db, "carrier", silent, "CRASH_NAME=two") },
	}
	for range workers {
		crew = append(crew, func() *process { return start(t, db, "bookkeeper", e.line) })
	}
	running := make([]*process, len(crew))
	for i, begin := range crew {
		running[i] = begin()
	}
	var publishers []*process
	for i := range books {
		publishers = append(publishers, start(t, db, "bookings", silent, fmt.Sprint("CRASH_NAME=book-", i)))
	}
	for range kills {
		before := e.size()
		storetest.Eventually(t, "some are handled", func() bool { return e.size() >= min(before+40, books*perBook*perAccount) })
		i := rand.IntN(len(crew))
		running[i].end(syscall.SIGKILL)
		running[i] = crew[i]()
	}
	for _, p := range publishers {
		storetest.Receive(t, "a publisher is done", p.ended)
		if log := strings.TrimSpace(p.log.String()); log != "" {
			t.Error(log)
		}
	}
	storetest.Eventually(t, "all are handled", func() bool { return e.size() == books*perBook*perAccount })
	for _, p := range running {
		p.end(syscall.SIGTERM)
	}
	e.check(t, lease)
}

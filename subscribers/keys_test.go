package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// A ledger is what handlers of keyed messages saw.
type ledger struct {
	mu      sync.Mutex
	under   map[string]string // the id that a handler has, by key
	entries map[string][]string
	wrong   []string
	n       int // done
	fences  map[string]int64
}

// begin notes that a handler has a message; end that it is done.
func (l *ledger) begin(d *subscribers.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, id := d.Key, d.ID
	if d.Fence <= l.fences[key] {
		l.wrong = append(l.wrong, fmt.Sprintf("%s of %s has the fence %d behind %d", id, key, d.Fence, l.fences[key]))
	}
	l.fences[key] = d.Fence
	if other := l.under[key]; other != "" {
		l.wrong = append(l.wrong, fmt.Sprintf("%s and %s of %s at once", other, id, key))
	}
	l.under[key] = id
}

func (l *ledger) end(key, id string, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under[key] = ""
	if done {
		l.entries[key] = append(l.entries[key], id)
		l.n++
	}
}

// Of each key five subscribers, of eight handlers each, handle one message at a time, in the order of their due times, also
// where handlers fail and put off; and all are handled.
func TestKeysAreHandledInOrder(t *testing.T) {
	t.Parallel()
	const keys, each = 20, 30
	db := storetest.Open(t)
	carry(t, db)
	storetest.Set(t, db, topic, notify.SettingsChange{Attempts: new(1000)})
	l := &ledger{under: make(map[string]string), entries: make(map[string][]string), fences: make(map[string]int64)}
	for range 5 {
		handle(t, db, func(_ context.Context, d *subscribers.Delivery) error {
			l.begin(d)
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			switch rand.IntN(10) {
			case 0:
				l.end(d.Key, d.ID, false)
				return subscribers.RetryAfter(errors.New("not yet"), time.Millisecond)
			case 1:
				l.end(d.Key, d.ID, false)
				return subscribers.Snooze(time.Millisecond)
			}
			l.end(d.Key, d.ID, true)
			return nil
		}, subscribers.HandleOptions{Concurrency: 8})
	}
	due := time.Now()
	for i := range each {
		var some []notify.Message
		for key := range keys {
			some = append(some, notify.Message{Topic: topic, ID: fmt.Sprintf("%02d-%03d", key, i), Key: fmt.Sprint("acct-", key), Due: due.Add(time.Duration(i*keys) * time.Millisecond / keys)})
		}
		rand.Shuffle(len(some), func(a, b int) { some[a], some[b] = some[b], some[a] })
		storetest.Publish(t, db, some...)
	}
	storetest.Eventually(t, "all are handled", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.n >= keys*each
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
	for key := range keys {
		for i, id := range l.entries[fmt.Sprint("acct-", key)] {
			if want := fmt.Sprintf("%02d-%03d", key, i); id != want {
				t.Fatalf("%s is the entry %d of acct-%d, want %s", id, i, key, want)
			}
		}
	}
}

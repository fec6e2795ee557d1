package storetest

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Payload is the body of the messages that are measured: 100 bytes.
var Payload = bytes.Repeat([]byte("x"), 100)

// fillBatch is how many messages of Fill are made at a time.
const fillBatch = 5000

// Fill publishes n messages, in batches, and fails the test if one is refused.
func Fill(t testing.TB, store *notify.Store, n int, message func(i int) notify.Message) {
	t.Helper()
	batch := make([]notify.Message, 0, fillBatch)
	for from := 0; from < n; from += len(batch) {
		batch = batch[:0]
		for i := from; i < min(from+fillBatch, n); i++ {
			batch = append(batch, message(i))
		}
		Publish(t, store, batch...)
	}
}

// Lateness collects how late messages were. It is safe for concurrent use.
type Lateness struct {
	mu  sync.Mutex
	all []time.Duration
}

// Add adds one.
func (l *Lateness) Add(late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, late)
}

// Await waits until there are n.
func (l *Lateness) Await(t testing.TB, n int) {
	t.Helper()
	Eventually(t, "all are there", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.all) >= n
	})
}

// Report reports the median, the 95th and 99th percentiles and the largest in ms, and fails the benchmark if a message was early.
func (l *Lateness) Report(b *testing.B, of string) {
	b.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.all)
	if l.all[0] < 0 {
		b.Errorf("a message was %v early", -l.all[0])
	}
	for name, i := range map[string]int{"p50": len(l.all) / 2, "p95": len(l.all) * 95 / 100, "p99": len(l.all) * 99 / 100, "max": len(l.all) - 1} {
		b.ReportMetric(float64(l.all[i].Microseconds())/1000, of+"-ms-"+name)
	}
}

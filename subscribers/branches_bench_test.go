package subscribers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// The branches of the topics that a benchmark measures, and what it publishes to each of these.
const branches, branchedSize = "a,b,c", 50_000

func branch(b *testing.B, db *notify.Store, topic string) (names []string) {
	b.Helper()
	list := branches
	storetest.Must(b, storetest.ErrOf(storetest.Inspector(b, db).Set(b.Context(), topic, notify.SettingsChange{Branches: &list})))
	return []string{topic + "@a", topic + "@b", topic + "@c"}
}

// workIn runs a subscriber of topics that calls on for each message.
func workIn(b *testing.B, db *notify.Store, topics []string, on func(*subscribers.Delivery)) {
	b.Helper()
	sub, err := subscribers.NewSubscriber(db)
	storetest.Must(b, err)
	for _, topic := range topics {
		storetest.Must(b, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
			on(d)
			return nil
		}, subscribers.HandleOptions{Concurrency: 8}))
	}
	storetest.Run(b, sub.Run)
	waitsIn(b, db, topics, 1)
}

// readyIn waits until so many messages of each topic are ready.
func readyIn(b *testing.B, db *notify.Store, topics []string, n int64) {
	b.Helper()
	storetest.Eventually(b, "all are ready", func() bool {
		for _, topic := range topics {
			if ready, err := db.Client().ZCard(b.Context(), db.KeysOf(topic).Ready(topic)).Result(); err != nil || ready < n {
				return false
			}
		}
		return true
	})
}

// dueAt publishes messages that are due at one time, and returns that once it has come.
func dueAt(b *testing.B, db *notify.Store, topic string) time.Time {
	b.Helper()
	due := time.Now().Add(2 * time.Second)
	storetest.Fill(b, db, branchedSize, func(int) notify.Message {
		return notify.Message{Topic: topic, Body: storetest.Payload, Due: due}
	})
	time.Sleep(time.Until(due))
	return due
}

// BenchmarkCopies measures how many messages a second are made ready of 50,000 that are due at once, in a plain topic that has one ready
// already, and in three branches.
func BenchmarkCopies(b *testing.B) {
	for b.Loop() {
		db := storetest.At(b, storetest.Server(b).URL(), "")
		carry(b, db)
		storetest.Publish(b, db, notify.Message{Topic: "plain"})
		due := dueAt(b, db, "plain")
		readyIn(b, db, []string{"plain"}, branchedSize+1)
		b.ReportMetric(branchedSize/time.Since(due).Seconds(), "plain/s")

		all := branch(b, db, "branched")
		due = dueAt(b, db, "branched")
		readyIn(b, db, all, branchedSize)
		b.ReportMetric(3*branchedSize/time.Since(due).Seconds(), "copies/s")
	}
}

// BenchmarkLivesOfCopies measures how many messages a second three topics handle, and how many copies three branches.
func BenchmarkLivesOfCopies(b *testing.B) {
	for b.Loop() {
		for name, from := range map[string][]string{"plain": {"a", "b", "c"}, "copied": {"branched"}} {
			db := storetest.At(b, storetest.Server(b).URL(), "")
			carry(b, db)
			to := from
			if name == "copied" {
				to = branch(b, db, "branched")
			}
			var n atomic.Int64
			workIn(b, db, to, func(*subscribers.Delivery) { n.Add(1) })
			began := time.Now()
			storetest.Fill(b, db, branchedSize*len(from), func(i int) notify.Message {
				return notify.Message{Topic: from[i%len(from)], Body: storetest.Payload}
			})
			storetest.Eventually(b, "all are handled", func() bool { return n.Load() >= 3*branchedSize })
			b.ReportMetric(3*branchedSize/time.Since(began).Seconds(), name+"/s")
		}
	}
}

// BenchmarkIdleBranch measures how long it takes from a publish, and from a due time, until a handler has a message, on an idle store: of a plain
// topic, of one of three branches, and of that one while another has a million messages that nobody handles.
func BenchmarkIdleBranch(b *testing.B) {
	const n, million = 300, 1_000_000
	for b.Loop() {
		db := storetest.At(b, storetest.Server(b).URL(), "")
		carry(b, db)
		handled := make(chan time.Time)
		workIn(b, db, append([]string{"plain"}, branch(b, db, "branched")[:2]...), func(d *subscribers.Delivery) {
			if d.Topic != "branched@b" {
				handled <- time.Now()
			}
		})
		measure := func(of, topic string) {
			var atOnce, delayed storetest.Lateness
			for range n {
				time.Sleep(15 * time.Millisecond)
				began := time.Now()
				storetest.Publish(b, db, notify.Message{Topic: topic})
				atOnce.Add((<-handled).Sub(began))
				time.Sleep(15 * time.Millisecond)
				due := time.Now().Add(20 * time.Millisecond)
				storetest.Publish(b, db, notify.Message{Topic: topic, Due: due})
				delayed.Add((<-handled).Sub(due))
			}
			atOnce.Report(b, of+"-at-once")
			delayed.Report(b, of+"-delayed")
		}
		measure("plain", "plain")
		measure("branch", "branched")
		storetest.Fill(b, db, million, func(int) notify.Message { return notify.Message{Topic: "branched@c"} })
		measure("beside", "branched")
	}
}

// BenchmarkBranchesBeside measures how late messages of another topic are while 50,000 of 1,000 topics become due, plain ones and such with three
// branches; and how many functions Redis runs at rest with 10,000 topics that have branches.
func BenchmarkBranchesBeside(b *testing.B) {
	const crowd, many = 1000, 10_000
	for b.Loop() {
		db := storetest.At(b, storetest.Server(b).URL(), "")
		carry(b, db)
		var late *storetest.Lateness
		workIn(b, db, []string{topic}, func(d *subscribers.Delivery) { late.Add(time.Since(d.Due)) })
		for i := range crowd {
			branch(b, db, fmt.Sprint("branched-", i))
		}
		for _, kind := range []string{"plain", "branched"} {
			late = new(storetest.Lateness)
			due := time.Now().Add(2 * time.Second)
			storetest.Fill(b, db, branchedSize, func(i int) notify.Message {
				return notify.Message{Topic: fmt.Sprint(kind, "-", i%crowd), Body: storetest.Payload, Due: due}
			})
			storetest.Fill(b, db, crowd, func(i int) notify.Message {
				return notify.Message{Topic: topic, Body: storetest.Payload, Due: due.Add(time.Duration(i) * time.Millisecond)}
			})
			late.Await(b, crowd)
			late.Report(b, kind)
		}
		for i := range many - crowd {
			branch(b, db, fmt.Sprint("more-", i))
		}
		time.Sleep(10 * time.Second)
		b.ReportMetric(scriptsIn(b, db, 20*time.Second), "calls/s")
	}
}

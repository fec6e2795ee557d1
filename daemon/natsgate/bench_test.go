package natsgate_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// measure publishes 500 messages, due 10 ms apart, and reports how late a client
// receives the message on a subject for each. dueOf returns the due time of such a message.
func measure(b *testing.B, subject string, message func(due time.Time) notify.Message, dueOf func(*nats.Msg) time.Time) {
	b.Helper()
	const size, apart = 500, 10 * time.Millisecond
	conn, store, _ := outbound(b, natsgate.Options{})
	var late storetest.Lateness
	seen := make(map[time.Time]bool)
	storetest.Must(b, storetest.ErrOf(conn.Subscribe(subject, func(m *nats.Msg) {
		if due := dueOf(m); !seen[due] { // beats repeat wake-ups for unclaimed messages
			seen[due] = true
			late.Add(time.Since(due))
		}
	})))
	awaitBeat(b, conn)
	for rounds := 1; b.Loop(); rounds++ {
		start := time.Now().Add(time.Second).Truncate(time.Millisecond)
		storetest.Fill(b, store, size, func(i int) notify.Message {
			m := message(start.Add(time.Duration(i) * apart))
			m.Body = storetest.Payload
			return m
		})
		late.Await(b, size*rounds)
	}
	late.Report(b, "due-to-callback")
}

// BenchmarkWake measures how late a client is woken. Each message has a topic of its own, which says when it is due.
func BenchmarkWake(b *testing.B) {
	const prefix = "bellhop.wake.due."
	measure(b, prefix+"*", func(due time.Time) notify.Message {
		return notify.Message{Topic: "due." + strconv.FormatInt(due.UnixMilli(), 10), Due: due}
	}, func(m *nats.Msg) time.Time {
		ms, _ := strconv.ParseInt(strings.TrimPrefix(m.Subject, prefix), 10, 64)
		return time.UnixMilli(ms)
	})
}

// BenchmarkBroadcast measures how late a client has a broadcast.
func BenchmarkBroadcast(b *testing.B) {
	measure(b, "bellhop.broadcast."+topic, func(due time.Time) notify.Message {
		return notify.Message{Topic: topic, Due: due, Broadcast: true}
	}, func(m *nats.Msg) time.Time {
		due, _ := time.Parse(time.RFC3339, m.Header.Get("ce-time"))
		return due
	})
}

// BenchmarkDeliver measures how fast 50,000 messages are delivered to a queue group of two and acknowledged, 256 in flight.
func BenchmarkDeliver(b *testing.B) {
	const size = 50_000
	for b.Loop() {
		n, store := startNATS(b, nil), storetest.Open(b)
		storetest.Fill(b, store, size, func(int) notify.Message { return notify.Message{Topic: topic, Body: storetest.Payload} })
		conn := n.connect()
		for range 2 {
			acknowledge(b, conn, "workers")
		}
		deliver(b, store, 256, topic)
		d := startDaemon(b, store, natsgate.Options{URL: n.ClientURL()}, carrier.Options{})
		storetest.Eventually(b, "the first is acknowledged", func() bool { return d.Stats().Delivered > 0 })
		began := time.Now()
		storetest.Eventually(b, "all are acknowledged", func() bool { return d.Stats().Delivered == size })
		b.ReportMetric(size/time.Since(began).Seconds(), "messages/s")
	}
}

// BenchmarkDelivery measures how late a client has a message that is pushed to it, of 500 that become due 20 ms apart.
func BenchmarkDelivery(b *testing.B) {
	const size, apart = 500, 20 * time.Millisecond
	conn, db, _ := delivering(b, store.DefaultPushInFlight)
	awaitBeat(b, conn)
	var late storetest.Lateness
	storetest.Must(b, storetest.ErrOf(conn.QueueSubscribe(deliverSubject, "workers", func(m *nats.Msg) {
		due, _ := time.Parse(time.RFC3339, m.Header.Get("ce-time"))
		late.Add(time.Since(due))
		answer(b, m, "+ACK")
	})))
	for rounds := 1; b.Loop(); rounds++ {
		start := time.Now().Add(time.Second).Truncate(time.Millisecond)
		storetest.Fill(b, db, size, func(i int) notify.Message {
			return notify.Message{Topic: topic, Body: storetest.Payload, Due: start.Add(time.Duration(i) * apart)}
		})
		late.Await(b, size*rounds)
	}
	late.Report(b, "due-to-client")
}

// BenchmarkClaim measures how late a client has a message that waits for it in a claim, of 500 that become due 20 ms apart.
func BenchmarkClaim(b *testing.B) {
	const size, apart = 500, 20 * time.Millisecond
	conn, store, _ := outbound(b, natsgate.Options{})
	awaitBeat(b, conn)
	var late storetest.Lateness
	for b.Loop() {
		start := time.Now().Add(time.Second).Truncate(time.Millisecond)
		storetest.Fill(b, store, size, func(i int) notify.Message {
			return notify.Message{Topic: topic, Body: storetest.Payload, Due: start.Add(time.Duration(i) * apart)}
		})
		for n := 0; n < size; {
			m := request(b, conn, "bellhop.claim."+topic, `{"wait":"30s"}`)
			if m.Header.Get("Status") == "204" {
				continue
			}
			due, _ := time.Parse(time.RFC3339, m.Header.Get("ce-time"))
			late.Add(time.Since(due))
			settle(b, conn, m, "+ACK")
			n++
		}
	}
	late.Report(b, "due-to-handler")
}

// BenchmarkClaims measures how fast 16 clients, each with one claim at a time, claim and acknowledge 20,000 messages.
func BenchmarkClaims(b *testing.B) {
	const size, clients = 20_000, 16
	conn, store, _ := outbound(b, natsgate.Options{})
	awaitBeat(b, conn)
	for b.Loop() {
		storetest.Fill(b, store, size, func(int) notify.Message { return notify.Message{Topic: topic, Body: storetest.Payload} })
		began := time.Now()
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for {
					m, err := conn.Request("bellhop.claim."+topic, nil, storetest.Deadline)
					if err != nil || m.Header.Get("Status") == "204" {
						return
					}
					storetest.Should(b, storetest.ErrOf(conn.Request(m.Reply, []byte("+ACK"), storetest.Deadline)))
				}
			})
		}
		all.Wait()
		b.ReportMetric(size/time.Since(began).Seconds(), "messages/s")
	}
}

// BenchmarkWaits measures the memory of 10,000 claims that wait on 100 topics, beside the NATS server of this process.
func BenchmarkWaits(b *testing.B) {
	conn, _, gate := open(b)
	memory := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
	}
	for b.Loop() {
		before := memory()
		inbox := conn.NewInbox()
		subscribe(b, conn, inbox)
		for i := range natsgate.MaxWaits {
			storetest.Must(b, conn.PublishRequest(fmt.Sprintf("bellhop.claim.t%d", i%100), inbox, []byte(`{"wait":"5m"}`)))
		}
		waiting(b, gate, natsgate.MaxWaits)
		storetest.Eventually(b, "their first calls are over", func() bool { return runtime.NumGoroutine() < natsgate.MaxWaits+200 })
		b.ReportMetric(memory()-before, "MiB")
	}
}

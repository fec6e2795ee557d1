package natsgate_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
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
	if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
		if due := dueOf(m); !seen[due] { // beats repeat wake-ups for unclaimed messages
			seen[due] = true
			late.Add(time.Since(due))
		}
	}); err != nil {
		b.Fatal(err)
	}
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
		d := startDaemon(b, store, delivers(256, natsgate.Options{URL: n.ClientURL()}), carrier.Options{})
		storetest.Eventually(b, "the first is acknowledged", func() bool { return d.Stats().Delivered > 0 })
		began := time.Now()
		storetest.Eventually(b, "all are acknowledged", func() bool { return d.Stats().Delivered == size })
		b.ReportMetric(size/time.Since(began).Seconds(), "messages/s")
	}
}

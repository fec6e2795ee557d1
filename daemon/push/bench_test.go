package push_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkPush measures how late an endpoint in this process has the request for a message, of 500 that become due 20 ms apart.
func BenchmarkPush(b *testing.B) {
	s, e, _ := opened(b)
	lateness(b, s, e, func(int) string { return topic })
}

// lateness measures what BenchmarkPush does, of messages of some topics.
func lateness(b *testing.B, s *notify.Store, e *endpoint, of func(i int) string) {
	const size, apart = 500, 20 * time.Millisecond
	var late storetest.Lateness
	e.says(func(_ http.ResponseWriter, r *http.Request) {
		if due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Bellhop-Due")); err == nil {
			late.Add(time.Since(due))
		}
	})
	for rounds := 1; b.Loop(); rounds++ {
		start := time.Now().Add(time.Second).Truncate(time.Millisecond)
		storetest.Fill(b, s, size, func(i int) notify.Message {
			return notify.Message{Topic: of(i), Body: storetest.Payload, Due: start.Add(time.Duration(i) * apart)}
		})
		late.Await(b, size*rounds)
	}
	late.Report(b, "due-to-request")
}

// BenchmarkPushes measures how many messages are pushed and acknowledged in a second, 32 in flight, beside their endpoint in this
// process.
func BenchmarkPushes(b *testing.B) {
	const size = 10_000 // as many as an endpoint keeps
	for b.Loop() {
		s, _, p := opened(b)
		storetest.Fill(b, s, size, func(int) notify.Message { return notify.Message{Topic: topic, Body: storetest.Payload} })
		began, before := time.Now(), p.Stats().Done
		storetest.Eventually(b, "all are pushed", func() bool { return p.Stats().Done == size })
		b.ReportMetric(float64(size-before)/time.Since(began).Seconds(), "messages/s")
	}
}

// BenchmarkPushBeside measures what BenchmarkPush does for 999 of a thousand pushes, while the other one has nothing to do, and while its
// endpoint hangs with all taken that may be in flight.
func BenchmarkPushBeside(b *testing.B) {
	const pushes = 1000
	for _, hangs := range []bool{false, true} {
		b.Run(map[bool]string{false: "none-hangs", true: "one-hangs"}[hangs], func(b *testing.B) {
			s, e, release := beside(b, pushes)
			defer release()
			if hangs {
				hang(b, s, e)
			}
			storetest.Publish(b, s, notify.Message{Topic: numbered(pushes - 1)})
			storetest.Receive(b, "the last one is pushed", e.got)
			lateness(b, s, e, func(i int) string { return numbered(1 + i%(pushes-1)) })
		})
	}
}

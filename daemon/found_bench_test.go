package daemon_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkFoundTopics measures what a thousand topics that a push found by a pattern cost at rest: the memory of the daemon, and what
// Redis carries out in a second, also inside calls; and both without the push.
func BenchmarkFoundTopics(b *testing.B) {
	const topics, seconds = 1000, 10
	for b.Loop() {
		r := startRemote(b, "BELLHOP_PUSH_ALLOW=public")
		storetest.Fill(b, r.store, topics, func(i int) notify.Message {
			return notify.Message{Topic: fmt.Sprint("order.", i), Body: storetest.Payload, Delay: 24 * time.Hour}
		})
		r.rests(seconds, "without")
		p := store.Push{Name: "crm", Topics: []string{"order.*"}, URL: "https://crm.example"}
		p.Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
		storetest.Must(b, r.store.Home().PutPush(b.Context(), p))
		r.shows("bellhop_push_topics", topics)
		r.rests(seconds, "found")
	}
}

// rests reports the memory of the daemon behind so many seconds at rest, and the commands of Redis in one of them.
func (r *remote) rests(seconds int, what string) {
	r.b.Helper()
	r.beats(2)
	before := r.commands()
	r.beats(seconds)
	r.b.ReportMetric(float64(r.commands()-before)/float64(seconds), "commands/s-"+what)
	r.b.ReportMetric(r.memory(), "MiB-"+what)
}

// beats waits for beats, of which there is one a second.
func (r *remote) beats(n int) {
	r.b.Helper()
	ctx, stop := context.WithTimeout(r.b.Context(), storetest.Deadline)
	defer stop()
	r.store.Subscribe(ctx, func(e store.Event) {
		if e.Kind != reach.Beat {
			return
		}
		if n--; n == 0 {
			stop()
		}
	}, r.store.Home().BeatChannel())
	if n > 0 {
		r.b.Fatalf("%d beats are missing", n)
	}
}

// commands returns how many commands Redis has carried out.
func (r *remote) commands() (n int) {
	r.b.Helper()
	stats, err := r.store.Client().Info(r.b.Context(), "commandstats").Result()
	storetest.Must(r.b, err)
	for line := range strings.Lines(stats) {
		if _, rest, ok := strings.Cut(line, ":calls="); ok {
			var calls int
			storetest.Must(r.b, storetest.ErrOf(fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &calls)))
			n += calls
		}
	}
	return n
}

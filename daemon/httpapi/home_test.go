package httpapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// withoutHome is a gateway in front of eight shards on three masters, of which that of home is away.
type withoutHome struct {
	*server
	master      *redisserver.Server
	missing     []int  // the shards that are away
	there, away string // topics of a shard that is there, and of home
}

// onThreeMasters starts the gateway; all masters are there yet.
func onThreeMasters(t *testing.T, tokens string) *withoutHome {
	t.Helper()
	c, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour, "--cluster-require-full-coverage", "no") // nobody takes over
	storetest.Must(t, err)
	t.Cleanup(c.Stop)
	db := storetest.Unhurried(storetest.With(t, notify.Config{URL: c.URL(), Shards: 8}))
	storetest.Found(t, db)
	carry(t, db)
	w := &withoutHome{server: serveOn(t, db, httpapi.Options{TokensFile: file(t, "tokens", "a "+tokenOf("a")+" admin >\n"+tokens)}), master: c.Masters[0]}
	for k, keys := range db.KeysOfAll() {
		slot, err := db.Client().ClusterKeySlot(t.Context(), keys.Format()).Result()
		storetest.Must(t, err)
		if int(slot) < 16384/3 {
			w.missing = append(w.missing, k)
		}
	}
	for i := 0; w.there == "" || w.away == ""; i++ {
		switch name := fmt.Sprintf("t%d", i); db.Of(name).Number() {
		case 0:
			w.away = name
		case 7:
			w.there = name
		}
	}
	return w
}

// as sends a request with the token of all rights.
func (w *withoutHome) as(method, path, body string) answer {
	w.t.Helper()
	return w.call(method, path, body, "Authorization: Bearer "+tokenOf("a"))
}

// receipt claims a message of a topic, and returns what settles it.
func (w *withoutHome) receipt(topic string) string {
	w.t.Helper()
	got := read[api.Claimed](w.as("POST", "/v1/topics/"+topic+"/claim?lease=1h", "").is(200)) // until the calls have their turn
	if len(got.Messages) != 1 {
		w.t.Fatalf("%d messages of %s were claimed", len(got.Messages), topic)
	}
	return fmt.Sprintf("%s/ack?receipt=%d", got.Messages[0].ID, got.Messages[0].Receipt)
}

// While home's master is away, calls for topics of other masters go on, with tokens, too. Those for its topics, and for what is in home alone, fail and may be
// repeated, and what concerns all shards names those that are missing.
func TestHomeAway(t *testing.T) {
	t.Parallel()
	w := onThreeMasters(t, "")
	acks := make(map[string]string)
	for _, topic := range []string{w.there, w.away} {
		w.as("POST", "/v1/topics/"+topic+"/messages", "x").is(201)
		acks[topic] = w.receipt(topic)
		for _, id := range []string{"cancelled", "waits"} {
			w.as("POST", "/v1/topics/"+topic+"/messages?delay=1h&id="+id, "x").is(201)
		}
		w.as("POST", "/v1/topics/"+topic+"/messages?id=ready", "x").is(201)
	}
	l := subscriberstest.Listener(t, w.store)
	heard := []<-chan string{hear(t, l, w.there, ""), hear(t, l, ">", ""), hear(t, l, w.there, "one"), hear(t, l, ">", "all")}
	w.master.Kill()

	for _, of := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "messages?id=new", "x", 201},
		{"POST", "broadcasts?id=sent", "x", 201},
		{"POST", "claim", "", 200},
		{"POST", "messages/ACK", "", 204},
		{"GET", "messages/waits", "", 200},
		{"DELETE", "messages/cancelled", "", 200},
		{"GET", "", "", 200},
		{"GET", "settings", "", 200},
		{"PATCH", "settings", `{"attempts":3}`, 200},
		{"POST", "pause", "", 204},
		{"GET", "dead", "", 200},
	} {
		for topic, status := range map[string]int{w.there: of.status, w.away: 503} {
			t.Run(strings.Join([]string{of.method, of.path, topic}, " "), func(t *testing.T) {
				t.Parallel()
				path := strings.TrimSuffix("/v1/topics/"+topic+"/"+strings.Replace(of.path, "ACK", acks[topic], 1), "/")
				if a := w.as(of.method, path, of.body).is(status); status == 503 {
					a.retryable([]int{0})
				}
			})
		}
	}
	for _, of := range []struct{ method, path, body string }{
		{"GET", "/v1/workers", ""}, {"GET", "/v1/listeners", ""}, {"GET", "/v1/topics/*/settings", ""}, {"PATCH", "/v1/topics/*/settings", `{"attempts":3}`},
	} {
		t.Run(of.method+" "+of.path, func(t *testing.T) {
			t.Parallel()
			w.as(of.method, of.path, of.body).is(503).retryable([]int{0})
		})
	}
	for _, path := range []string{"/v1/topics", "/v1/carrier"} {
		t.Run("GET "+path, func(t *testing.T) {
			t.Parallel()
			if got := read[api.Missing](w.as("GET", path, "").is(200)); !slices.Equal(got.Missing, w.missing) {
				t.Errorf("got %+v, want %v missing", got, w.missing)
			}
		})
	}
	t.Run("GET /readyz", func(t *testing.T) {
		t.Parallel()
		storetest.Eventually(t, "it is ready without those alone", func() bool { // Redis may take too long for a look
			a := w.as("GET", "/readyz", "")
			return a.status == 200 && slices.Equal(read[api.Missing](a).Missing, w.missing)
		})
	})
	t.Run("listeners", func(t *testing.T) {
		t.Parallel()
		w.listensWithout(t, l, heard)
	})
	t.Run("a new name", func(t *testing.T) {
		t.Parallel()
		w.registersNoName(t, l)
	})
}

// retryable checks that the answer is a problem that names the shards that are missing, and may be repeated.
func (a answer) retryable(missing []int) {
	a.t.Helper()
	if p := a.kind("unavailable").problem(); !slices.Equal(p.Missing.Missing, missing) || a.header.Get("Retry-After") == "" {
		a.t.Errorf("%s answers %+v with Retry-After %q, want %v missing", a.call, p, a.header.Get("Retry-After"), missing)
	}
}

// hear listens, and returns the ids of the broadcasts.
func hear(t *testing.T, l *subscribers.Listener, pattern, name string) <-chan string {
	t.Helper()
	heard, started := make(chan string, 10), make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, pattern, func(_ context.Context, b *subscribers.Broadcast) error {
			heard <- b.ID
			return nil
		}, subscribers.ListenOptions{Name: name, OnStart: func(subscribers.Bookmark) { close(started) }})
	})
	storetest.Receive(t, "the listener starts", started)
	return heard
}

// listensWithout checks that those who listen hear what others than home's master have, and that those who begin now do, too.
func (w *withoutHome) listensWithout(t *testing.T, l *subscribers.Listener, heard []<-chan string) {
	t.Helper()
	heard = append(heard, hear(t, l, ">", ""))
	w.as("POST", "/v1/topics/"+w.there+"/broadcasts?id=last", "x").is(201)
	for _, one := range heard {
		for storetest.Receive(t, "the last broadcast", one) != "last" {
		}
	}
}

// registersNoName checks that a listener under a new name waits, and that names are not listed.
func (w *withoutHome) registersNoName(t *testing.T, l *subscribers.Listener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*reach.Patience)
	defer cancel()
	err := l.Listen(ctx, w.there, func(context.Context, *subscribers.Broadcast) error { return nil },
		subscribers.ListenOptions{Name: "new", OnStart: func(subscribers.Bookmark) { t.Error("a name was registered") }})
	storetest.Should(t, err)
	if _, err := storetest.Inspector(t, w.store).Listeners(t.Context()); !notify.Retryable(err) || store.IsPartial(err) || !slices.Equal(store.MissingIn(err), []int{0}) {
		t.Errorf("listeners: got %v", err)
	}
}

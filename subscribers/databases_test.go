package subscribers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A tenant is a store in a database of a Redis that has others, with all that runs on it.
type tenant struct {
	*notify.Store
	stop func() // its carrier

	mu     sync.Mutex
	got    []string // what its worker and its listener received,
	heard  []string // and its channels for programs of any language
	calls  []string // scripts that were called since the last but the carrier's own
	beats  int      // since then
	silent int      // beats that were missed, ever
}

// lodge returns a tenant that works, listens and carries.
func lodge(t *testing.T, url string) *tenant {
	t.Helper()
	l := &tenant{Store: storetest.At(t, url, "bellhop")}
	own := []string{"carry", "sweep", "elect", "survey", "workers"}
	l.Observe(func(script string, _ time.Duration, _ error) {
		if !slices.Contains(own, script) {
			l.note(&l.calls, script)
		}
	})
	l.stop = carry(t, l.Store)
	worker, err := subscribers.NewSubscriber(l.Store)
	storetest.Must(t, err)
	storetest.Must(t, worker.Handle("t", func(_ context.Context, d *subscribers.Delivery) error {
		l.note(&l.got, "message "+d.ID)
		return nil
	}))
	storetest.Run(t, worker.Run)
	listener, began := subscriberstest.Listener(t, l.Store), make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return listener.Listen(ctx, "b", func(_ context.Context, b *subscribers.Broadcast) error {
			l.note(&l.got, "broadcast "+b.ID)
			return nil
		}, subscribers.ListenOptions{OnStart: func(subscribers.Bookmark) { close(began) }})
	})
	storetest.Receive(t, "it listens", began)
	shard := l.Of("t")
	storetest.Run(t, func(ctx context.Context) error {
		l.Subscribe(ctx, l.on, shard.Wakes(), shard.DeathChannel())
		return nil
	})
	return l
}

func (l *tenant) note(in *[]string, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*in = append(*in, text)
}

// on notes an event.
func (l *tenant) on(e store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case reach.Beat:
		l.beats++
	case reach.Silent:
		l.silent++
	case reach.Received:
		topic, n, _ := e.Woken()
		l.heard = append(l.heard, fmt.Sprint(topic, " ", n))
	}
}

// read returns what was noted.
func (l *tenant) read(of *[]string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(*of)
}

// rests reports whether nothing was called for some beats, and begins anew where something was.
func (l *tenant) rests() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) > 0 {
		l.calls, l.beats = nil, 0
	}
	return l.beats >= 5
}

// Two stores in two databases of one Redis share its channels, and nothing of one is heard in the other: no body, no ring, no beat. So
// they call Redis at rest no more than one does.
func TestTwoDatabases(t *testing.T) {
	t.Parallel()
	url := storetest.Lend(t)
	all := []*tenant{lodge(t, url), lodge(t, url+"/2")}
	bodies := all[0].Client().PSubscribe(t.Context(), "*")
	defer bodies.Close()
	storetest.Must(t, storetest.ErrOf(bodies.Receive(t.Context())))
	for i, l := range all {
		for n := range 20 {
			id := fmt.Sprint(i, "-", n)
			storetest.Publish(t, l.Store,
				notify.Message{Topic: "t", ID: id, Body: []byte(id)}, notify.Message{Topic: "b", ID: id, Body: []byte(id), Broadcast: true})
		}
	}
	for i, l := range all {
		storetest.Eventually(t, "all is received", func() bool { return len(l.read(&l.got)) >= 40 })
		for _, got := range l.read(&l.got) {
			if _, id, _ := strings.Cut(got, " "); !strings.HasPrefix(id, fmt.Sprint(i, "-")) {
				t.Errorf("store %d received %s", i, got)
			}
		}
	}
	if storetest.Shards() == 1 { // those of several publish where patterns are not heard
		heardApart(t, all, func() (channel, payload string) {
			m, err := bodies.ReceiveMessage(t.Context())
			storetest.Must(t, err)
			return m.Channel, m.Payload
		})
	}
	for i, l := range all {
		storetest.Eventually(t, "it rests", l.rests)
		for _, wake := range l.read(&l.heard) {
			if !strings.HasPrefix(wake, "t ") && !strings.HasPrefix(wake, " ") {
				t.Errorf("store %d is woken for %s", i, wake)
			}
		}
	}
	all[0].stop()
	storetest.Eventually(t, "no carrier is heard", func() bool {
		all[0].mu.Lock()
		defer all[0].mu.Unlock()
		return all[0].silent > 0
	})
}

// heardApart reads channels until each tenant's broadcasts were published, and checks that only its own names have them.
func heardApart(t *testing.T, all []*tenant, next func() (channel, payload string)) {
	t.Helper()
	for left := 20 * len(all); left > 0; {
		channel, payload := next()
		for i, l := range all {
			if channel == l.Heard(l.Keys().Broadcast("b")) {
				left--
				if !strings.HasPrefix(payload, fmt.Sprint(i, "-")) {
					t.Errorf("%s has %s", channel, payload)
				}
			}
		}
	}
	if names := []string{all[0].Heard("bellhop:wake:t"), all[1].Heard("bellhop:wake:t")}; !slices.Equal(names, []string{"bellhop:wake:t", "2@bellhop:wake:t"}) {
		t.Errorf("the channels are %v", names)
	}
}

// A user with the least rights works in another database, and needs no others.
func TestRightsInAnotherDatabase(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	url := strings.Replace(server.URL(), "redis://", "redis://bell:pw@", 1) + "/3"
	s := storetest.Unhurried(storetest.At(t, url, "bellhop"))
	admin := storetest.Unhurried(storetest.At(t, server.URL(), "bellhop"))
	rule := []any{"ACL", "SETUSER", "bell", "reset", "on", ">pw"}
	for word := range strings.FieldsSeq(s.Rights()) {
		rule = append(rule, word)
	}
	storetest.Must(t, admin.Client().Do(t.Context(), rule...).Err())
	storetest.Should(t, s.Check(t.Context()))
	storetest.Should(t, s.CheckPatterns(t.Context(), storetest.Deadline))
	carry(t, s)
	got := make(chan string, 1)
	l := subscriberstest.Listener(t, s)
	storetest.Publish(t, s, notify.Message{Topic: "b", ID: "1", Body: []byte("x"), Broadcast: true})
	storetest.Run(t, func(ctx context.Context) error {
		return l.Listen(ctx, "b", func(_ context.Context, b *subscribers.Broadcast) error {
			got <- b.ID
			return nil
		}, subscribers.ListenOptions{From: subscribers.FromBeginning()})
	})
	storetest.Receive(t, "the broadcast", got)
	admin.Client().Do(t.Context(), "ACL", "SETUSER", "bell", "resetchannels", "&bellhop:*")
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "&3@bellhop:* &3@bellhop:wake:*") && storetest.Shards() == 1 {
		t.Errorf("with the channels of another database: %v", err)
	}
}

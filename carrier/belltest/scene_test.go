package belltest_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier/belltest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

const topic = "orders"

// A scene is a store in a bubble, and what happened there, each with the time since the scene began.
type scene struct {
	*testing.T
	store     *notify.Store
	publisher *notify.Publisher
	inspector *notify.Inspector
	log       *slog.Logger
	began     time.Time

	mu   sync.Mutex
	seen []string
}

// play plays a scene in a bubble.
func play(t *testing.T, test func(s *scene), o ...belltest.Options) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(over(t, belltest.New(t, o...))) })
}

// over returns a scene over a store, which begins now.
func over(t *testing.T, store *notify.Store) *scene {
	t.Helper()
	s := &scene{T: t, store: store, began: time.Now(), log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	var err error
	s.publisher, err = notify.NewPublisher(store)
	must(t, err)
	s.inspector, err = notify.NewInspector(store)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish publishes messages to the topic.
func (s *scene) publish(all ...notify.Message) {
	s.Helper()
	for _, m := range all {
		m.Topic = topic
		_, err := s.publisher.Publish(s.Context(), m)
		must(s.T, err)
	}
}

// note notes that something happens now.
func (s *scene) note(what ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, time.Since(s.began).String()+" "+fmt.Sprint(what...))
}

// work handles what is in the topic, and notes the id of each message with the number of the attempt.
func (s *scene) work(concurrency int, handler subscribers.Handler) {
	s.Helper()
	sub, err := subscribers.NewSubscriber(s.store, subscribers.SubscriberOptions{Logger: s.log})
	must(s.T, err)
	must(s.T, sub.Handle(topic, func(ctx context.Context, d *subscribers.Delivery) error {
		s.note(d.ID, " ", d.Attempt)
		return handler(ctx, d)
	}, subscribers.HandleOptions{Concurrency: concurrency}))
	s.run(sub.Run)
}

// run runs f until the test ends.
func (s *scene) run(f func(context.Context) error) {
	ctx := s.Context()
	go func() {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			s.Error(err)
		}
	}()
	synctest.Wait()
}

// set changes settings of the topic.
func (s *scene) set(c notify.SettingsChange) {
	s.Helper()
	_, err := s.inspector.Set(s.Context(), topic, c)
	must(s.T, err)
}

// until goes on to a time since the scene began.
func (s *scene) until(since time.Duration) {
	time.Sleep(since - time.Since(s.began))
	synctest.Wait()
}

// want fails the test unless just this has happened by now.
func (s *scene) want(want ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.seen); diff != "" {
		s.Errorf("by %v (-want +got):\n%s", time.Since(s.began), diff)
	}
}

// inspect returns a message of the topic.
func (s *scene) inspect(id string) notify.Info {
	s.Helper()
	info, err := s.inspector.Inspect(s.Context(), topic, id)
	must(s.T, err)
	return info
}

func succeed(context.Context, *subscribers.Delivery) error { return nil }

// take returns a handler that takes so long.
func take(d time.Duration) subscribers.Handler {
	return func(context.Context, *subscribers.Delivery) error { time.Sleep(d); return nil }
}

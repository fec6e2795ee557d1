package subscribers_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A forger stands between a store and its Redis, and answers scripts in Redis's place while it is on.
type forger struct{ on atomic.Bool }

func (*forger) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*forger) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *forger) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if call, ok := cmd.(*redis.Cmd); ok && f.on.Load() && cmd.Name() == "fcall" {
			call.SetVal([]any{"what no script answers"})
			return nil
		}
		return next(ctx, cmd)
	}
}

// lines is a log of which each line can be waited for.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// await waits for a line with a word.
func (l lines) await(t *testing.T, word string) (line string) {
	t.Helper()
	for !strings.Contains(line, word) {
		line = storetest.Receive(t, "it logs "+word, l)
	}
	return line
}

// Where the answer to an acknowledgement is none, that is what the log says: nobody knows whether the message is acknowledged.
func TestWrongAnswerToAcknowledgement(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	f, log := new(forger), make(lines, 1000)
	store.Client().AddHook(f)
	handleAs(t, store, subscribers.SubscriberOptions{Logger: slog.New(slog.NewTextHandler(log, nil))}, func(context.Context, *subscribers.Delivery) error {
		f.on.Store(true)
		return nil
	})
	storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("x")})
	line := log.await(t, "acknowledge")
	f.on.Store(false)
	if !strings.Contains(line, "wrong answer to an acknowledgement; the messages may come again") || !strings.Contains(line, "script ack answered") {
		t.Error(line)
	}
}

// What Redis refuses for another reason than that it is away holds up no stop.
func TestNamedStopsWhereItCannotRelease(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	log := make(lines, 1000)
	l := subscriberstest.Listener(t, store, subscribers.ListenerOptions{Grace: time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))})
	began, finish := make(chan string, 1), make(chan struct{})
	o, started := (&received{}).options(subscribers.ListenOptions{Name: "n"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- l.Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
			began <- b.ID
			<-finish
			return subscribers.ErrStopping
		}, o)
	}()
	storetest.Receive(t, "it listens", started)
	flood(t, store, []string{topic}, "n1")
	storetest.Receive(t, "it is handled", began)
	storetest.Must(t, store.Client().Set(t.Context(), store.KeysOf(topic).Held("n"), "foreign", 0).Err())
	stop()
	close(finish)
	if line := log.await(t, "release"); !strings.Contains(line, "WRONGTYPE") {
		t.Error(line)
	}
	storetest.Should(t, storetest.Receive(t, "it ends", ended))
}

package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var onRedis = []string{"redis"}

// redisFaults hit a Redis that keeps running.
var redisFaults = []fault{
	{"maxmemory reached", onRedis, commands{"CONFIG SET maxmemory 1"}.healed("CONFIG SET maxmemory 0"), 200 * time.Millisecond, 2 * time.Second},
	{"READONLY", onRedis, commands{"REPLICAOF 127.0.0.1 1"}.healed("REPLICAOF NO ONE"), 200 * time.Millisecond, 2 * time.Second},
	{"FUNCTION FLUSH", onRedis, commands{"FUNCTION FLUSH", "SCRIPT FLUSH"}.healed(), 50 * time.Millisecond, 500 * time.Millisecond},
	{"FUNCTION DELETE", onRedis, deleteLibraries, 50 * time.Millisecond, 500 * time.Millisecond},
	{"FUNCTION LOAD of another version", onRedis, loadAnother, 50 * time.Millisecond, 500 * time.Millisecond},
	{"maxmemory reached, no functions", onRedis, commands{"CONFIG SET maxmemory 1", "FUNCTION FLUSH"}.healed("CONFIG SET maxmemory 0"), 200 * time.Millisecond, 2 * time.Second},
	{"CLIENT KILL", onRedis, commands{"CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"}.healed(), 50 * time.Millisecond, 500 * time.Millisecond},
	{"CLIENT KILL pubsub", onRedis, commands{"CLIENT KILL TYPE pubsub"}.healed(), 50 * time.Millisecond, 500 * time.Millisecond},
	{"BGREWRITEAOF", onRedis, commands{"BGREWRITEAOF"}.healed(), 100 * time.Millisecond, 500 * time.Millisecond},
	{"BGSAVE", onRedis, commands{"BGSAVE"}.healed(), 100 * time.Millisecond, 500 * time.Millisecond},
	{"CLIENT PAUSE", onRedis, stall(func(d time.Duration) string { return fmt.Sprintf("CLIENT PAUSE %d", d.Milliseconds()) }), 200 * time.Millisecond, 2 * time.Second},
	{"DEBUG SLEEP", onRedis, stall(func(d time.Duration) string { return fmt.Sprintf("DEBUG SLEEP %.3f", d.Seconds()) }), 200 * time.Millisecond, 2 * time.Second},
}

// commands are commands of Redis that make a fault.
type commands []string

// healed returns the fault that the commands make. Other commands heal it, or none if it is over at once.
func (c commands) healed(by ...string) beginning {
	return func(ctx context.Context, w *world, _ *victim, _ time.Duration) (healing, error) {
		return func(ctx context.Context) error { return w.ask(ctx, by...) }, w.ask(ctx, c...)
	}
}

// stall returns a fault made by a command with a duration, which heals by itself.
func stall(of func(time.Duration) string) beginning {
	return func(ctx context.Context, w *world, _ *victim, lasts time.Duration) (healing, error) {
		ended := make(chan error, 1)
		go func() { ended <- w.ask(ctx, of(lasts)) }()
		return func(context.Context) error { return <-ended }, nil
	}
}

// deleteLibraries deletes each library of functions.
func deleteLibraries(ctx context.Context, w *world, _ *victim, _ time.Duration) (healing, error) {
	return over, insist("redis deletes its libraries", func() error {
		all, err := w.store.Client().FunctionList(ctx, redis.FunctionListQuery{}).Result()
		for _, one := range all {
			err = cmp.Or(err, w.store.Client().FunctionDelete(ctx, one.Name).Err())
		}
		return err
	})
}

// loadAnother loads the library that another version of this program would.
func loadAnother(ctx context.Context, w *world, _ *victim, _ time.Duration) (healing, error) {
	text := script.LibraryText()
	first, _, _ := strings.Cut(text, "\n")
	_, name, _ := strings.Cut(first, "name=")
	text = strings.ReplaceAll(text, name, "bellhop_0123456789abcdef")
	return over, insist("redis loads another library", func() error { return w.store.Client().FunctionLoadReplace(ctx, text).Err() })
}

// over heals a fault that is over at once.
func over(context.Context) error { return nil }

// ask makes commands, and repeats each until it succeeds.
func (w *world) ask(ctx context.Context, all ...string) error {
	for _, one := range all {
		var words []any
		for word := range strings.FieldsSeq(one) {
			words = append(words, word)
		}
		if err := insist("redis does "+one, func() error { return w.store.Client().Do(ctx, words...).Err() }); err != nil {
			return err
		}
	}
	return nil
}

// insist repeats a call until it succeeds.
func insist(what string, call func() error) error {
	var err error
	if late := until(what, func() bool {
		err = call()
		return err == nil
	}); late != nil {
		return fmt.Errorf("%w: %w", late, err)
	}
	return nil
}

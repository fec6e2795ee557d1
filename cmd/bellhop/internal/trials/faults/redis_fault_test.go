package faults_test

import (
	"context"
	"fmt"
	"strings"
	"time"
)

var onRedis = []string{"redis"}

// redisFaults hit a Redis that keeps running.
var redisFaults = []fault{
	{"maxmemory reached", onRedis, commands{"CONFIG SET maxmemory 1"}.healed("CONFIG SET maxmemory 0"), 200 * time.Millisecond, 2 * time.Second},
	{"READONLY", onRedis, commands{"REPLICAOF 127.0.0.1 1"}.healed("REPLICAOF NO ONE"), 200 * time.Millisecond, 2 * time.Second},
	{"FUNCTION FLUSH", onRedis, commands{"FUNCTION FLUSH", "SCRIPT FLUSH"}.healed(), 50 * time.Millisecond, 500 * time.Millisecond},
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

// ask makes commands, and repeats each until it succeeds.
func (w *world) ask(ctx context.Context, all ...string) error {
	for _, one := range all {
		var words []any
		for word := range strings.FieldsSeq(one) {
			words = append(words, word)
		}
		var err error
		if late := until("redis does "+one, func() bool {
			err = w.store.Client().Do(ctx, words...).Err()
			return err == nil
		}); late != nil {
			return fmt.Errorf("%w: %w", late, err)
		}
	}
	return nil
}

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

const topic = "bench"

// measurePublish publishes messages that are due in an hour: in single calls
// from 16 goroutines, and in batches.
func measurePublish(ctx context.Context, s *stage) error {
	body := s.body()
	share := s.Messages / publishers
	began := time.Now()
	err := each(publishers, func(int) error {
		for range share {
			if _, err := s.pub.Publish(ctx, notify.Message{Topic: topic, Body: body, Delay: time.Hour}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.rate("single calls from 16 goroutines", publishers*share, time.Since(began))

	began = time.Now()
	if err := s.fill(ctx, 2*s.Messages, func(i int) notify.Message {
		return notify.Message{Topic: topic + ".batch", Body: body, Delay: time.Hour}
	}); err != nil {
		return err
	}
	s.rate("batches of 500", 2*s.Messages, time.Since(began))
	return nil
}

// measureBurst publishes messages that are due at one instant, and takes the
// time from then until the last is acknowledged.
func measureBurst(ctx context.Context, s *stage) error {
	var first atomic.Int64
	sub, err := s.subscriber(concurrency, func(*subscribers.Delivery) { first.CompareAndSwap(0, s.now().UnixMicro()) }, topic)
	if err != nil {
		return err
	}
	return s.whileRunning(ctx, func() error {
		body := s.body()
		due, err := s.fillBefore(ctx, s.Messages, func(start time.Time, _ int) notify.Message {
			return notify.Message{Topic: topic, Body: body, Due: start}
		})
		if err != nil {
			return err
		}
		if err := sleep(ctx, due.Sub(s.now())); err != nil {
			return err
		}
		if err := s.await(ctx, topic, s.isDone); err != nil {
			return err
		}
		took := s.now().Sub(due)
		s.report("until the last is acknowledged", ms(took), "ms", s.Messages)
		s.rate("rate", s.Messages, took)
		s.report("first message late", float64(first.Load()-due.UnixMicro())/1000, "ms", 1)
		return nil
	}, sub)
}

// measureBacklog publishes messages that are due at once, and takes the time
// that a subscriber takes for them from its start.
func measureBacklog(ctx context.Context, s *stage) error {
	n, body := 4*s.Messages, s.body()
	if err := s.fill(ctx, n, func(int) notify.Message { return notify.Message{Topic: topic, Body: body} }); err != nil {
		return err
	}
	sub, err := s.subscriber(concurrency, func(*subscribers.Delivery) {}, topic)
	if err != nil {
		return err
	}
	began := time.Now()
	return s.whileRunning(ctx, func() error {
		if err := s.await(ctx, topic, s.isDone); err != nil {
			return err
		}
		s.rate("handled and acknowledged", n, time.Since(began))
		return nil
	}, sub)
}

const (
	spread     = 5 * time.Second
	spreadSize = 2000
)

// measureLateness takes the time from due to handler of messages spread over 5 s.
func measureLateness(ctx context.Context, s *stage) error {
	if err := s.fillOthers(ctx); err != nil {
		return err
	}
	n := min(spreadSize, s.Messages)
	late := newTally(n)
	sub, err := s.subscriber(concurrency, func(d *subscribers.Delivery) { late.add(s.now().Sub(d.Due)) }, topic)
	if err != nil {
		return err
	}
	return s.whileRunning(ctx, func() error {
		if err := s.await(ctx, topic, s.isAwaited); err != nil {
			return err
		}
		body := s.body()
		if _, err := s.fillBefore(ctx, n, func(start time.Time, i int) notify.Message {
			return notify.Message{Topic: topic, Body: body, Due: start.Add(spread * time.Duration(i) / time.Duration(n))}
		}); err != nil {
			return err
		}
		if err := late.wait(ctx); err != nil {
			return err
		}
		late.report(s, "due to handler")
		return nil
	}, sub)
}

const (
	idleRounds = 200
	idleRest   = 10 * time.Millisecond // before each message nothing calls Redis for so long
)

// idleDelay returns a delay of 20 to 30 ms: random, so that it is in step with no timer.
func idleDelay() time.Duration { return 20*time.Millisecond + rand.N(10*time.Millisecond) }

// measureIdle takes how late single messages are with nothing else going on:
// delayed ones from due to handler, immediate ones from the call of Publish.
func measureIdle(ctx context.Context, s *stage) error {
	if err := s.fillOthers(ctx); err != nil {
		return err
	}
	err := s.rounds(ctx, idleDelay, "delayed, due to handler", func(d *subscribers.Delivery, _ time.Time) time.Time { return d.Due })
	if err != nil {
		return err
	}
	return s.rounds(ctx, func() time.Duration { return 0 }, "immediate, publish call to handler", func(_ *subscribers.Delivery, called time.Time) time.Time { return called })
}

// rounds publishes single messages, each when the subscriber waits again after the
// one before, and takes the time from what since returns.
func (s *stage) rounds(ctx context.Context, delay func() time.Duration, name string, since func(*subscribers.Delivery, time.Time) time.Time) error {
	handled := make(chan time.Duration, 1)
	var called atomic.Pointer[time.Time]
	sub, err := s.subscriber(1, func(d *subscribers.Delivery) { handled <- s.now().Sub(since(d, *called.Load())) }, topic)
	if err != nil {
		return err
	}
	return s.whileRunning(ctx, func() error {
		n := min(idleRounds, s.Messages)
		late := newTally(n)
		for range n {
			if err := s.rest(ctx); err != nil {
				return err
			}
			now := s.now()
			called.Store(&now)
			if _, err := s.pub.Publish(ctx, notify.Message{Topic: topic, Body: s.body(), Delay: delay()}); err != nil {
				return err
			}
			select {
			case took := <-handled:
				late.add(took)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		late.report(s, name)
		return nil
	}, sub)
}

// rest waits until the topic is awaited, and then lets everything rest.
func (s *stage) rest(ctx context.Context) error {
	if err := s.await(ctx, topic, s.isAwaited); err != nil {
		return err
	}
	return sleep(ctx, idleRest)
}

const (
	restAfter = time.Second // until then subscriptions and scripts of the start are there
	restFor   = 10 * time.Second
)

// measureRest counts the calls that Redis gets while nothing happens, with one
// topic and one subscriber, and with 100 of each.
func measureRest(ctx context.Context, s *stage) error {
	for _, n := range []int{1, 100} {
		var subs []*subscribers.Subscriber
		for i := range n {
			sub, err := s.subscriber(concurrency, func(*subscribers.Delivery) {}, topic+strconv.Itoa(i))
			if err != nil {
				return err
			}
			subs = append(subs, sub)
		}
		if err := s.whileRunning(ctx, func() error { return s.countCalls(ctx, n) }, subs...); err != nil {
			return err
		}
	}
	return nil
}

// countCalls counts the calls while n subscribers wait for a topic each.
func (s *stage) countCalls(ctx context.Context, n int) error {
	for i := range n {
		if err := s.await(ctx, topic+strconv.Itoa(i), s.isAwaited); err != nil {
			return err
		}
	}
	if err := sleep(ctx, restAfter); err != nil {
		return err
	}
	sent0, all0, err := s.calls(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, restFor); err != nil {
		return err
	}
	sent, all, err := s.calls(ctx)
	if err != nil {
		return err
	}
	name, seconds := fmt.Sprintf("topics and subscribers: %d", n), restFor.Seconds()
	s.report(name+", calls", (sent-sent0)/seconds, "calls/s", int(seconds))
	s.report(name+", with those inside scripts", (all-all0-1)/seconds, "commands/s", int(seconds)) // less one INFO
	return nil
}

// calls returns how many commands Redis has carried out: those that clients
// sent, and all of them, those inside scripts included.
func (s *stage) calls(ctx context.Context) (sent, all float64, err error) {
	fields, err := s.store.Home().Info(ctx, "commandstats")
	if err != nil {
		return 0, 0, err
	}
	for name, value := range fields {
		n := callsOf(value)
		all += n
		switch command, _, _ := strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|"); command {
		case "fcall", "eval", "evalsha", "subscribe", "unsubscribe", "ping", "client", "hello", "auth", "select":
			sent += n
		}
	}
	return sent, all, nil
}

// callsOf reads a line of INFO commandstats, such as calls=7,usec=40.
func callsOf(line string) float64 {
	_, rest, _ := strings.Cut(line, "calls=")
	number, _, _ := strings.Cut(rest, ",")
	return toNumber(number)
}

const (
	memorySize = 100_000 // how many messages wait while the memory is measured
	memoryWarm = 1000    // how many wait before: scripts, buffers and keys are there
)

// measureMemory takes the memory that Redis needs for a waiting message with a
// generated id, on a topic of 5 letters.
func measureMemory(ctx context.Context, s *stage) error {
	body := s.body()
	message := func(i int) notify.Message {
		return notify.Message{Topic: topic, Body: body, Delay: time.Hour + time.Duration(i)*time.Millisecond}
	}
	if err := s.fill(ctx, memoryWarm, message); err != nil {
		return err
	}
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	if err := s.fill(ctx, memorySize, message); err != nil {
		return err
	}
	after, err := s.memory(ctx)
	if err != nil {
		return err
	}
	s.report("each waiting message, with a generated id", (after-before)/memorySize, "bytes", memorySize)
	return nil
}

// memory returns the bytes that Redis uses, once it has freed what was removed.
func (s *stage) memory(ctx context.Context) (float64, error) {
	for {
		fields, err := s.store.Home().Info(ctx, "memory")
		if err != nil {
			return 0, err
		}
		if n := fields["lazyfree_pending_objects"]; n == "" || n == "0" {
			return strconv.ParseFloat(fields["used_memory"], 64)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
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
	began := time.Now()
	err := each(publishers, func(int) error {
		for range s.Messages / publishers {
			if _, err := s.pub.Publish(ctx, notify.Message{Topic: topic, Body: body, Delay: time.Hour}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.report("single calls from 16 goroutines", float64(s.Messages)/time.Since(began).Seconds(), "messages/s")

	began = time.Now()
	if err := s.fill(ctx, 2*s.Messages, func(i int) notify.Message {
		return notify.Message{Topic: topic + ".batch", Body: body, Delay: time.Hour}
	}); err != nil {
		return err
	}
	s.report("batches of 500", float64(2*s.Messages)/time.Since(began).Seconds(), "messages/s")
	return nil
}

// fill publishes n messages in batches of 500, from two goroutines: one makes a batch ready while Redis takes the other.
func (s *stage) fill(ctx context.Context, n int, message func(i int) notify.Message) error {
	const batch, callers = 500, 2
	var next atomic.Int64
	return each(callers, func(int) error {
		for {
			from := int(next.Add(batch)) - batch
			if from >= n {
				return nil
			}
			messages := make([]notify.Message, 0, batch)
			for i := from; i < min(from+batch, n); i++ {
				messages = append(messages, message(i))
			}
			for _, result := range s.pub.PublishMany(ctx, messages) {
				if result.Err != nil {
					return result.Err
				}
			}
		}
	})
}

// each calls f in n goroutines and returns the first error.
func each(n int, f func(i int) error) error {
	var all sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		all.Go(func() {
			if err := f(i); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
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
		due := s.now().Add(time.Second + time.Duration(s.Messages)*20*time.Microsecond).Truncate(time.Millisecond)
		body := s.body()
		if err := s.fill(ctx, s.Messages, func(int) notify.Message { return notify.Message{Topic: topic, Body: body, Due: due} }); err != nil {
			return err
		}
		if err := sleep(ctx, due.Sub(s.now())); err != nil {
			return err
		}
		if err := s.await(ctx, topic, isDone); err != nil {
			return err
		}
		took := s.now().Sub(due)
		s.report("until the last is acknowledged", took.Seconds()*1000, "ms")
		s.report("rate", float64(s.Messages)/took.Seconds(), "messages/s")
		s.report("first message late", float64(first.Load()-due.UnixMicro())/1000, "ms")
		return nil
	}, sub)
}

// measureBacklog publishes messages that are due at once, and takes the time
// that a subscriber takes for them from its start.
func measureBacklog(ctx context.Context, s *stage) error {
	body := s.body()
	if err := s.fill(ctx, s.Messages, func(int) notify.Message { return notify.Message{Topic: topic, Body: body} }); err != nil {
		return err
	}
	sub, err := s.subscriber(concurrency, func(*subscribers.Delivery) {}, topic)
	if err != nil {
		return err
	}
	began := time.Now()
	return s.whileRunning(ctx, func() error {
		if err := s.await(ctx, topic, isDone); err != nil {
			return err
		}
		s.report("handled and acknowledged", float64(s.Messages)/time.Since(began).Seconds(), "messages/s")
		return nil
	}, sub)
}

const (
	spread     = 5 * time.Second
	spreadSize = 2000
)

// measureLateness takes the time from due to handler of messages spread over 5 s.
func measureLateness(ctx context.Context, s *stage) error {
	late := newTally(spreadSize)
	sub, err := s.subscriber(concurrency, func(d *subscribers.Delivery) { late.add(s.now().Sub(d.Due)) }, topic)
	if err != nil {
		return err
	}
	return s.whileRunning(ctx, func() error {
		if err := s.await(ctx, topic, isAwaited); err != nil {
			return err
		}
		start := s.now().Add(time.Second).Truncate(time.Millisecond)
		body := s.body()
		if err := s.fill(ctx, spreadSize, func(i int) notify.Message {
			return notify.Message{Topic: topic, Body: body, Due: start.Add(spread * time.Duration(i) / spreadSize)}
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
	delayedRounds   = 40
	immediateRounds = 200
)

// measureIdle takes how late single messages are with nothing else going on:
// delayed ones from due to handler, immediate ones from the call of Publish.
func measureIdle(ctx context.Context, s *stage) error {
	err := s.rounds(ctx, delayedRounds, 300*time.Millisecond, "delayed, due to handler", func(d *subscribers.Delivery, _ time.Time) time.Time { return d.Due })
	if err != nil {
		return err
	}
	return s.rounds(ctx, immediateRounds, 0, "immediate, publish call to handler", func(_ *subscribers.Delivery, called time.Time) time.Time { return called })
}

// rounds publishes single messages, each when the one before was handled, and
// takes the time from what since returns.
func (s *stage) rounds(ctx context.Context, n int, delay time.Duration, name string, since func(*subscribers.Delivery, time.Time) time.Time) error {
	handled := make(chan time.Duration, 1)
	var called atomic.Pointer[time.Time]
	sub, err := s.subscriber(1, func(d *subscribers.Delivery) { handled <- s.now().Sub(since(d, *called.Load())) }, topic)
	if err != nil {
		return err
	}
	return s.whileRunning(ctx, func() error {
		late := newTally(n)
		for range n {
			if err := s.await(ctx, topic, isAwaited); err != nil {
				return err
			}
			if err := sleep(ctx, 20*time.Millisecond); err != nil { // idle again
				return err
			}
			now := s.now()
			called.Store(&now)
			if _, err := s.pub.Publish(ctx, notify.Message{Topic: topic, Body: s.body(), Delay: delay}); err != nil {
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

const restFor = 10 * time.Second

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
		if err := s.whileRunning(ctx, func() error { return s.rest(ctx, n) }, subs...); err != nil {
			return err
		}
	}
	return nil
}

// rest counts the calls while n subscribers wait for a topic each.
func (s *stage) rest(ctx context.Context, n int) error {
	for i := range n {
		if err := s.await(ctx, topic+strconv.Itoa(i), isAwaited); err != nil {
			return err
		}
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
	name := fmt.Sprintf("topics and subscribers: %d", n)
	s.report(name+", calls", (sent-sent0)/restFor.Seconds(), "calls/s")
	s.report(name+", with those inside scripts", (all-all0-1)/restFor.Seconds(), "commands/s") // less one INFO
	return nil
}

// memorySize is how many messages wait while the memory is measured.
const memorySize = 100_000

// measureMemory takes the memory that Redis needs for a waiting message with an id of 20 bytes.
func measureMemory(ctx context.Context, s *stage) error {
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	body := s.body()
	err = s.fill(ctx, memorySize, func(i int) notify.Message {
		return notify.Message{Topic: topic, ID: fmt.Sprintf("%020d", i), Body: body, Delay: time.Hour + time.Duration(i)*time.Millisecond}
	})
	if err != nil {
		return err
	}
	after, err := s.memory(ctx)
	if err != nil {
		return err
	}
	s.report("each waiting message", (after-before)/memorySize, "bytes")
	return nil
}

func (s *stage) memory(ctx context.Context) (float64, error) {
	fields, err := s.store.Info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(fields["used_memory"], 64)
}

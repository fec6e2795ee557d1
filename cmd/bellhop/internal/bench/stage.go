package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// now is Redis's time.
func (s *stage) now() time.Time { return time.Now().Add(s.clock) }

// body returns a body of the size that is asked for.
func (s *stage) body() []byte { return []byte(strings.Repeat("x", s.Body)) }

// fillBatch is how many messages are published in a call.
const fillBatch = 500

// fill publishes n messages in batches, from two goroutines: one makes a batch ready while Redis takes the other.
func (s *stage) fill(ctx context.Context, n int, message func(i int) notify.Message) error {
	const callers = 2
	var next atomic.Int64
	return each(callers, func(int) error {
		for {
			from := int(next.Add(fillBatch)) - fillBatch
			if from >= n {
				return nil
			}
			messages := make([]notify.Message, 0, fillBatch)
			for i := from; i < min(from+fillBatch, n); i++ {
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

// errLate is the error of messages that were not published before they were due.
var errLate = errors.New("late")

// fillBefore publishes n messages with the due times that message makes of a start,
// before that start, and returns it. The error may be an errLate.
func (s *stage) fillBefore(ctx context.Context, n int, message func(start time.Time, i int) notify.Message) (time.Time, error) {
	began := time.Now()
	if err := s.fill(ctx, fillBatch, func(int) notify.Message {
		return notify.Message{Topic: topic + ".trial", Body: s.body(), Delay: time.Hour}
	}); err != nil {
		return time.Time{}, err
	}
	takes := time.Duration(n/fillBatch+1) * time.Since(began) // at most: the first call of a connection is slow
	start := s.now().Add(300*time.Millisecond + takes).Truncate(time.Millisecond)
	if err := s.fill(ctx, n, func(i int) notify.Message { return message(start, i) }); err != nil {
		return start, err
	}
	if late := s.now().Sub(start); late > 0 {
		return start, fmt.Errorf("publish %d messages before they are due: %v %w; use fewer", n, late, errLate)
	}
	return start, nil
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

// whileRunning calls f while subscribers run, and waits for their end.
func (s *stage) whileRunning(ctx context.Context, f func() error, subs ...*subscribers.Subscriber) error {
	running, stop := context.WithCancel(ctx)
	ends := make(chan error, len(subs))
	for _, sub := range subs {
		go func() { ends <- sub.Run(running) }()
	}
	errs := []error{f()}
	stop()
	for range cap(ends) {
		errs = append(errs, <-ends)
	}
	return errors.Join(errs...)
}

// subscriber returns a subscriber of topics whose handler does nothing but call on.
func (s *stage) subscriber(concurrency int, on func(*subscribers.Delivery), topics ...string) (*subscribers.Subscriber, error) {
	sub, err := subscribers.NewSubscriber(s.store, subscribers.SubscriberOptions{Logger: quiet()})
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		err = errors.Join(err, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
			on(d)
			return nil
		}, subscribers.HandleOptions{Concurrency: concurrency}))
	}
	return sub, err
}

// await waits until the counts of a topic meet a condition.
func (s *stage) await(ctx context.Context, topic string, condition func(notify.Counts) bool) error {
	for {
		counts, err := s.inspector.Count(ctx, topic)
		if err != nil || condition(counts[0]) {
			return err
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// otherTopics is on how many topics others wait: the measured one is among them.
const otherTopics = 10

// fillOthers publishes the messages that wait beside those that are measured.
func (s *stage) fillOthers(ctx context.Context) error {
	if s.Waiting == 0 {
		return nil
	}
	before, err := s.memory(ctx)
	if err != nil {
		return err
	}
	body, names := s.body(), []string{topic}
	for i := 1; i < otherTopics; i++ {
		names = append(names, topic+"."+strconv.Itoa(i))
	}
	began := time.Now()
	if err := s.fill(ctx, s.Waiting, func(i int) notify.Message {
		return notify.Message{Topic: names[i/fillBatch%otherTopics], Body: body, Delay: time.Hour + time.Duration(i)*time.Millisecond}
	}); err != nil {
		return err
	}
	s.rate("others published, on 10 topics", s.Waiting, time.Since(began))
	after, err := s.memory(ctx)
	if err != nil {
		return err
	}
	s.report("each of the others", (after-before)/float64(s.Waiting), "bytes", s.Waiting)
	counts, err := s.inspector.Count(ctx, topic)
	if err == nil {
		s.others = counts[0].Scheduled
	}
	return err
}

// isDone reports whether no message of a topic is left to be handled.
func (s *stage) isDone(c notify.Counts) bool { return c.Scheduled+c.Ready+c.Leased == s.others }

// isAwaited reports whether a subscriber or a long poll waits for messages of a topic, and nothing is on its way.
func (s *stage) isAwaited(c notify.Counts) bool { return c.Waiting > 0 && s.isDone(c) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

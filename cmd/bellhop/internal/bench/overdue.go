package bench

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	overdueTopics = 10_000
	probeEvery    = 5 * time.Millisecond
	probeDelay    = 20 * time.Millisecond
	mostProbes    = 100_000 // of which the lateness is kept
)

// measureOverdue has messages of one topic become overdue while nobody carries,
// and takes how late those of another are until the last is handled.
func measureOverdue(ctx context.Context, s *stage) error {
	handled, all := new(atomic.Int64), make(chan struct{})
	sub, err := s.subscriber(hands, func(*subscribers.Delivery) {
		if handled.Add(1) == int64(s.Overdue) {
			close(all)
		}
	}, topic+".overdue0")
	if err != nil {
		return err
	}
	return s.overdue(ctx, 1, "handled and acknowledged", func(ctx context.Context, _ time.Time) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-all:
			return nil
		}
	}, sub)
}

// measureOverdueTopics does so with messages of many topics, and until the last is ready.
func measureOverdueTopics(ctx context.Context, s *stage) error {
	return s.overdue(ctx, overdueTopics, "made ready", func(ctx context.Context, last time.Time) error {
		for {
			status, err := carrier.Look(ctx, s.store)
			if err != nil {
				return err
			}
			if status.Next.IsZero() || status.Next.After(last) {
				return nil
			}
			if err := sleep(ctx, probeEvery); err != nil {
				return err
			}
		}
	})
}

// overdue publishes messages of some topics, starts the crew when the last is
// due, and probes another topic until done, which is told when that was, returns.
func (s *stage) overdue(ctx context.Context, topics int, name string, done func(ctx context.Context, last time.Time) error, subs ...*subscribers.Subscriber) error {
	first := s.now().Add(time.Second + time.Duration(s.Overdue)*20*time.Microsecond)
	last := first.Add(time.Duration(s.Overdue) * time.Microsecond)
	body := s.body()
	if err := s.fill(ctx, s.Overdue, func(i int) notify.Message {
		return notify.Message{Topic: topic + ".overdue" + strconv.Itoa(i%topics), Body: body, Due: first.Add(time.Duration(i) * time.Microsecond)}
	}); err != nil {
		return err
	}
	if s.now().After(first) {
		return errors.New("the first message was due before the last was published: this machine is too slow, or too busy")
	}
	if err := sleep(ctx, last.Sub(s.now())); err != nil {
		return err
	}
	late := newTally(mostProbes)
	probed, err := s.subscriber(hands, func(d *subscribers.Delivery) { late.add(s.now().Sub(d.Due)) }, topic)
	if err != nil {
		return err
	}
	began := time.Now()
	return s.crewed(ctx, func() error {
		if err := s.ready(ctx, topic, 1); err != nil {
			return err
		}
		if err := s.probe(ctx, func() error { return done(ctx, last) }); err != nil {
			return err
		}
		s.tell(name, float64(s.Overdue)/time.Since(began).Seconds(), "messages/s")
		if err := s.empty(ctx, topic); err != nil {
			return err
		}
		late.tell(s, "another topic, due to handler")
		return nil
	}, append(subs, probed)...)
}

// probe publishes messages, one every few ms, until done returns, and returns its error.
func (s *stage) probe(ctx context.Context, done func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- done() }()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	body := s.body()
	for {
		if _, err := s.pub.Publish(ctx, notify.Message{Topic: topic, Body: body, Delay: probeDelay}); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
	}
}

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

// audience is listeners of a topic, spread over connections.
type audience struct {
	stop context.CancelFunc
	ends chan error
	size int
}

// listen starts listeners and returns when all of them listen. on is called by
// each, with its number, for each broadcast.
func (s *stage) listen(ctx context.Context, connections, each int, topic func(i int) string, on func(i int, b *subscribers.Broadcast)) (*audience, error) {
	ctx, stop := context.WithCancel(ctx)
	a := &audience{stop: stop, size: connections * each, ends: make(chan error, connections*each)}
	var started sync.WaitGroup
	started.Add(a.size)
	for c := range connections {
		l := subscribers.NewListener(s.store, subscribers.ListenerOptions{Logger: quiet()})
		for i := range each {
			number := c*each + i
			go func() {
				a.ends <- l.Listen(ctx, topic(number), func(_ context.Context, b *subscribers.Broadcast) error {
					on(number, b)
					return nil
				}, subscribers.ListenOptions{OnStart: func(notify.Position) { started.Done() }})
			}()
		}
	}
	listening := make(chan struct{})
	go func() {
		started.Wait()
		close(listening)
	}()
	select {
	case <-listening:
		return a, nil
	case err := <-a.ends:
		stop()
		return nil, err
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	}
}

// end ends the listeners.
func (a *audience) end() {
	a.stop()
	for range a.size {
		<-a.ends
	}
}

func same(topic string) func(int) string { return func(int) string { return topic } }

const (
	fanoutConnections = 10
	fanoutEach        = 100
	fanoutRounds      = 20
)

// measureFanout takes the time from due until the last of 1,000 listeners has a broadcast.
func measureFanout(ctx context.Context, s *stage) error {
	return s.crewed(ctx, func() error {
		got := make(chan time.Duration, fanoutConnections*fanoutEach)
		a, err := s.listen(ctx, fanoutConnections, fanoutEach, same(topic), func(_ int, b *subscribers.Broadcast) { got <- s.now().Sub(b.Due) })
		if err != nil {
			return err
		}
		defer a.end()
		last := newTally(fanoutRounds)
		for range fanoutRounds {
			if _, err := s.pub.Broadcast(ctx, notify.Message{Topic: topic, Body: s.body(), Delay: 300 * time.Millisecond}); err != nil {
				return err
			}
			latest := time.Duration(-1 << 62)
			for range cap(got) {
				select {
				case late := <-got:
					latest = max(latest, late)
					if late < 0 {
						last.add(late)
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			last.add(latest)
		}
		last.tell(s, "due to the last of 1,000 listeners")
		return nil
	})
}

const (
	streamRate      = 10_000 // broadcasts a second
	streamFor       = 10 * time.Second
	streamListeners = 10
	streamTick      = 10 * time.Millisecond
)

// measureStream publishes 10,000 broadcasts a second for 10 s to 10 listeners
// with a connection each, and counts what they have.
func measureStream(ctx context.Context, s *stage) error {
	total := int64(streamRate * streamFor / time.Second)
	return s.crewed(ctx, func() error {
		var got, early atomic.Int64
		late := newTally(int(total))
		a, err := s.listen(ctx, streamListeners, 1, same(topic), func(i int, b *subscribers.Broadcast) {
			took := s.now().Sub(b.Due)
			if i == 0 {
				late.add(took)
			}
			if took < 0 {
				early.Add(1)
			}
			got.Add(1)
		})
		if err != nil {
			return err
		}
		defer a.end()
		began := time.Now()
		if err := s.announce(ctx, int(total), began); err != nil {
			return err
		}
		sent := time.Since(began)
		if err := until(ctx, 10*time.Second, func() bool { return got.Load() == total*streamListeners }); err != nil {
			return fmt.Errorf("%d of %d were received: %w", got.Load(), total*streamListeners, err)
		}
		s.tell("broadcasts, to each of 10 listeners", float64(total)/sent.Seconds(), "broadcasts/s")
		s.tell("lost", float64(total*streamListeners-got.Load()), "")
		late.tell(s, "due to handler")
		return nil
	})
}

// announce publishes broadcasts that are due at once, at streamRate.
func (s *stage) announce(ctx context.Context, total int, began time.Time) error {
	const batch = int(streamRate * streamTick / time.Second)
	body := s.body()
	messages := make([]notify.Message, batch)
	for i := range messages {
		messages[i] = notify.Message{Topic: topic, Body: body, Broadcast: true}
	}
	for sent := 0; sent < total; sent += batch {
		if err := sleep(ctx, time.Until(began.Add(time.Duration(sent/batch)*streamTick))); err != nil {
			return err
		}
		for _, result := range s.pub.PublishMany(ctx, messages) {
			if result.Err != nil {
				return result.Err
			}
		}
	}
	return nil
}

// until waits for a condition.
func until(ctx context.Context, within time.Duration, done func() bool) error {
	for end := time.Now().Add(within); !done(); {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v", within)
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

const (
	missed  = 10_000
	awayFor = 30 * time.Second
)

// measureReturn takes the time in which a listener that was away for 30 s has
// the 10,000 broadcasts that it missed.
func measureReturn(ctx context.Context, s *stage) error {
	return s.crewed(ctx, func() error {
		place, err := s.attend(ctx, subscribers.FromNow(), 1, func() error {
			_, err := s.pub.Broadcast(ctx, notify.Message{Topic: topic, Body: s.body()})
			return err
		})
		if err != nil {
			return err
		}
		start := s.now()
		if err := s.fill(ctx, missed, func(i int) notify.Message {
			return notify.Message{Topic: topic, Body: s.body(), Broadcast: true, Due: start.Add(awayFor * time.Duration(i) / missed)}
		}); err != nil {
			return err
		}
		if err := s.sent(ctx, topic, 1+missed); err != nil {
			return err
		}
		began := time.Now()
		_, err = s.attend(ctx, subscribers.After(place), missed, func() error { return nil })
		s.tell("10,000 broadcasts that were missed", time.Since(began).Seconds()*1000, "ms")
		return err
	})
}

// attend listens anew until it has heard n broadcasts, in order, and returns the
// position of the last. started is called when it listens.
func (s *stage) attend(ctx context.Context, from subscribers.From, n int, started func() error) (last notify.Position, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err = subscribers.NewListener(s.store, subscribers.ListenerOptions{Logger: quiet()}).Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
		if b.Position <= last {
			return fmt.Errorf("position %s came behind %s", b.Position, last)
		}
		last = b.Position
		if n--; n == 0 {
			stop(nil)
		}
		return nil
	}, subscribers.ListenOptions{From: from, OnStart: func(notify.Position) {
		if err := started(); err != nil {
			stop(err)
		}
	}})
	if err == nil && n > 0 {
		err = context.Cause(ctx)
	}
	return last, err
}

// sent waits until n broadcasts of a topic were sent.
func (s *stage) sent(ctx context.Context, topic string, n int64) error {
	for {
		c, err := s.pub.Topic(ctx, topic)
		if err != nil || c.Sent >= n {
			return err
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// measureListening counts the calls that Redis gets while nothing happens, with 100 listeners of 100 topics.
func measureListening(ctx context.Context, s *stage) error {
	return s.crewed(ctx, func() error {
		a, err := s.listen(ctx, 10, 10, func(i int) string { return topic + strconv.Itoa(i) }, func(int, *subscribers.Broadcast) {})
		if err != nil {
			return err
		}
		defer a.end()
		return s.calmly(ctx, "100 listeners")
	})
}

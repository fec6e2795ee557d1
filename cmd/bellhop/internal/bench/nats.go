package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
)

// bridged calls f while a carrier and a gate to NATS run, with a client of its
// own and the prefix of its subjects, and waits for their end.
func (s *stage) bridged(ctx context.Context, f func(conn *nats.Conn, prefix string) error) error {
	prefix := "bench-" + strings.ToLower(notify.NewID()[16:])
	gate, err := natsgate.New(s.store, natsgate.Options{
		URL: s.NATS, Prefix: prefix, Deliver: []natsgate.Deliver{{Topic: deliverTopic, InFlight: deliverInFlight}}, Logger: quiet(),
	})
	if err != nil {
		return err
	}
	c, err := carrier.New(s.store, carrier.Options{OnTerm: gate.Term, Logger: quiet()})
	if err != nil {
		return err
	}
	conn, err := nats.Connect(s.NATS)
	if err != nil {
		return fmt.Errorf("nats at %s: %w", natsgate.RedactURLs(s.NATS), err)
	}
	defer conn.Close()
	beat, err := conn.SubscribeSync(prefix + ".beat")
	if err != nil {
		return err
	}
	crew, stop := context.WithCancel(ctx)
	ends := make(chan error, 2)
	go func() { ends <- c.Run(crew) }()
	go func() { ends <- gate.Run(crew) }()
	_, err = beat.NextMsgWithContext(ctx) // then all of it runs
	if err == nil {
		err = f(conn, prefix)
	}
	stop()
	return errors.Join(err, <-ends, <-ends)
}

const (
	natsRounds = 500
	natsApart  = 10 * time.Millisecond
)

// measureNatsWake takes the time from due until a listener over NATS is woken.
// Each message has a topic of its own: nobody claims it, so beats wake once more.
func measureNatsWake(ctx context.Context, s *stage) error {
	return s.bridged(ctx, func(conn *nats.Conn, prefix string) error {
		start := s.now().Add(time.Second).Truncate(time.Millisecond)
		due := func(i int) time.Time { return start.Add(time.Duration(i) * natsApart) }
		late, woken := newTally(natsRounds), make(map[int]bool)
		_, err := conn.Subscribe(prefix+".wake."+topic+".*", func(m *nats.Msg) {
			i, _ := strconv.Atoi(strings.TrimPrefix(m.Subject, prefix+".wake."+topic+"."))
			if !woken[i] {
				woken[i] = true
				late.add(s.now().Sub(due(i)))
			}
		})
		if err != nil {
			return err
		}
		if err := s.fill(ctx, natsRounds, func(i int) notify.Message {
			return notify.Message{Topic: topic + "." + strconv.Itoa(i), Body: s.body(), Due: due(i)}
		}); err != nil {
			return err
		}
		if err := late.wait(ctx); err != nil {
			return err
		}
		late.tell(s, "due to woken over nats")
		return nil
	})
}

// measureNatsBroadcast takes the time from due until a listener over NATS has a broadcast.
func measureNatsBroadcast(ctx context.Context, s *stage) error {
	return s.bridged(ctx, func(conn *nats.Conn, prefix string) error {
		late := newTally(natsRounds)
		_, err := conn.Subscribe(prefix+".broadcast."+topic, func(m *nats.Msg) {
			due, _ := time.Parse(time.RFC3339, m.Header.Get("ce-time"))
			late.add(s.now().Sub(due))
		})
		if err != nil {
			return err
		}
		start := s.now().Add(time.Second)
		if err := s.fill(ctx, natsRounds, func(i int) notify.Message {
			return notify.Message{Topic: topic, Body: s.body(), Broadcast: true, Due: start.Add(time.Duration(i) * natsApart)}
		}); err != nil {
			return err
		}
		if err := late.wait(ctx); err != nil {
			return err
		}
		late.tell(s, "due to heard over nats")
		return nil
	})
}

const (
	deliverTopic    = "bench.deliver"
	deliverInFlight = 256
	deliverGroup    = 2 // listeners of the queue group
)

// measureDeliver takes the rate at which messages are delivered over NATS and acknowledged.
func measureDeliver(ctx context.Context, s *stage) error {
	body := s.body()
	if err := s.fill(ctx, s.Messages, func(int) notify.Message { return notify.Message{Topic: deliverTopic, Body: body} }); err != nil {
		return err
	}
	return s.bridged(ctx, func(conn *nats.Conn, prefix string) error {
		var first atomic.Int64
		for range deliverGroup {
			_, err := conn.QueueSubscribe(prefix+".deliver."+deliverTopic, "workers", func(m *nats.Msg) {
				first.CompareAndSwap(0, time.Now().UnixNano())
				_ = m.Respond([]byte("+ACK")) // where it fails the message comes again
			})
			if err != nil {
				return err
			}
		}
		if err := s.empty(ctx, deliverTopic); err != nil {
			return err
		}
		took := time.Since(time.Unix(0, first.Load()))
		s.tell("delivered and acknowledged", float64(s.Messages)/took.Seconds(), "messages/s")
		return nil
	})
}

package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// Heartbeat is the longest time between two beats of the carrier.
const Heartbeat = time.Second

// Silence is how long a subscription may receive nothing before it is taken for
// dead: three beats.
const Silence = 3 * Heartbeat

const maxSilence = 30 * time.Second

// Patience is how long Redis may leave the first call of a program unanswered, or
// the first beat may be missing, before that is logged.
const Patience = Silence - Heartbeat/2

// NoAnswer returns the error of a Redis that did not answer within Patience.
func (s *Store) NoAnswer() error {
	return &ServerError{Where: s.where, Err: fmt.Errorf("no answer within %v: %w", Patience, os.ErrDeadlineExceeded)}
}

// An Event is what [Store.Subscribe] calls on with.
type Event struct {
	Kind    EventKind
	Channel string // of a Received
	Payload string // of a Received or a Beat
	Err     error  // of a Broken
}

// The fields of a beat: the carrier's epoch, the time in ms, the id of the store, a bell, and topics.
const (
	beatEpoch = iota
	beatTime
	beatStore
	beatBell
	beatTopics
)

// Epoch returns the epoch of the carrier that sent a Beat; zero if another program
// sent it.
func (e Event) Epoch() int64 {
	epoch, err := strconv.ParseInt(e.field(beatEpoch), 10, 64)
	if err != nil || epoch < 0 {
		return 0
	}
	return epoch
}

// Ms returns the time of a Beat in ms by Redis's clock; zero if another program sent it.
func (e Event) Ms() int64 {
	ms, _ := strconv.ParseInt(e.field(beatTime), 10, 64)
	return ms
}

// field returns a field of a Beat, empty if it has none.
func (e Event) field(i int) string {
	if fields := strings.Fields(e.Payload); e.Kind == Beat && len(fields) > i {
		return fields[i]
	}
	return ""
}

// Topics returns the topics that a Beat names: they have something ready, and
// their waiting lists are empty. A subscriber that waits for one of them must claim:
// its place in the list was lost.
func (e Event) Topics() []string {
	if fields := strings.Fields(e.Payload); e.Kind == Beat && len(fields) > beatTopics {
		return fields[beatTopics:]
	}
	return nil
}

// StoreID returns the id of the store that a Beat names. An id that differs from
// the one before means that Redis lost all that it held.
func (e Event) StoreID() string { return e.field(beatStore) }

// Bell returns the bell in a Received or a Beat. That of a Beat is for listeners that
// missed one: it names the logs that grew lately, if they are few, and where all of
// them end. The error is an ErrInvalid.
func (e Event) Bell() (Bell, error) {
	if e.Kind != Beat {
		return ParseBell(e.Payload)
	}
	bell := e.field(beatBell)
	if bell == "" {
		return Bell{}, Faultf("beat", "beat %.100q: use an epoch, a time, the id of a store and a bell", e.Payload)
	}
	return ParseBell(bell)
}

// EventKind tells events apart.
type EventKind int

// The kinds of events.
const (
	Subscribed EventKind = iota + 1 // the subscription is up: check for what was published before
	Received                        // a message on one of the channels
	Beat                            // the carrier's heartbeat
	Silent                          // three beats were missed: no carrier runs, or the connection is dead; it is renewed, and others that were as silent are given up
	Broken                          // the connection failed; it is renewed
)

// Subscribe subscribes to channels and to the carrier's beat, and calls on for each
// event, one at a time, until ctx ends. on must not block: events are lost for good
// when the connection's buffers are full. It renews a broken or silent
// connection, and sends a Subscribed event each time it is up. A channel that ends
// in * is a pattern of Redis. While no carrier runs, the silence before the next
// renewal doubles up to half a minute.
func (s *Store) Subscribe(ctx context.Context, on func(Event), channels ...string) {
	defer s.sentinels.watch()()
	silence := Silence
	var pause backoff.Pause
	for ctx.Err() == nil {
		err := s.subscription(ctx, silence, func(e Event) {
			switch e.Kind {
			case Subscribed:
				pause.Reset()
			case Beat:
				silence = Silence
			}
			on(e)
		}, channels)
		if endOf(ctx) != nil {
			return
		}
		s.reload(ctx) // this process may make no other call that would do it

		if errors.Is(err, errSilent) || errors.Is(err, net.ErrClosed) { // hangUp closed it: another subscription was silent first
			silence = min(2*silence, maxSilence)
			s.connections.hangUp(Silence - Heartbeat)
			on(Event{Kind: Silent})
			continue
		}
		on(Event{Kind: Broken, Err: s.explain(ctx, err)})
		pause.Wait(ctx)
	}
}

// errSilent is why a connection ends that received no beat for too long.
var errSilent = errors.New("no beat was heard")

// subscription runs one connection of Subscribe, and returns why it ended.
func (s *Store) subscription(ctx context.Context, silence time.Duration, on func(Event), channels []string) error {
	beat := s.keys.Beat()
	sub, err := s.subscribe(ctx, append([]string{beat}, channels...))
	if err != nil {
		return err
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	for missing := len(channels) + 1; missing > 0; {
		got, err := sub.ReceiveTimeout(ctx, Silence)
		if err != nil {
			return err
		}
		if _, ok := got.(*redis.Subscription); ok {
			missing--
		}
	}
	on(Event{Kind: Subscribed})
	last := time.Now()
	for {
		got, err := sub.ReceiveTimeout(ctx, max(time.Until(last.Add(silence)), time.Millisecond))
		var network net.Error
		if errors.As(err, &network) && network.Timeout() {
			return errSilent
		}
		if err != nil {
			return err
		}
		m, ok := got.(*redis.Message)
		switch {
		case ok && m.Channel == beat:
			last, silence = time.Now(), Silence
			on(Event{Kind: Beat, Payload: m.Payload})
		case ok:
			on(Event{Kind: Received, Channel: m.Channel, Payload: m.Payload})
		}
	}
}

// subscribe subscribes to channels; those that end in * are patterns.
func (s *Store) subscribe(ctx context.Context, channels []string) (*redis.PubSub, error) {
	var plain, patterns []string
	for _, channel := range channels {
		if strings.HasSuffix(channel, "*") {
			patterns = append(patterns, channel)
		} else {
			plain = append(plain, channel)
		}
	}
	sub := s.client.Subscribe(ctx, plain...)
	if len(patterns) > 0 {
		if err := sub.PSubscribe(ctx, patterns...); err != nil {
			sub.Close()
			return nil, err
		}
	}
	return sub, nil
}

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

// Heartbeat is how often the carrier makes itself heard, at the least.
const Heartbeat = time.Second

// Silence is how long a connection may be silent before it is taken for dead: three beats.
const Silence = 3 * Heartbeat

const maxSilence = 30 * time.Second

// Patience is how long Redis may leave the first call of a program unanswered, or
// a carrier may not be heard at first, before that is logged.
const Patience = Silence - Heartbeat/2

// NoAnswer returns the error of a Redis that let Patience pass without an answer.
func (s *Store) NoAnswer() error {
	return &ServerError{Where: s.where, Err: fmt.Errorf("no answer within %v: %w", Patience, os.ErrDeadlineExceeded)}
}

// An Event is something that [Store.Hear] heard.
type Event struct {
	Kind    EventKind
	Channel string // of a Heard
	Payload string // of a Heard or a Beat
	Err     error  // of a Broken
}

// What a beat says: the carrier's epoch, the time in ms, the id of the store, a bell, and topics.
const (
	beatEpoch = iota
	beatTime
	beatStore
	beatBell
	beatTopics
)

// Epoch returns the number of the election of the carrier that a Beat is of; zero
// where it is another program's.
func (e Event) Epoch() int64 {
	epoch, err := strconv.ParseInt(e.field(beatEpoch), 10, 64)
	if err != nil || epoch < 0 {
		return 0
	}
	return epoch
}

// Ms returns the time of a Beat in ms by Redis's clock; zero where it is another program's.
func (e Event) Ms() int64 {
	ms, _ := strconv.ParseInt(e.field(beatTime), 10, 64)
	return ms
}

// field returns a field of a Beat; empty where there is none.
func (e Event) field(i int) string {
	if fields := strings.Fields(e.Payload); e.Kind == Beat && len(fields) > i {
		return fields[i]
	}
	return ""
}

// Topics returns the topics that a Beat names: they have something ready, and
// nobody stands in their waiting list. A subscriber that believes to stand there
// claims: the list was lost.
func (e Event) Topics() []string {
	if fields := strings.Fields(e.Payload); e.Kind == Beat && len(fields) > beatTopics {
		return fields[beatTopics:]
	}
	return nil
}

// StoreID returns the id of the store that a Beat names: another one than before
// means that Redis lost all that it held.
func (e Event) StoreID() string { return e.field(beatStore) }

// Bell returns the bell that a Heard is, or that a Beat holds for who missed
// one: it names the logs that have grown lately, if they are few, and where all
// of them end. The error is an ErrInvalid.
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
	Subscribed EventKind = iota + 1 // the connection stands: look for what was published before it stood
	Heard                           // a message on one of the channels
	Beat                            // the carrier's heartbeat
	Silent                          // no beat for three of them: no carrier lives, or the connection is dead; it is made anew, and others that were as silent are closed
	Broken                          // the connection failed; it is made anew
)

// Hear subscribes to channels and to the carrier's beat, and calls on for each
// event, one at a time, until ctx ends. on must not block: what it is called
// for is lost for good when the connection's buffers are full. A broken or
// silent connection is made anew; each time that it stands there is a
// Subscribed event. A channel that ends in * is a pattern of Redis. Where no
// carrier lives at all, the silence that it waits for doubles up to half a minute.
func (s *Store) Hear(ctx context.Context, on func(Event), channels ...string) {
	defer s.sentinels.watch()()
	silence := Silence
	var pause backoff.Pause
	for ctx.Err() == nil {
		err := s.hear(ctx, silence, func(e Event) {
			switch e.Kind {
			case Subscribed:
				pause.Reset()
			case Beat:
				silence = Silence
			}
			on(e)
		}, channels)
		if ctx.Err() != nil {
			return
		}
		// It may be all that this process asks of Redis: nothing else would tell it.
		s.reload(ctx)
		if errors.Is(err, errSilent) || errors.Is(err, net.ErrClosed) { // hangUp closed it: another heard the silence first
			silence = min(2*silence, maxSilence)
			s.lines.hangUp(Silence - Heartbeat)
			on(Event{Kind: Silent})
			continue
		}
		on(Event{Kind: Broken, Err: s.explain(ctx, err)})
		pause.Wait(ctx)
	}
}

// errSilent is why a connection ends that heard no beat for too long.
var errSilent = errors.New("no beat was heard")

// hear is one connection of Hear. It returns why it ended.
func (s *Store) hear(ctx context.Context, silence time.Duration, on func(Event), channels []string) error {
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
			on(Event{Kind: Heard, Channel: m.Channel, Payload: m.Payload})
		}
	}
}

// subscribe subscribes to channels, of which those that end in * are patterns.
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

package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/script"
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

	shard *shard // where it happened; nil: the number of shards is not known yet
}

// Shard returns the shard to which an event belongs.
func (e Event) Shard() Shard { return e.shard.handle() }

// keys returns the names of the channels of the event's shard.
func (e Event) keys() script.Keys { return e.shard.keys }

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
		return Bell{}, fault.New("beat", "beat %.100q: use an epoch, a time, the id of a store and a bell", e.Payload)
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

// Subscribe subscribes to channels and to the beats of their shards, or without channels to
// all beats, and calls on for each event, one at a time, until ctx ends. on must not block: events are lost for good
// when the connection's buffers are full. It renews a broken or silent
// connection, and sends a Subscribed event each time it is up. While no carrier runs, the
// silence before the next renewal doubles up to half a minute. Of several shards each has
// its own events, and the connections are shared with the other subscriptions of the store:
// there is one to each server.
func (s *Store) Subscribe(ctx context.Context, on func(Event), channels ...Channel) {
	all := s.waitLearned(ctx, on)
	var one sync.Mutex
	var shards sync.WaitGroup
	for d, names := range namesIn(all, channels) {
		shards.Go(func() {
			d.hear(ctx, func(e Event) {
				e.shard = d
				one.Lock()
				defer one.Unlock()
				on(e)
			}, names)
		})
	}
	shards.Wait()
}

// waitLearned returns all shards as soon as their number is known; none if ctx ends before.
func (s *Store) waitLearned(ctx context.Context, on func(Event)) []*shard {
	var pause backoff.Pause
	for ctx.Err() == nil {
		all, err := s.learned(ctx)
		if err == nil {
			return all
		}
		if endOf(ctx) == nil {
			on(Event{Kind: Broken, Err: err, shard: s.root})
			pause.Wait(ctx)
		}
	}
	return nil
}

// namesIn returns the names of channels by their shards, each once.
func namesIn(all []*shard, channels []Channel) map[*shard][]string {
	if len(all) == 0 {
		return nil
	}
	names := make(map[*shard][]string)
	add := func(d *shard, name string) {
		switch {
		case name == "": // the store has no such channel
		case name != d.keys.Beat() && !slices.Contains(names[d], name):
			names[d] = append(names[d], name)
		case names[d] == nil:
			names[d] = []string{}
		}
	}
	if len(channels) == 0 {
		channels = []Channel{{every: true, name: func(d *shard) string { return d.keys.Beat() }}}
	}
	for _, c := range channels {
		switch {
		case c.every:
			for _, d := range all {
				add(d, c.name(d))
			}
		case c.shard.topic != "":
			d := all[numberOf(c.shard.topic, len(all))]
			add(d, c.name(d))
		default:
			d := all[c.shard.number]
			add(d, c.name(d))
		}
	}
	return names
}

// hear is Subscribe for channels of one shard, beside its beat.
func (d *shard) hear(ctx context.Context, on func(Event), channels []string) {
	defer d.sentinels.watch()()
	attempt, reload := d.subscription, d.reload
	if d.isSharded() {
		attempt, reload = d.overhear, d.reloadNow
	}
	silence := Silence
	var pause backoff.Pause
	for ctx.Err() == nil {
		var up time.Time
		err := attempt(ctx, silence, func(e Event) {
			switch e.Kind {
			case Subscribed:
				up = time.Now()
			case Beat:
				silence = Silence
			}
			on(e)
		}, channels)
		if endOf(ctx) != nil {
			return
		}
		reload(ctx) // this process may make no other call that would do it

		if errors.Is(err, errSilent) || errors.Is(err, net.ErrClosed) { // hangUp closed it: another subscription was silent first
			silence = min(2*silence, maxSilence)
			if !d.isSharded() { // else other shards of the server may beat
				d.connections.hangUp("", Silence-Heartbeat)
			}
			on(Event{Kind: Silent})
			continue
		}
		on(Event{Kind: Broken, Err: d.explain(ctx, err)})
		if !up.IsZero() && time.Since(up) >= Heartbeat { // else it was up in vain, as at a master that became a replica
			pause.Reset()
		}
		pause.Wait(ctx)
	}
}

// errSilent is why a connection ends that received no beat for too long.
var errSilent = errors.New("no beat was heard")

// subscription runs one connection of hear to a store of one shard, and returns why it ended.
func (d *shard) subscription(ctx context.Context, silence time.Duration, on func(Event), channels []string) error {
	beat := d.keys.Beat()
	sub, err := d.subscribe(ctx, append([]string{beat}, channels...))
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
		if !ok {
			continue
		}
		if channel := strings.TrimPrefix(m.Channel, d.at); channel != beat {
			on(Event{Kind: Received, Channel: channel, Payload: m.Payload})
			continue
		}
		last, silence = time.Now(), Silence
		on(Event{Kind: Beat, Payload: m.Payload})
	}
}

// subscribe subscribes to channels; those that end in * are patterns.
func (d *shard) subscribe(ctx context.Context, channels []string) (*redis.PubSub, error) {
	var plain, patterns []string
	for _, channel := range channels {
		if channel = d.Heard(channel); strings.HasSuffix(channel, "*") {
			patterns = append(patterns, channel)
		} else {
			plain = append(plain, channel)
		}
	}
	sub := d.client.Subscribe(ctx, plain...)
	if len(patterns) > 0 {
		if err := sub.PSubscribe(ctx, patterns...); err != nil {
			sub.Close()
			return nil, err
		}
	}
	return sub, nil
}

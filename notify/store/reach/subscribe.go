package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/backoff"
)

// NoAnswer returns the error of a Redis that did not answer within Patience.
func (s *Redis) NoAnswer() error {
	return &ServerError{Where: s.where, Err: fmt.Errorf("no answer within %v: %w", Patience, os.ErrDeadlineExceeded)}
}

// Subscribe subscribes to channels and to the beats of their shards, or without channels to
// all beats, and calls on for each event, one at a time, until ctx ends. on must not block: events are lost for good
// when the connection's buffers are full. It renews a broken or silent
// connection, and sends a Subscribed event each time it is up. While no carrier runs, the
// silence before the next renewal doubles up to half a minute. Of several shards each has
// its own events, and the connections are shared with the other subscriptions of the store:
// there is one to each server.
func (s *Redis) Subscribe(ctx context.Context, on func(Event), channels ...Channel) {
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
func (s *Redis) waitLearned(ctx context.Context, on func(Event)) []*shard {
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
	silence := d.silence
	var pause backoff.Pause
	for ctx.Err() == nil {
		var up time.Time
		err := attempt(ctx, silence, func(e Event) {
			switch e.Kind {
			case Subscribed:
				up = time.Now()
			case Beat:
				silence = d.silence
				d.beaten.Store(new(time.Now()))
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
		last, silence = time.Now(), d.silence
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

// overhear is hear by a wire: it runs one attempt, and returns why that ended.
func (d *shard) overhear(ctx context.Context, silence time.Duration, on func(Event), channels []string) error {
	if err := d.ensureFit(ctx); err != nil {
		return err
	}
	w, e, err := d.join(ctx, channels)
	if err != nil {
		return err
	}
	defer w.leave(e)
	if err := w.confirm(ctx, e); err != nil {
		return err
	}
	on(Event{Kind: Subscribed})
	err = e.listen(ctx, silence, on)
	if errors.Is(err, errSilent) {
		w.endIfSilent()
	}
	return err
}

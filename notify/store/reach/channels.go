package reach

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// A Channel is a channel of a shard, for [Redis.Subscribe].
type Channel struct {
	shard Shard
	every bool // of each shard
	name  func(*shard) string
}

// EveryShard stands for all shards of a store: a channel of it is one of each.
type EveryShard struct{ redis *Redis }

// Every returns what stands for all shards.
func (s *Redis) Every() EveryShard { return EveryShard{s} }

func (s Shard) channel(name func(script.Keys) string) Channel {
	return Channel{shard: s, name: func(d *shard) string { return name(d.keys) }}
}

func (e EveryShard) channel(name func(script.Keys) string) Channel {
	return Channel{every: true, name: func(d *shard) string { return name(d.keys) }}
}

// BeatChannel returns the channel of the heartbeat, of which every subscription to the
// shard receives the Beats.
func (s Shard) BeatChannel() Channel { return s.channel(script.Keys.Beat) }

// IsHeard reports whether a subscription of this process has received a beat of the shard just now.
func (s Shard) IsHeard() bool {
	at := s.redis.known()[s.Number()].beaten.Load()
	return at != nil && time.Since(*at) < s.redis.Bear(2*Heartbeat)
}

// BeatChannel returns the channels of the heartbeats.
func (e EveryShard) BeatChannel() Channel { return e.channel(script.Keys.Beat) }

// NudgeChannel returns the channel that nudges the carrier. The Number of its events
// is the new earliest due time, in ms.
func (s Shard) NudgeChannel() Channel { return s.channel(script.Keys.Nudge) }

// VacantChannel returns the channel that tells standbys that the carrier stepped down.
func (s Shard) VacantChannel() Channel { return s.channel(script.Keys.Vacant) }

// InboxChannel returns the channel of an inbox.
func (s Shard) InboxChannel(i Inbox) Channel {
	return Channel{shard: s, name: func(d *shard) string { return d.inbox(i) }}
}

// InboxChannel returns the channels of an inbox.
func (e EveryShard) InboxChannel(i Inbox) Channel {
	return Channel{every: true, name: func(d *shard) string { return d.inbox(i) }}
}

// HereChannel returns the channel that a worker is subscribed to while it is there. It
// receives the members of messages that it is to stop, which it may have.
func (s Shard) HereChannel(id string) Channel {
	return s.channel(func(k script.Keys) string { return k.Here(id) })
}

// NameChannel returns the channel that tells the processes of a named listener that
// there may be broadcasts to take.
func (s Shard) NameChannel(name string) Channel {
	return s.channel(func(k script.Keys) string { return k.Name(name) })
}

// LogsChannel returns the channel of bells for all logs.
func (s Shard) LogsChannel() Channel { return s.channel(script.Keys.Logs) }

// LogChannel returns the channel of bells for a topic's log.
func (s Shard) LogChannel(topic string) Channel {
	return s.channel(func(k script.Keys) string { return k.Log(topic) })
}

// EndingsChannel returns the channel that tells an archive that the stream of endings is not empty.
func (s Shard) EndingsChannel() Channel { return s.channel(script.Keys.Endings) }

// PushesChannel returns the channel that tells that a push was changed.
func (s Shard) PushesChannel() Channel { return s.channel(script.Keys.Pushes) }

// PushersChannel returns the channel that a daemon is subscribed to while it may send pushes to URLs, or those to NATS. It receives nothing.
func (s Shard) PushersChannel(nats bool) Channel {
	to := "push.url"
	if nats {
		to = "push.nats"
	}
	return s.HereChannel(to)
}

// EndedChannel returns the channel that announces the ends of messages that are awaited.
func (s Shard) EndedChannel() Channel { return s.channel(script.Keys.Ended) }

// Listening returns how many connections are subscribed to a channel of one shard at its
// server. The error is that of the connection.
func (s *Redis) Listening(ctx context.Context, c Channel) (int64, error) {
	d, err := c.shard.resolve(ctx)
	if err != nil {
		return 0, err
	}
	return d.listening(ctx, c.name(d))
}

// Ping publishes a payload to an inbox, and returns how many connections received
// it. It first removes a lease that does not exist: a replica, which would publish
// but let nobody claim, refuses that. The error is that of the connection.
func (s Shard) Ping(ctx context.Context, inbox Inbox, payload string) (heard int64, err error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return 0, err
	}
	if err := d.client.ZRem(ctx, d.keys.Leased(), payload).Err(); err != nil {
		return 0, d.explain(ctx, err)
	}
	heard, err = d.publish(ctx, d.inbox(inbox), payload)
	if err != nil {
		return 0, d.explain(ctx, err)
	}
	return heard, nil
}

// publish publishes a payload, and returns how many connections of the shard's server
// received it.
func (d *shard) publish(ctx context.Context, channel, payload string) (heard int64, err error) {
	channel = d.Heard(channel)
	if d.isSharded() {
		return d.client.SPublish(ctx, channel, payload).Result()
	}
	return d.client.Publish(ctx, channel, payload).Result()
}

// Wakes returns the channels that wake programs of any language: see [Event.Woken].
func (e EveryShard) Wakes() Channel {
	return e.channel(func(k script.Keys) string { return k.WakesOf("*") })
}

// Wakes is [EveryShard.Wakes] for one shard.
func (s Shard) Wakes() Channel {
	return s.channel(func(k script.Keys) string { return k.WakesOf("*") })
}

// WakeChannel returns the channel that wakes programs of any language for a topic, and in
// a store of several shards for others as well: see [Event.Woken].
func (s Shard) WakeChannel(topic string) Channel {
	return s.channel(func(k script.Keys) string { return k.WakesOf(topic) })
}

// DeathChannel returns the channels that tell programs of any language that a message
// died: see [Event.Died].
func (s Shard) DeathChannel() Channel {
	return s.channel(func(k script.Keys) string {
		if k.IsSharded() {
			return k.Deaths()
		}
		return k.Death("*")
	})
}

// listening returns how many connections are subscribed to a channel of the shard. The
// error is that of the connection.
func (d *shard) listening(ctx context.Context, channel string) (int64, error) {
	channel = d.Heard(channel)
	listening, err := onNode(ctx, d, func(node redis.UniversalClient) (map[string]int64, error) {
		if d.isSharded() {
			return node.PubSubShardNumSub(ctx, channel).Result()
		}
		return node.PubSubNumSub(ctx, channel).Result()
	})
	if err != nil {
		return 0, d.explain(ctx, err)
	}
	return listening[channel], nil
}

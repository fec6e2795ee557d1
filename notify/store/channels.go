package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// sharedBy returns what the names of a database's channels begin with. All databases of a Redis
// share its channels, so two stores of one prefix would hear each other. No prefix has the sign.
func sharedBy(database int) string {
	if database == 0 {
		return ""
	}
	return strconv.Itoa(database) + "@"
}

// Heard returns the name that a channel, or a pattern of channels, of [Keys] has in Redis: in
// another database than 0 it begins with the number of that, such as 2@bellhop:wake:TOPIC.
func (s *Store) Heard(channel string) string { return s.at + channel }

// A Channel is a channel of a shard, for [Store.Subscribe].
type Channel struct {
	shard Shard
	every bool // of each shard
	name  func(*shard) string
}

// EveryShard stands for all shards of a store: a channel of it is one of each.
type EveryShard struct{ store *Store }

// Every returns what stands for all shards.
func (s *Store) Every() EveryShard { return EveryShard{s} }

func (s Shard) channel(name func(script.Keys) string) Channel {
	return Channel{shard: s, name: func(d *shard) string { return name(d.keys) }}
}

func (e EveryShard) channel(name func(script.Keys) string) Channel {
	return Channel{every: true, name: func(d *shard) string { return name(d.keys) }}
}

// BeatChannel returns the channel of the heartbeat, of which every subscription to the
// shard receives the Beats.
func (s Shard) BeatChannel() Channel { return s.channel(script.Keys.Beat) }

// HeadChannel returns the channel that nudges the carrier. The Number of its events
// is the new earliest due time, in ms.
func (s Shard) HeadChannel() Channel { return s.channel(script.Keys.Head) }

// VacantChannel returns the channel that tells standbys that the carrier stepped down.
func (s Shard) VacantChannel() Channel { return s.channel(script.Keys.Vacant) }

// An Inbox is where a subscriber is rung: one channel in each shard where the inbox waits
// for topics. The zero Inbox waits for none.
type Inbox struct {
	id    string
	hands bool // it takes hand-overs
	spans bool // it waits in several shards at once
}

// NewInbox returns an inbox of a subscriber. The payload of what it receives is a topic to
// claim from, or if it takes hand-overs one of these: see [Event.Handover].
func NewInbox(id string, takesHandovers bool) Inbox { return Inbox{id: id, hands: takesHandovers} }

// NewSpanningInbox returns an inbox for claims of topics that are in several shards. It
// takes no hand-overs: each shard could hand a message to it, and one is wanted. In a
// store of one shard it has no channel.
func NewSpanningInbox(id string) Inbox { return Inbox{id: id, spans: true} }

// inbox returns the name of an inbox in the shard. In a Cluster with one shard none takes
// hand-overs, because a PUBLISH goes to all of its servers.
func (d *shard) inbox(i Inbox) string {
	switch {
	case i.id == "" || i.spans && !d.isSharded():
		return ""
	case i.hands && (d.isSharded() || !d.inCluster()):
		return d.keys.Hands(i.id)
	}
	return d.keys.Inbox(i.id)
}

// InboxChannel returns the channel of an inbox.
func (s Shard) InboxChannel(i Inbox) Channel {
	return Channel{shard: s, name: func(d *shard) string { return d.inbox(i) }}
}

// InboxChannel returns the channels of an inbox.
func (e EveryShard) InboxChannel(i Inbox) Channel {
	return Channel{every: true, name: func(d *shard) string { return d.inbox(i) }}
}

// HereChannel returns the channel that a worker is subscribed to while it is there.
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

// OutboxChannel returns the channel that tells an archive that the outbox is not empty.
func (s Shard) OutboxChannel() Channel { return s.channel(script.Keys.Outbox) }

// EndedChannel returns the channel that announces the ends of messages that are awaited.
func (s Shard) EndedChannel() Channel { return s.channel(script.Keys.Ended) }

// Listening returns how many connections are subscribed to a channel of one shard at its
// server. The error is that of the connection.
func (s *Store) Listening(ctx context.Context, c Channel) (int64, error) {
	d, err := c.shard.resolve(ctx)
	if err != nil {
		return 0, err
	}
	return d.listening(ctx, c.name(d))
}

// Called returns the listener's name in an event of a NameChannel, and whether it is one.
func (e Event) Called() (name string, is bool) {
	return strings.CutPrefix(e.Channel, e.keys().Name(""))
}

// IsFor reports whether an event is one of the channel of an inbox.
func (e Event) IsFor(i Inbox) bool { return strings.HasSuffix(e.Channel, i.id) }

// IsOfAllLogs reports whether an event is one of the LogsChannel.
func (e Event) IsOfAllLogs() bool { return e.Channel == e.keys().Logs() }

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

// Woken returns the topic in an event of Wakes or a WakeChannel, how many of its messages
// were made ready, and whether the event is one.
func (e Event) Woken() (topic string, n int64, is bool) {
	k := e.keys()
	if k.IsSharded() {
		topic, count, _ := strings.Cut(e.Payload, " ")
		n, _ := strconv.ParseInt(count, 10, 64)
		return topic, n, e.Channel == k.Wakes()
	}
	topic, is = strings.CutPrefix(e.Channel, k.Wake(""))
	return topic, e.Number(), is
}

// Died returns the topic in an event of a DeathChannel, and whether it is one. The payload
// is {"id","reason","attempts"} as JSON, in a store of several shards with "topic".
func (e Event) Died() (topic string, is bool) {
	k := e.keys()
	if k.IsSharded() {
		return topicOfDeath(e.Payload), e.Channel == k.Deaths()
	}
	return strings.CutPrefix(e.Channel, k.Death(""))
}

// Number returns the payload of a Received as a number; zero if it is none.
func (e Event) Number() int64 {
	n, _ := strconv.ParseInt(e.Payload, 10, 64)
	return n
}

// topicOfDeath returns the topic in the payload of a death; empty if there is none.
func topicOfDeath(payload string) string {
	var death struct{ Topic string }
	_ = json.Unmarshal([]byte(payload), &death)
	return death.Topic
}

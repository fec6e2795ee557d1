package store

import (
	"context"
	"strconv"
	"strings"
)

// HeadChannel returns the channel that nudges the carrier. The Number of its events
// is the new earliest due time, in ms.
func (s Shard) HeadChannel() string { return s.store.keys.Head() }

// VacantChannel returns the channel that tells standbys that the carrier stepped down.
func (s Shard) VacantChannel() string { return s.store.keys.Vacant() }

// InboxChannel returns the inbox of a subscriber. The payload is a topic to claim from.
func (s Shard) InboxChannel(id string) string { return s.store.keys.Inbox(id) }

// HandsChannel returns the inbox of a subscriber that takes hand-overs. The payload is
// a topic to claim from, or a hand-over: see [Event.Handover]. In a Cluster it is one
// that takes none, because a PUBLISH goes to all of its servers.
func (s Shard) HandsChannel(id string) string {
	if s.store.inCluster() {
		return s.InboxChannel(id)
	}
	return s.store.keys.Hands(id)
}

// HereChannel returns the channel that a worker is subscribed to while it is there.
func (s Shard) HereChannel(id string) string { return s.store.keys.Here(id) }

// NameChannel returns the channel that tells the processes of a named listener that
// there may be broadcasts to take.
func (s Shard) NameChannel(name string) string { return s.store.keys.Name(name) }

// LogsChannel returns the channel of bells for all logs.
func (s Shard) LogsChannel() string { return s.store.keys.Logs() }

// LogChannel returns the channel of bells for a topic's log.
func (s Shard) LogChannel(topic string) string { return s.store.keys.Log(topic) }

// Called returns the listener's name in an event of a NameChannel, and whether it is one.
func (s Shard) Called(e Event) (name string, is bool) {
	return strings.CutPrefix(e.Channel, s.store.keys.Name(""))
}

// IsOfAllLogs reports whether an event is one of the LogsChannel.
func (s Shard) IsOfAllLogs(e Event) bool { return e.Channel == s.store.keys.Logs() }

// Ping publishes a payload to an inbox, and returns how many connections received
// it. It first removes a lease that does not exist: a replica, which would publish
// but let nobody claim, refuses that. The error is that of the connection.
func (s Shard) Ping(ctx context.Context, inbox, payload string) (heard int64, err error) {
	if err := s.store.client.ZRem(ctx, s.store.keys.Leased(), payload).Err(); err != nil {
		return 0, s.store.explain(ctx, err)
	}
	heard, err = s.store.client.Publish(ctx, inbox, payload).Result()
	if err != nil {
		return 0, s.store.explain(ctx, err)
	}
	return heard, nil
}

// Wakes returns the pattern of the channels that wake programs of any language. The
// Number of their events is how many messages of a topic were made ready.
func (s Shard) Wakes() string { return s.store.keys.Wake("*") }

// Deaths returns the pattern of the channels that tell such programs that a message
// of a topic died. The payload is {"id","reason","attempts"} as JSON.
func (s Shard) Deaths() string { return s.store.keys.Death("*") }

// Woken returns the topic in an event of Wakes, and whether it is one.
func (s Shard) Woken(e Event) (topic string, is bool) {
	return strings.CutPrefix(e.Channel, s.store.keys.Wake(""))
}

// Died returns the topic in an event of Deaths, and whether it is one.
func (s Shard) Died(e Event) (topic string, is bool) {
	return strings.CutPrefix(e.Channel, s.store.keys.Death(""))
}

// Number returns the payload of a Received as a number; zero if it is none.
func (e Event) Number() int64 {
	n, _ := strconv.ParseInt(e.Payload, 10, 64)
	return n
}

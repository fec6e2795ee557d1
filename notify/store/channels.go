package store

import (
	"context"
	"strconv"
	"strings"
)

// HeadChannel returns the channel on which the carrier is nudged: its Number is
// the due time in ms of what came to be due first.
func (s Shard) HeadChannel() string { return s.store.keys.Head() }

// VacantChannel returns the channel on which standbys are told that the carrier stepped down.
func (s Shard) VacantChannel() string { return s.store.keys.Vacant() }

// InboxChannel returns the channel on which a subscriber is rung: the payload is a topic to claim from.
func (s Shard) InboxChannel(id string) string { return s.store.keys.Inbox(id) }

// NameChannel returns the channel on which who listens under a name is called:
// there may be broadcasts to take.
func (s Shard) NameChannel(name string) string { return s.store.keys.Name(name) }

// LogsChannel returns the channel of the bells of all logs.
func (s Shard) LogsChannel() string { return s.store.keys.Logs() }

// LogChannel returns the channel of the bells of a topic's log.
func (s Shard) LogChannel(topic string) string { return s.store.keys.Log(topic) }

// Called returns the name of an event of a NameChannel, and whether it is one.
func (s Shard) Called(e Event) (name string, is bool) {
	return strings.CutPrefix(e.Channel, s.store.keys.Name(""))
}

// IsOfAllLogs reports whether an event is one of the LogsChannel.
func (s Shard) IsOfAllLogs(e Event) bool { return e.Channel == s.store.keys.Logs() }

// Ping publishes a payload to an inbox, and returns how many connections heard
// it. A replica publishes, too, and lets nobody claim: so it first removes what is
// not there. The error is that of the connection.
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

// Wakes returns the pattern of the channels on which programs of any language are
// woken up: the Number is how many messages of a topic were made ready.
func (s Shard) Wakes() string { return s.store.keys.Wake("*") }

// Deaths returns the pattern of the channels on which they are told that messages
// of a topic died: the payload is {"id","reason","attempts"} as JSON.
func (s Shard) Deaths() string { return s.store.keys.Death("*") }

// Woken returns the topic of an event of Wakes, and whether it is one.
func (s Shard) Woken(e Event) (topic string, is bool) {
	return strings.CutPrefix(e.Channel, s.store.keys.Wake(""))
}

// Died returns the topic of an event of Deaths, and whether it is one.
func (s Shard) Died(e Event) (topic string, is bool) {
	return strings.CutPrefix(e.Channel, s.store.keys.Death(""))
}

// Number returns the number that a Heard is; zero where it is none.
func (e Event) Number() int64 {
	n, _ := strconv.ParseInt(e.Payload, 10, 64)
	return n
}

package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// An Event is what [Store.Subscribe] calls on with.
type Event struct {
	Kind    reach.EventKind
	Channel string // of a Received
	Payload string // of a Received or a Beat
	Err     error  // of a Broken

	shard Shard // where it happened
}

// Shard returns the shard to which an event belongs.
func (e Event) Shard() Shard { return e.shard }

// Subscribe subscribes to channels and to the beats of their shards, or without channels to
// all beats, and calls on for each event, one at a time, until ctx ends: see
// [reach.Redis.Subscribe].
func (s *Store) Subscribe(ctx context.Context, on func(Event), channels ...reach.Channel) {
	s.Redis.Subscribe(ctx, func(e reach.Event) { on(Event{e.Kind, e.Channel, e.Payload, e.Err, s.at(e.Shard())}) }, channels...)
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
	if fields := strings.Fields(e.Payload); e.Kind == reach.Beat && len(fields) > i {
		return fields[i]
	}
	return ""
}

// Topics returns the topics that a Beat names: they have something ready, and
// their waiting lists are empty. A subscriber that waits for one of them must claim:
// its place in the list was lost.
func (e Event) Topics() []string {
	if fields := strings.Fields(e.Payload); e.Kind == reach.Beat && len(fields) > beatTopics {
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
func (e Event) Bell() (record.Bell, error) {
	if e.Kind != reach.Beat {
		return record.ParseBell(e.Payload)
	}
	bell := e.field(beatBell)
	if bell == "" {
		return record.Bell{}, fault.New("beat", "beat %.100q: use an epoch, a time, the id of a store and a bell", e.Payload)
	}
	return record.ParseBell(bell)
}

// Called returns the listener's name in an event of a NameChannel, and whether it is one.
func (e Event) Called() (name string, is bool) {
	return strings.CutPrefix(e.Channel, e.shard.Keys().Name(""))
}

// IsHere reports whether an event is one of the HereChannel of a worker.
func (e Event) IsHere(id string) bool { return e.Channel == e.shard.Keys().Here(id) }

// IsOfAllLogs reports whether an event is one of the LogsChannel.
func (e Event) IsOfAllLogs() bool { return e.Channel == e.shard.Keys().Logs() }

// Woken returns the topic in an event of Wakes or a WakeChannel, how many of its messages
// were made ready, and whether the event is one.
func (e Event) Woken() (topic string, n int64, is bool) {
	k := e.shard.Keys()
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
	k := e.shard.Keys()
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

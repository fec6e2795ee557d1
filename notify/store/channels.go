package store

import (
	"strconv"
	"strings"
)

// HeadChannel returns the channel on which the carrier is nudged: its Number is
// the due time in ms of what came to be due first.
func (s Shard) HeadChannel() string { return s.store.keys.Head() }

// VacantChannel returns the channel on which standbys are told that the carrier stepped down.
func (s Shard) VacantChannel() string { return s.store.keys.Vacant() }

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

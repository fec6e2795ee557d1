package notify

import (
	"fmt"
	"regexp"
)

// DefaultPrefix is the prefix of all keys and channels.
const DefaultPrefix = "bellhop"

// maxPrefix is the length of the longest prefix in bytes.
const maxPrefix = 64

var prefixGrammar = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// Keys names every key and channel in Redis. All keys carry the hash tag of
// their shard, so that a Redis Cluster holds them in one slot.
type Keys struct {
	prefix string
	base   string   // prefix and hash tag
	shard  []string // in the order that prelude.lua expects
}

// newKeys returns the keys under a prefix, or an ErrInvalid that says what is wrong with it.
func newKeys(prefix string) (Keys, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if len(prefix) > maxPrefix || !prefixGrammar.MatchString(prefix) {
		return Keys{}, fmt.Errorf("%w prefix %.100q: use 1 to %d letters, digits and the signs _ . : -", ErrInvalid, prefix, maxPrefix)
	}
	k := Keys{prefix: prefix, base: prefix + ":{0}:"}
	for _, name := range []string{"schedule", "leased", "expiries", "messages", "attempts", "ready", "deaths", "topics"} {
		k.shard = append(k.shard, k.base+name)
	}
	return k, nil
}

// Prefix returns the prefix, DefaultPrefix unless configured.
func (k Keys) Prefix() string { return k.prefix }

// Base returns what every key of the shard begins with, such as "bellhop:{0}:".
func (k Keys) Base() string { return k.base }

// Shard returns the keys that every script is given first, followed by more:
// schedule, leased, expiries, messages, attempts, ready, deaths, topics.
func (k Keys) Shard(more ...string) []string {
	keys := make([]string, 0, len(k.shard)+len(more))
	return append(append(keys, k.shard...), more...)
}

// Topic returns the keys that scripts are given for a topic, in their order:
// its ready set, its waiting list and its dead letters.
func (k Keys) Topic(topic string) []string {
	return []string{k.Ready(topic), k.Waiting(topic), k.Dead(topic)}
}

// Schedule is the sorted set of scheduled members by due time.
func (k Keys) Schedule() string { return k.base + "schedule" }

// Leased is the sorted set of leased members by the end of their lease.
func (k Keys) Leased() string { return k.base + "leased" }

// Messages is the hash of records by member.
func (k Keys) Messages() string { return k.base + "messages" }

// Ready is the sorted set of a topic's due members by due time.
func (k Keys) Ready(topic string) string { return k.base + "ready:" + topic }

// Waiting is the sorted set of the inboxes that wait for a topic, longest waiting first.
func (k Keys) Waiting(topic string) string { return k.base + "waiting:" + topic }

// Dead is the sorted set of a topic's dead letters by time of death.
func (k Keys) Dead(topic string) string { return k.base + "dead:" + topic }

// Carrier is the string that holds the elected carrier's token.
func (k Keys) Carrier() string { return k.base + "carrier" }

// Epoch is the string that counts elections.
func (k Keys) Epoch() string { return k.base + "epoch" }

// Head is the channel that nudges the carrier with the due time of what came to be due first.
func (k Keys) Head() string { return k.base + "head" }

// Vacant is the channel that tells standbys that the carrier stepped down.
func (k Keys) Vacant() string { return k.base + "vacant" }

// Beat is the channel of the carrier's heartbeat.
func (k Keys) Beat() string { return k.base + "beat" }

// Inbox is the channel that rings one subscriber, with the topic to claim from.
func (k Keys) Inbox(id string) string { return k.base + "inbox:" + id }

// Wake is the channel that rings programs of any language, with the number of messages made ready.
func (k Keys) Wake(topic string) string { return k.prefix + ":wake:" + topic }

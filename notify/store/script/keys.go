package script

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// DefaultPrefix is the prefix of all keys and channels.
const DefaultPrefix = "bellhop"

// maxPrefix is the length of the longest prefix in bytes.
const maxPrefix = 64

var prefixGrammar = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// formatName is the name of the key of the format, behind the base.
var formatName = rowNamed("FORMAT").name

// Keys has the name of every key and channel in Redis. All keys carry the hash tag
// of their shard, so that a Redis Cluster holds them in one slot.
type Keys struct {
	prefix string
	tag    string
	public string   // the beginning of channels for programs of any language
	base   string   // prefix and hash tag
	format string   // the key
	names  []string // of the rows of the table, in its order; of a family the beginning of its names
}

// IsSharded reports whether the keys are those of a shard among several.
func (k Keys) IsSharded() bool { return strings.Contains(k.tag, "/") }

// CheckPrefix returns a Fault for an invalid prefix.
func CheckPrefix(prefix string) error {
	if len(prefix) > maxPrefix || !prefixGrammar.MatchString(prefix) {
		return fault.New("prefix", "prefix %.100q: use 1 to %d letters, digits and the signs _ . : -", prefix, maxPrefix)
	}
	return nil
}

// NewKeys returns the keys under a prefix and a hash tag. Those of a store of several
// shards have no names without the tag.
func NewKeys(prefix, tag string) Keys {
	k := Keys{prefix: prefix, tag: tag, public: prefix + ":", base: prefix + ":{" + tag + "}:", names: make([]string, len(table))}
	if k.IsSharded() {
		k.public = k.base
	}
	k.format = k.base + formatName
	for i, r := range table {
		k.names[i] = k.base + r.name
	}
	return k
}

// one returns the name of a key that exists once; lua is its name in scripts.
func (k Keys) one(lua string) string { return k.each(lua, "") }

// each returns a name of a family, such as that of a topic; lua is the family's name in scripts.
func (k Keys) each(lua, one string) string { return k.name(rowNamed(lua), one) }

// name returns the name that a row describes; one is empty, or says which of a family.
func (k Keys) name(r row, one string) string {
	if r.home {
		one, _ = record.SplitBranch(one)
	}
	if r.public {
		return k.public + r.name + one
	}
	return k.base + r.name + one
}

// Prefix returns the prefix, DefaultPrefix unless configured.
func (k Keys) Prefix() string { return k.prefix }

// Tag returns the hash tag of the shard.
func (k Keys) Tag() string { return k.tag }

// Base returns the beginning of every key of the shard, such as "bellhop:{0}:".
func (k Keys) Base() string { return k.base }

// Given returns all keys that exist once in a shard. In a Cluster every script gets
// them: while a slot is moved the server refuses a call whose keys are not all on
// one side before the script begins, but stops a script half way that meets a key
// of the other side.
func (k Keys) Given() (keys []string) {
	for i, r := range table {
		if r.isGiven() {
			keys = append(keys, k.names[i])
		}
	}
	return keys
}

// Founding returns the keys that found.lua gets: the format, and keys of which a
// store that was used has at least one.
func (k Keys) Founding() []string {
	return []string{
		k.Format(), k.ScheduledTopics(), k.Leased(), k.Expiries(), k.Messages(), k.Attempts(), k.ReadyTopics(), k.Deaths(), k.Topics(),
		k.Broadcasts(), k.Logs(), k.Listeners(), k.Epoch(),
	}
}

// Format is the string that holds the format of the store and its id: "FORMAT ID".
func (k Keys) Format() string { return k.format }

// ScheduledTopics is the sorted set of the topics that have a scheduled set, by the due time of the first in it.
func (k Keys) ScheduledTopics() string { return k.one("SCHEDULED") }

// Scheduled is the sorted set of a topic's scheduled members by due time.
func (k Keys) Scheduled(topic string) string { return k.each("scheduled_of", topic) }

// Leased is the sorted set of leased members by the end of their lease.
func (k Keys) Leased() string { return k.one("LEASED") }

// Messages is the hash of records by member.
func (k Keys) Messages() string { return k.one("MESSAGES") }

// Room is the string that holds until when, in ms, publishes surely stay below a share of Redis's memory in percent; 0 if that share
// is in use.
func (k Keys) Room(share int) string { return k.each("room_of", strconv.Itoa(share)) }

// KeyedTopics is the sorted set of the topics that have messages with keys, by the due time of the first that is blocked.
func (k Keys) KeyedTopics() string { return k.one("KEYED") }

// KeysOf is the hash of the keys of a topic's messages by id.
func (k Keys) KeysOf(topic string) string { return k.each("keys_of", topic) }

// Seats is the hash of the ids that have the seats of a topic's keys, by key.
func (k Keys) Seats(topic string) string { return k.each("seats_of", topic) }

// Line is the sorted set of a topic's blocked messages, by key, due time and id.
func (k Keys) Line(topic string) string { return k.each("line_of", topic) }

// Heads is the sorted set of a topic's keys that have a line, by the due time of the first.
func (k Keys) Heads(topic string) string { return k.each("heads_of", topic) }

// GroupedTopics is the sorted set of the topics that have groups.
func (k Keys) GroupedTopics() string { return k.one("GROUPED") }

// Grouped is the sorted set of what is in a group of a topic and its branches, by the number of the group.
func (k Keys) Grouped(topic string) string { return k.each("grouped_of", topic) }

// GroupsOf is the hash of a topic's groups.
func (k Keys) GroupsOf(topic string) string { return k.each("groups_of", topic) }

// Slots is the sorted set of what is leased of a topic that has a concurrency.
func (k Keys) Slots(topic string) string { return k.each("slots_of", topic) }

// Attempts is the hash of attempts used up by member.
func (k Keys) Attempts() string { return k.one("ATTEMPTS") }

// Claims is the sorted set of the calls that claimed, by the receipt that they gave: who has what is leased under it.
func (k Keys) Claims() string { return k.one("CLAIMS") }

// Workers is the hash of the daemons, workers and listeners that are there, by their id.
func (k Keys) Workers() string { return k.one("WORKERS") }

// Here is the channel that a daemon, worker or listener is subscribed to while it is there.
func (k Keys) Here(id string) string { return k.each("here_of", id) }

// Done is the sorted set of a topic's members that succeeded and are kept, by until when.
func (k Keys) Done(topic string) string { return k.each("done_of", topic) }

// DoneTopics is the sorted set of the topics that keep what succeeded, by until when the first is kept, or some earlier one that is gone.
func (k Keys) DoneTopics() string { return k.one("DONE") }

// Hooks is the hash of the patterns of named listeners to deaths, with how many names have each.
func (k Keys) Hooks() string { return k.one("HOOKS") }

// Endings is the stream of what ended and the archive has not stored yet, and the channel that announces its first entry.
func (k Keys) Endings() string { return k.one("ENDINGS") }

// Ended is the channel that announces the end of a message that was awaited, with its member.
func (k Keys) Ended() string { return k.one("ENDED") }

// Extras is the hash of what else is noted of members.
func (k Keys) Extras() string { return k.one("EXTRAS") }

// Taken is the sorted set of the members whose ids stay taken, by until when.
func (k Keys) Taken() string { return k.one("TAKEN") }

// Expiries is the sorted set of the members that have a time to live by its end.
func (k Keys) Expiries() string { return k.one("EXPIRIES") }

// Deaths is the hash of reasons of deaths by member. In a store of several shards it is also the channel that tells programs of any
// language that a message died: {"topic","id","reason","attempts"} as JSON.
func (k Keys) Deaths() string { return k.one("DEATHS") }

// ReadyTopics is the sorted set of the topics that have something ready by the due time of the oldest, or some earlier one that is gone.
func (k Keys) ReadyTopics() string { return k.one("READY") }

// Topics is the hash of the counters of topics; those of "*" are of all topics, forgotten ones too.
func (k Keys) Topics() string { return k.one("TOPICS") }

// StandsStill is the field of Topics that says that the clock of Redis stands still, and is moved by hand.
const StandsStill = "*:still"

// Lateness is the hash of how many messages were claimed how late, by buckets of lateness.
func (k Keys) Lateness() string { return k.one("LATE") }

// Seconds is the string with the history of the last hour, by second.
func (k Keys) Seconds() string { return k.one("SECONDS") }

// Minutes is the string with the history of the last week, by minute.
func (k Keys) Minutes() string { return k.one("MINUTES") }

// OldestDeaths is the sorted set of the topics that have dead letters by the time of the oldest, or some earlier one that is gone.
func (k Keys) OldestDeaths() string { return k.one("OLDEST") }

// NewestDeaths is the sorted set of the topics that have dead letters by the time of the newest, or some later one that is gone.
func (k Keys) NewestDeaths() string { return k.one("NEWEST") }

// KeptDeaths is the hash of how many dead letters a topic keeps, and how many deaths removed since the last step of the housekeeping.
func (k Keys) KeptDeaths() string { return k.one("KEPT") }

// SeenTopics is the sorted set of all topics by the time, in ms, at which the housekeeping last checked whether anything is left of them.
func (k Keys) SeenTopics() string { return k.one("SEEN") }

// TopicNames is the sorted set of all topics by name.
func (k Keys) TopicNames() string { return k.one("NAMES") }

// BusyTopics is the sorted set of topics that were published to lately by about when, in ms.
func (k Keys) BusyTopics() string { return k.one("BUSY") }

// PausedTopics is the sorted set of the topics that are paused by since when, in ms.
func (k Keys) PausedTopics() string { return k.one("PAUSED") }

// Ready is the sorted set of a topic's due members by due time.
func (k Keys) Ready(topic string) string { return k.each("ready_of", topic) }

// Waiting is the sorted set of the inboxes that wait for a topic, longest first.
func (k Keys) Waiting(topic string) string { return k.each("waiting_of", topic) }

// Dead is the sorted set of a topic's dead letters by time of death.
func (k Keys) Dead(topic string) string { return k.each("dead_of", topic) }

// Broadcasts is the sorted set of the members of broadcasts that wait, by due time.
func (k Keys) Broadcasts() string { return k.one("BROADCASTS") }

// Log is the stream of a topic's sent broadcasts, and the channel that announces
// its growth with the same [Bell] as Logs.
func (k Keys) Log(topic string) string { return k.each("log_of", topic) }

// Logs is the sorted set of topics by the position of their last broadcast, and
// the channel that announces the growth of any log with a [Bell].
func (k Keys) Logs() string { return k.one("LOGS") }

// Listeners is the hash of named listeners: the pattern of each, and since when it listens.
func (k Keys) Listeners() string { return k.one("LISTENERS") }

// Places is the hash of a named listener's place in each topic: the position of the last broadcast that was handed out.
func (k Keys) Places(name string) string { return k.each("places_of", name) }

// Held is the sorted set of broadcasts that a named listener has leased, "POSITION TOPIC" by the end of their lease.
func (k Keys) Held(name string) string { return k.each("held_of", name) }

// Tries is the hash of how often more than once such a broadcast was handed out.
func (k Keys) Tries(name string) string { return k.each("tries_of", name) }

// Owners is the hash of which worker has such a broadcast, and until when.
func (k Keys) Owners(name string) string { return k.each("owners_of", name) }

// Alarms is the sorted set of what the carrier is to look at, by when.
func (k Keys) Alarms() string { return k.one("ALARMS") }

// Name is the channel that tells a named listener that a process of it may have died and left broadcasts.
func (k Keys) Name(name string) string { return k.each("name_of", name) }

// Bridge is the string that holds the position up to which broadcasts were passed on to NATS.
func (k Keys) Bridge() string { return k.one("BRIDGE") }

// Extended is the string that holds the present receipt of a message whose lease was
// extended by a caller that goes on with the receipt of its claim.
func (k Keys) Extended(member string) string { return k.each("extended_of", member) }

// Secret is the string with which the daemons of a store sign tokens that clients keep.
func (k Keys) Secret() string { return k.one("SECRET") }

// Pushes returns the key of the pushes, and the channel that tells of a change.
func (k Keys) Pushes() string { return k.one("PUSHES") }

// Schedules is the sorted set of all schedules by when the carrier looks at them.
func (k Keys) Schedules() string { return k.one("SCHEDULES") }

// SchedulesOf is the hash of the states of a topic's schedules by name.
func (k Keys) SchedulesOf(topic string) string { return k.each("schedules_of", topic) }

// Rules is the hash of a topic's schedules, as they were put, by name.
func (k Keys) Rules(topic string) string { return k.each("rules_of", topic) }

// Logouts is the sorted set of the logins to the console that ended before their time, by the time until which their cookies would be good.
func (k Keys) Logouts() string { return k.one("LOGOUTS") }

// Relayed is the hash of which rows of each outbox were taken last.
func (k Keys) Relayed() string { return k.one("RELAYED") }

// Mark is the string that is written behind a call that replicas are to confirm. It holds nothing.
func (k Keys) Mark() string { return k.one("MARK") }

// Carrier is the string that holds the elected carrier's token.
func (k Keys) Carrier() string { return k.one("CARRIER") }

// Epoch is the string that counts elections.
func (k Keys) Epoch() string { return k.one("EPOCH") }

// Standbys is the hash of the carriers that stand by, of a store of several shards: how many shards each carries, and when it said so.
func (k Keys) Standbys() string { return k.one("STANDBYS") }

// Nudge is the channel that nudges the carrier with the new earliest due time.
func (k Keys) Nudge() string { return k.one("NUDGE") }

// Vacant is the channel that tells standbys that the carrier stepped down, with the name of the one that is to take over, or nothing.
func (k Keys) Vacant() string { return k.one("VACANT") }

// Beat is the channel of the carrier's heartbeat: its epoch, the time in Unix milliseconds, the id of the store, a [Bell]
// for listeners that missed one, and the topics that have something ready and an empty waiting list.
func (k Keys) Beat() string { return k.one("BEAT") }

// Inbox is the channel that rings one subscriber, with the topic to claim from.
func (k Keys) Inbox(id string) string { return k.each("inbox_of", id) }

// Hands is the inbox of a subscriber that takes hand-overs, with the topic to claim from, or a message.
func (k Keys) Hands(id string) string { return k.each("hands_of", id) }

// Wakes is the channel that wakes programs of any language in a store of several shards, with a topic and the number of messages made ready.
func (k Keys) Wakes() string { return k.one("WAKES") }

// Wake is the channel that wakes programs of any language, with the number of messages made ready.
func (k Keys) Wake(topic string) string { return k.each("wake_of", topic) }

// Broadcast is the channel of a topic's broadcasts for programs of any language, with the body.
func (k Keys) Broadcast(topic string) string { return k.each("broadcast_of", topic) }

// Death is the channel that tells programs of any language that a message died: {"id","reason","attempts"} as JSON.
func (k Keys) Death(topic string) string { return k.each("death_of", topic) }

// WakesOf returns the channel of a topic, or for * the pattern of all.
func (k Keys) WakesOf(topic string) string {
	if k.IsSharded() {
		return k.Wakes()
	}
	return k.Wake(topic)
}

// Place is the sorted set that a place is: that of a topic, where each topic has one.
func (k Keys) Place(p Place, topic string) string {
	if p.OfAllTopics() {
		topic = ""
	}
	return k.name(p.row(), topic)
}

// OfOne returns the keys of a shard, except those of families of which families does not say one, such as "topic".
func (k Keys) OfOne(families map[string]string) (keys []string) {
	for _, r := range table {
		if one, is := families[r.of]; r.kind != kindChannel && (is || r.of == "") {
			keys = append(keys, k.name(r, one))
		}
	}
	return keys
}

// A PublicChannel is a channel for programs of any language, and what its payload is.
type PublicChannel struct{ Channel, Payload string }

// PublicChannels returns the channels that tell of a topic.
func (k Keys) PublicChannels(topic string) (all []PublicChannel) {
	lua := []string{"wake_of", "death_of", "broadcast_of", "BEAT"}
	if k.IsSharded() {
		lua = []string{"WAKES", "DEATHS", "broadcast_of", "BEAT"}
	}
	for _, name := range lua {
		r, one := rowNamed(name), ""
		if r.of != "" {
			one = topic
		}
		holds := r.holds
		if name == "DEATHS" {
			holds = `{"topic","id","reason","attempts"}`
		}
		all = append(all, PublicChannel{k.name(r, one), holds})
	}
	return all
}

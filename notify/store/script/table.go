package script

import (
	"slices"
	"strings"
)

// The kinds of keys, as TYPE returns them, and channels, which are no keys.
const (
	kindString  = "string"
	kindHash    = "hash"
	kindZSet    = "zset"
	kindStream  = "stream"
	kindChannel = "channel"
)

// A row of the table describes a key or a channel, or a family of them.
type row struct {
	lua    string // its name in scripts: a local, or for a family a function of one of its kind
	name   string // behind the base; that of a family ends with a colon
	of     string // the kind that a family has one key for each of: topic, member, listener, subscriber, share; empty: the key exists once in a shard
	kind   string
	holds  string // the fields, members or entries, or what is published
	with   string // their values or scores
	public bool   // a channel for programs of any language: in a store of one shard its name begins with the prefix alone
	home   bool   // of a topic: its branches have the same key
	place  Place  // that the key is; 0: it is none
	since  int    // the format that brings it; 0: the oldest
}

// table is everything that Bellhop has in Redis. All names in Go and in Lua are made
// from it, and so is the table in doc.go.
var table = []row{
	{lua: "FORMAT", name: "format", kind: kindString, holds: "FORMAT ID: the number of the format, and which store it is; of several shards FORMAT/SHARDS/EPOCH ID"},
	{lua: "SCHEDULED", name: "scheduled", kind: kindZSet, holds: "topics that have a scheduled set", with: "due ms of the first in it"},
	{lua: "scheduled_of", name: "scheduled:", of: "topic", kind: kindZSet, holds: "members that wait for their due time", with: "due ms", place: PlaceScheduled},
	{lua: "READY", name: "ready", kind: kindZSet, holds: "topics that have something ready", with: "due ms of the first, or of an earlier one that is gone"},
	{lua: "ready_of", name: "ready:", of: "topic", kind: kindZSet, holds: "members that are due", with: "due ms; after a lease, when that ended", place: PlaceReady},
	{lua: "KEYED", name: "keyed", kind: kindZSet, holds: "topics that have messages with keys", with: "due ms of the first that is blocked, or of an earlier one that is gone; inf: nothing was"},
	{lua: "keys_of", name: "keys:", of: "topic", kind: kindHash, holds: "ids of messages that have a key", with: "KEY; behind a space, while it is blocked, its due ms, 15 digits; or ? if it is scheduled, and dropped if its key is busy then"},
	{lua: "seats_of", name: "seats:", of: "topic", kind: kindHash, holds: "keys", with: "the id of the message that has the seat: it is ready, leased or put off"},
	{lua: "line_of", name: "line:", of: "topic", kind: kindZSet, holds: "KEY, due ms of 15 digits, and ID of each blocked message, a NUL between", with: "0, so that they sort by key, due time and id", place: PlaceBlocked},
	{lua: "heads_of", name: "heads:", of: "topic", kind: kindZSet, holds: "keys that have something in the line", with: "due ms of the first, or of an earlier one that is gone"},
	{lua: "GROUPED", name: "grouped", kind: kindZSet, holds: "topics that have groups", with: "0; while a repair makes them anew, ms until which nothing that waits for one comes", since: 10},
	{lua: "grouped_of", name: "grouped:", of: "topic", home: true, kind: kindZSet, holds: "ids of messages that are in a group; @BRANCH:ID of those of the topic's branches", with: "the number of the group; more by .5 while it is dead", since: 10},
	{lua: "groups_of", name: "groups:", of: "topic", home: true, kind: kindHash, holds: "names of groups; #N, the number of each; *", with: "N; behind a space, once it is complete, ms since when; of #N NAME, NAME=NUMBER of each, a space before it: opened, changed, acked, dead, dropped, cancelled, go, restoring, complete, a newline, the member of the callback, if there is one; of * the last number", since: 10},
	{lua: "waiting_of", name: "waiting:", of: "topic", kind: kindZSet, holds: "inboxes of subscribers that wait", with: "us since which; more by 3e15 if rung since, by 6e15 if handed a message since"},
	{lua: "LEASED", name: "leased", kind: kindZSet, holds: "leased members", with: "receipt: the end of the lease in us, last digit as receipt_of says; more by .5 if it was handed over and is not confirmed", place: PlaceLeased},
	{lua: "slots_of", name: "slots:", of: "topic", kind: kindZSet, holds: "members that are leased, of a topic that has a concurrency", with: "receipt; once that is past, of an extension since"},
	{lua: "BROADCASTS", name: "broadcasts", kind: kindZSet, holds: "members of broadcasts that wait", with: "due ms", place: PlaceBroadcasts},
	{lua: "dead_of", name: "dead:", of: "topic", kind: kindZSet, holds: "dead letters; those without a topic are in that of _", with: "ms of death", place: PlaceDead},
	{lua: "MESSAGES", name: "messages", kind: kindHash, holds: "members", with: "record: AT[,IN][,OBJECT], a newline, the body; see Record"},
	{lua: "ATTEMPTS", name: "attempts", kind: kindHash, holds: "members that used up attempts", with: "how many; behind a newline each, the last 10: ENDED TOOK NAME REASON, both times in ms"},
	{lua: "CLAIMS", name: "claims", kind: kindZSet, holds: "RECEIPT SINCE TOPIC NAME of each call that claimed: who has what is leased under that receipt", with: "the receipt without its last digit, in us"},
	{lua: "WORKERS", name: "workers", kind: kindHash, holds: "ids of daemons, workers and listeners that are there", with: "JSON of name, host, version, kind, since, topics, names under which it listens, and who claims through it"},
	{lua: "EXPIRIES", name: "expiries", kind: kindZSet, holds: "members that have a time to live", with: "ms of its end; .5 if a lease postponed it"},
	{lua: "extended_of", name: "extended:", of: "member", kind: kindString, holds: "CLAIMED NOW: the receipt of the claim, and the present one, for callers that know only the first; it has a time to live"},
	{lua: "EXTRAS", name: "extras", kind: kindHash, holds: "members of which more is noted", with: "NAME=NUMBER of each, a space before it: lease, until, snoozed, moved, unique, await, and stop, when it was asked to be cancelled once its lease ends; progress=PERCENT,USED,DIGIT,NOTE, how far the work is under a lease by the attempts used up and the last digit of its receipt; a newline and the successor, if there is one; of *, while there is an archive: archive, room"},
	{lua: "TAKEN", name: "taken", kind: kindZSet, holds: "members that ended, whose ids stay taken: their record is =UNTIL, or that of done:TOPIC", with: "ms until which"},
	{lua: "done_of", name: "done:", of: "topic", kind: kindZSet, holds: "members that succeeded and are kept: their record is =UNTIL,OBJECT, a newline, the result", with: "ms until which", place: PlaceDone},
	{lua: "DONE", name: "done-first", kind: kindZSet, holds: "topics that keep what succeeded", with: "ms until which the first is kept, or an earlier one that is gone"},
	{lua: "DEATHS", name: "deaths", kind: kindHash, holds: "members of dead letters; as a channel of a store of several shards, the deaths with their topics", with: "reason"},
	{lua: "OLDEST", name: "deaths-oldest", kind: kindZSet, holds: "topics that have dead letters", with: "ms of the oldest death, or of an earlier one that is gone"},
	{lua: "NEWEST", name: "deaths-newest", kind: kindZSet, holds: "topics that have dead letters", with: "ms of the newest death, or of a later one that is gone"},
	{lua: "KEPT", name: "deaths-kept", kind: kindHash, holds: "most, removed, unarchived, done, forgotten", with: "how many a topic keeps; how many deaths removed since the last sweep; how many entries of the stream of endings were removed since then; done: COUNT MS, how many that succeeded a topic keeps, and for how long; how many acknowledgements removed since then"},
	{lua: "HOOKS", name: "hooks", kind: kindHash, holds: "patterns of named listeners to deaths, such as $dead.TOPIC", with: "how many names have it"},
	{lua: "ENDINGS", name: "endings", kind: kindStream, holds: "what ended and the archive has not stored yet; as a channel, its first entry was added"},
	{lua: "TOPICS", name: "topics", kind: kindHash, holds: "TOPIC:COUNTER, and *:COUNTER of all topics; TOPIC:settings, and *:settings for topics that have none", with: "number; settings: NAME=NUMBER of each, a space before it; idle: MS PUBLISHED; *:revised, in a store of several shards: us of the last change of *:settings; *:history: 1 while the lateness of claims is counted; *:still: 1 if the clock stands still, and is moved by hand; *:schedules: the last revision of a schedule; *:zones: by which version of the rules of time zones schedules were filled last"},
	{lua: "LATE", name: "lateness", kind: kindHash, holds: "buckets of lateness from A on, see Histogram; while carriers keep a history", with: "how many messages were claimed, or handed over, so late"},
	{lua: "SECONDS", name: "history-seconds", kind: kindString, holds: "a ring of samples: what happened in each second of the last hour, see Sample"},
	{lua: "MINUTES", name: "history-minutes", kind: kindString, holds: "the same of each minute of the last week"},
	{lua: "NAMES", name: "topics-names", kind: kindZSet, holds: "all topics", with: "0, so that they sort by name"},
	{lua: "SEEN", name: "topics-seen", kind: kindZSet, holds: "all topics", with: "ms of the last check whether anything is left of them"},
	{lua: "BUSY", name: "topics-busy", kind: kindZSet, holds: "topics that were published to lately", with: "about when, in ms"},
	{lua: "PAUSED", name: "topics-paused", kind: kindZSet, holds: "topics that are paused", with: "ms since when"},
	{lua: "LOGS", name: "logs", kind: kindZSet, holds: "topics that have a log; as a channel, the bell of all logs", with: "position of the last broadcast in us"},
	{lua: "log_of", name: "log:", of: "topic", kind: kindStream, holds: "broadcasts that were sent: id, due, prev, record; as a channel, the bell of this log"},
	{lua: "LISTENERS", name: "listeners", kind: kindHash, holds: "named listeners", with: "registration: PATTERN START FLOOR ID"},
	{lua: "places_of", name: "places:", of: "listener", kind: kindHash, holds: "topics", with: "position of the last broadcast that was handed out"},
	{lua: "held_of", name: "held:", of: "listener", kind: kindZSet, holds: "POSITION TOPIC of leased broadcasts, AFTER-UPTO TOPIC of gaps", with: "end of the lease in ms; 0: released"},
	{lua: "tries_of", name: "tries:", of: "listener", kind: kindHash, holds: "POSITION TOPIC of those handed out more than once", with: "how often more"},
	{lua: "owners_of", name: "owners:", of: "listener", kind: kindHash, holds: "POSITION TOPIC of leased broadcasts, AFTER-UPTO TOPIC of gaps", with: "UNTIL NAME: which worker has it, and the end of that lease in ms; it has a time to live"},
	{lua: "ALARMS", name: "alarms", kind: kindZSet, holds: "what the carrier looks at in time: named listeners that have leased broadcasts; /TOPIC of topics whose rate let fewer messages go than were ready; //TOPIC of topics whose pause has an end; / of the schedules; =TOPIC NAME of groups of which nobody may be left; @TOPIC of topics that are copied into their branches", with: "ms of the end of the first lease; ms when it lets more go; ms of that end, or earlier; ms when the first of them is to be looked at, or earlier; ms when nobody was left; ms from which on there is something to copy"},
	{lua: "BRIDGE", name: "bridge", kind: kindString, holds: "position up to which broadcasts were passed on to NATS"},
	{lua: "SECRET", name: "secret", kind: kindString, holds: "what the daemons of a store sign with: settle tokens of NATS, cookies of the console"},
	{lua: "LOGOUTS", name: "logouts", kind: kindZSet, holds: "logins to the console that ended before their time; it has a time to live", with: "ms until which their cookies would be good"},
	{lua: "PUSHES", name: "pushes", kind: kindHash, holds: "pushes, in the first shard; as a channel, the name of one that was changed", with: "JSON, see Push; of *, how often they were changed; of *NAME, of one that fails, or is closed, ms when it is asked next, of this -ms when it was closed, and the last answer, of one to NATS ms, a subject and the stream that stores it"},
	{lua: "SCHEDULES", name: "schedules-due", kind: kindZSet, holds: "TOPIC:NAME of all schedules", with: "ms at which the carrier looks at it: it is to be filled then; inf: it is paused, or at its end"},
	{lua: "schedules_of", name: "schedules:", of: "topic", kind: kindHash, holds: "names of schedules", with: "state: NAME=NUMBER of each, a space before it: revision, cursor, fell, made, missed, taken, paused, refused, unread; behind a newline, with a space before each, SECONDS,DUE,AT of the last 64 occurrences that were made: its time, when its message is due, and when that was made, both in ms, AT 0 if the id was in use"},
	{lua: "rules_of", name: "rules:", of: "topic", kind: kindHash, holds: "names of schedules", with: "JSON of the rule, a newline, and the record of an occurrence without its times"},
	{lua: "RELAYED", name: "relayed", kind: kindHash, holds: "ids of outboxes", with: "TOKEN BATCH, a newline, and SEQ:CALLED of the rows of that batch that were taken, called in us, a space between: see relay.lua", since: 10},
	{lua: "MARK", name: "mark", kind: kindString, holds: "nothing; it is written behind a call that replicas confirm"},
	{lua: "room_of", name: "room:", of: "share", kind: kindString, holds: "ms until which less than that share of memory is surely in use; 0: it is in use"},
	{lua: "CARRIER", name: "carrier", kind: kindString, holds: "token of the elected carrier, EPOCH SINCE LEASE NAME; its time to live is the lease"},
	{lua: "EPOCH", name: "epoch", kind: kindString, holds: "how many elections there were"},
	{lua: "STANDBYS", name: "standbys", kind: kindHash, holds: "names of the carriers that stand by, of a store of several shards", with: "HELD NOW: how many shards it carries, and when it said so, in ms"},
	{lua: "NUDGE", name: "nudge", kind: kindChannel, holds: "the new earliest due ms, for the carrier"},
	{lua: "VACANT", name: "vacant", kind: kindChannel, holds: "the carrier stepped down: nothing, or the name of the one that is to take over"},
	{lua: "BEAT", name: "beat", kind: kindChannel, holds: "the heartbeat: epoch, ms, id of the store, bell, ready topics with an empty waiting list"},
	{lua: "ENDED", name: "ended", kind: kindChannel, holds: "member of a message that ended and was awaited"},
	{lua: "here_of", name: "here:", of: "subscriber", kind: kindChannel, holds: "member that a worker of that name is to stop, which may have it; whoever is subscribed to it is there"},
	{lua: "inbox_of", name: "inbox:", of: "subscriber", kind: kindChannel, holds: "topic to claim from"},
	{lua: "hands_of", name: "hands:", of: "subscriber", kind: kindChannel, holds: "of one that takes hand-overs, as inbox; or TOPIC NOW RECEIPT DUE USED LEASE ID, a newline, the record"},
	{lua: "name_of", name: "name:", of: "listener", kind: kindChannel, holds: "nothing; there may be broadcasts to take"},
	{lua: "WAKES", name: "wakes", kind: kindChannel, holds: "TOPIC N of a store of several shards: how many were made ready"},
	{lua: "wake_of", name: "wake:", of: "topic", kind: kindChannel, holds: "how many were made ready", public: true},
	{lua: "broadcast_of", name: "broadcast:", of: "topic", kind: kindChannel, holds: "body", public: true},
	{lua: "death_of", name: "dead:", of: "topic", kind: kindChannel, holds: `{"id","reason","attempts"}`, public: true},
}

// rowNamed returns the row of a name in scripts.
func rowNamed(lua string) row {
	for i := range table {
		if table[i].lua == lua {
			return table[i]
		}
	}
	panic("no row is called " + lua) // the tests of Keys would find it
}

// base returns the Lua variable that the name begins with.
func (r row) base() string {
	if r.public {
		return "PREFIX" // where the store is sharded that is BASE
	}
	return "BASE"
}

// isGiven reports whether calls in a Cluster declare the row's key.
func (r row) isGiven() bool {
	return r.of == "" && r.kind != kindChannel && !strings.HasPrefix(r.lua, "FORMAT")
}

// A Place is a sorted set that holds messages, by their members.
type Place int

// The places, in the order in which a repair checks them.
const (
	PlaceLeased Place = iota + 1
	PlaceBroadcasts
	PlaceReady     // of a topic
	PlaceScheduled // of a topic
	PlaceBlocked   // of a topic; in it a message is KEY, DUE and ID, see the table
	PlaceDead      // of a topic
	PlaceDone      // of a topic
)

// row returns the row of the table that describes a place.
func (p Place) row() row {
	return table[slices.IndexFunc(table, func(r row) bool { return r.place == p })]
}

// String returns the name of a place, such as "leased".
func (p Place) String() string { return strings.TrimSuffix(p.row().name, ":") }

// OfAllTopics reports whether the members of all topics are in one such place.
func (p Place) OfAllTopics() bool { return p.row().of == "" }

// Name returns the name of a place behind the base; that of one that each topic has ends with a colon.
func (p Place) Name() string { return p.row().name }

// A Described is what the table says of a key. The zero Described is a key that is not in it.
type Described struct {
	Type  string // as Redis names it
	Of    string // kind of the family that it is one of, such as topic; empty: it exists once in a shard
	One   string // which one of that
	Place Place  // that it is; 0: none
}

// Describe returns what the table says of a key by its name behind the base.
func Describe(short string) Described {
	name, one, many := strings.Cut(short, ":")
	if many {
		name += ":"
	}
	for _, r := range table {
		if r.kind != kindChannel && r.name == name && !(r.home && strings.Contains(one, "@")) {
			return Described{Type: r.kind, Of: r.of, One: one, Place: r.place}
		}
	}
	return Described{}
}

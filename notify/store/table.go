package store

import "strings"

// The kinds of keys, as TYPE tells them, and channels, which are no keys.
const (
	kindString  = "string"
	kindHash    = "hash"
	kindZSet    = "zset"
	kindStream  = "stream"
	kindChannel = "channel"
)

// A row of the table describes a key or a channel, or a family of them.
type row struct {
	lua    string // what scripts call it: a local; of a family, a function of what there is one of each for
	name   string // behind the base; of a family it ends with a colon
	of     string // what there is one of each for: topic, member, listener, subscriber, share; empty: there is one in a shard
	kind   string
	holds  string // the fields, members or entries, or what is published
	with   string // their values or scores
	public bool   // a channel for programs of any language: it stands behind the prefix alone
	place  Place  // of members; 0: it is none
}

// table is everything that Bellhop has in Redis. All names are made of it, in Go
// and in Lua; it stands in doc.go, too.
var table = []row{
	{lua: "FORMAT", name: "format", kind: kindString, holds: "FORMAT ID: the number of the layout, and which store it is"},
	{lua: "SCHEDULES", name: "schedule", kind: kindZSet, holds: "topics that have a schedule", with: "due ms of the first in it"},
	{lua: "schedule_of", name: "schedule:", of: "topic", kind: kindZSet, holds: "members that wait for their due time", with: "due ms", place: PlaceSchedule},
	{lua: "READY", name: "ready", kind: kindZSet, holds: "topics that have something ready", with: "due ms of the first, or of an earlier one that is gone"},
	{lua: "ready_of", name: "ready:", of: "topic", kind: kindZSet, holds: "members that are due", with: "due ms; after a lease, when that ended", place: PlaceReady},
	{lua: "waiting_of", name: "waiting:", of: "topic", kind: kindZSet, holds: "inboxes of subscribers that wait", with: "us since which; more by 1e15 if rung since"},
	{lua: "LEASED", name: "leased", kind: kindZSet, holds: "members that a subscriber has", with: "receipt: the end of the lease in us, last digit as receipt_of says", place: PlaceLeased},
	{lua: "BROADCASTS", name: "broadcasts", kind: kindZSet, holds: "members of broadcasts that wait", with: "due ms", place: PlaceBroadcasts},
	{lua: "dead_of", name: "dead:", of: "topic", kind: kindZSet, holds: "dead letters; those without a topic in that of _", with: "ms of death", place: PlaceDead},
	{lua: "MESSAGES", name: "messages", kind: kindHash, holds: "members", with: "record: AT[,IN][,OBJECT], a newline, the body; see Record"},
	{lua: "ATTEMPTS", name: "attempts", kind: kindHash, holds: "members that used up some", with: "attempts"},
	{lua: "EXPIRIES", name: "expiries", kind: kindZSet, holds: "members that have a time to live", with: "ms of its end; .5 where a lease put it off"},
	{lua: "extended_of", name: "extended:", of: "member", kind: kindString, holds: "CLAIMED NOW: the receipt of the claim, and that since an extension by who knows only the first; it has a time to live"},
	{lua: "DEATHS", name: "deaths", kind: kindHash, holds: "members of dead letters", with: "reason"},
	{lua: "OLDEST", name: "deaths-oldest", kind: kindZSet, holds: "topics that have dead letters", with: "ms of the oldest death, or of an earlier one that is gone"},
	{lua: "NEWEST", name: "deaths-newest", kind: kindZSet, holds: "topics that have dead letters", with: "ms of the newest death, or of a later one that is gone"},
	{lua: "KEPT", name: "deaths-kept", kind: kindHash, holds: "most, removed", with: "how many a topic keeps; how many deaths removed since the last sweep"},
	{lua: "TOPICS", name: "topics", kind: kindHash, holds: "TOPIC:COUNTER, and *:COUNTER of all topics; TOPIC:settings, and *:settings of all that have none", with: "number; settings: NAME=NUMBER of each, a space before it; idle: MS PUBLISHED"},
	{lua: "NAMES", name: "topics-names", kind: kindZSet, holds: "all topics", with: "0, so that they stand by name"},
	{lua: "SEEN", name: "topics-seen", kind: kindZSet, holds: "all topics", with: "ms of the last look whether anything is left of them"},
	{lua: "BUSY", name: "topics-busy", kind: kindZSet, holds: "topics that were published to lately", with: "about when, in ms"},
	{lua: "PAUSED", name: "topics-paused", kind: kindZSet, holds: "topics that are paused", with: "ms since when"},
	{lua: "LOGS", name: "logs", kind: kindZSet, holds: "topics that have a log; as a channel, the bell of all logs", with: "position of the last broadcast in us"},
	{lua: "log_of", name: "log:", of: "topic", kind: kindStream, holds: "broadcasts that were sent: id, due, prev, record; as a channel, the bell of this log"},
	{lua: "LISTENERS", name: "listeners", kind: kindHash, holds: "named listeners", with: "registration: PATTERN START FLOOR ID"},
	{lua: "places_of", name: "places:", of: "listener", kind: kindHash, holds: "topics", with: "position of the last broadcast that was handed out"},
	{lua: "held_of", name: "held:", of: "listener", kind: kindZSet, holds: "POSITION TOPIC of broadcasts in hand", with: "end of the lease in ms; 0: given back"},
	{lua: "tries_of", name: "tries:", of: "listener", kind: kindHash, holds: "POSITION TOPIC of those handed out more than once", with: "how often more"},
	{lua: "HANDED", name: "handed", kind: kindZSet, holds: "named listeners that have broadcasts in hand", with: "ms of the end of the first lease"},
	{lua: "BRIDGE", name: "bridge", kind: kindString, holds: "position up to which broadcasts were passed on to NATS"},
	{lua: "SECRET", name: "secret", kind: kindString, holds: "what the daemons of a store sign settle tokens with"},
	{lua: "MARK", name: "mark", kind: kindString, holds: "nothing; it is written behind what replicas confirm"},
	{lua: "room_of", name: "room:", of: "share", kind: kindString, holds: "ms up to which there is room below that share of memory; 0: there is none"},
	{lua: "CARRIER", name: "carrier", kind: kindString, holds: "token of the elected carrier, EPOCH SINCE LEASE NAME; its time to live is the lease"},
	{lua: "EPOCH", name: "epoch", kind: kindString, holds: "how many elections there were"},
	{lua: "HEAD", name: "head", kind: kindChannel, holds: "due ms of what came to be due first: the carrier's nudge"},
	{lua: "VACANT", name: "vacant", kind: kindChannel, holds: "nothing; the carrier stepped down"},
	{lua: "BEAT", name: "beat", kind: kindChannel, holds: "the heartbeat: epoch, ms, id of the store, bell, topics that nobody waits for"},
	{lua: "inbox_of", name: "inbox:", of: "subscriber", kind: kindChannel, holds: "topic to claim from"},
	{lua: "name_of", name: "name:", of: "listener", kind: kindChannel, holds: "nothing; there may be broadcasts to take"},
	{lua: "wake_of", name: "wake:", of: "topic", kind: kindChannel, holds: "how many were made ready", public: true},
	{lua: "broadcast_of", name: "broadcast:", of: "topic", kind: kindChannel, holds: "body", public: true},
	{lua: "death_of", name: "dead:", of: "topic", kind: kindChannel, holds: `{"id","reason","attempts"}`, public: true},
}

// rowNamed returns the row of what scripts call so.
func rowNamed(lua string) row {
	for i := range table {
		if table[i].lua == lua {
			return table[i]
		}
	}
	panic("no row is called " + lua) // which the tests of Keys would find
}

// source returns the function that makes a name of a family, for where the call is
// not written out: see writtenOut.
func (r row) source() string {
	if r.of == "" {
		return ""
	}
	return "local function " + r.lua + "(" + r.of + ") return " + r.begin() + " .. " + r.of + " end\n"
}

// begin returns what the names of a family begin with, or the name of what there
// is one of, in Lua.
func (r row) begin() string {
	if r.public {
		return "PREFIX .. '" + r.name + "'"
	}
	return "BASE .. '" + r.name + "'"
}

// isGiven reports whether a script that names the row is given it in KEYS.
func (r row) isGiven() bool {
	return r.of == "" && r.kind != kindChannel && !strings.HasPrefix(r.lua, "FORMAT")
}

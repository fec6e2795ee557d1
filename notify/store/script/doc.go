// Package script holds what Redis runs: the table of keys, the library of transitions
// that is made from it, and a cursor over what transitions answer. Package store defines
// the transitions, and calls them.
//
// # The library
//
// lua/NAME.lua is a transition, and lua/shared holds what transitions share: each file is a
// module. The library is all of them in one text, which Redis compiles once and calls by
// FCALL. library.go joins the text; begin.lua is the head of each call. A transition reads its own
// arguments from ARGV, and has the keys of the table below by their names; functions such as
// ready_of(topic) make the keys of a topic, because transitions learn topics as they run: all keys of
// a shard carry one hash tag. Variables of the library outlive a call, and serve all stores of a
// server: what a call has of its own is in the table `current`. When a library is loaded Redis has no
// globals yet, so a module makes tables, constants and functions, and calls nothing.
//
// A library is called bellhop_HASH by its text, so those of several versions are in a server side by
// side. A call that misses it loads it, if its user may: a function runs with the rights of its caller,
// and names have no owner, so a process calls only what has its own text to the letter. A server that has
// none of that, and the trial server, run the same text as a script. The housekeeping deletes libraries
// that nobody used for three days, if their names have the hash of their texts.
//
// # Keys
//
// All names begin with the prefix and the hash tag of the shard, such as
// bellhop:{0}:, except that in a store of one shard channels for programs of any language
// begin with the prefix alone. All databases of a Redis share its channels: in front of
// those of another database than 0 Redis has its number, as in 2@bellhop:wake:TOPIC, which
// the store and AT in scripts add. A member is TOPIC:ID, the name of a message. Times are by Redis's clock. An arrow precedes the values of a hash, and the
// scores of a sorted set (zset).
//
//	format                  string   FORMAT ID: the number of the format, and which store it is; of several shards FORMAT/SHARDS/EPOCH ID
//	scheduled               zset     topics that have a scheduled set → due ms of the first in it
//	scheduled:TOPIC         zset     members that wait for their due time → due ms
//	ready                   zset     topics that have something ready → due ms of the first, or of an earlier one that is gone
//	ready:TOPIC             zset     members that are due → due ms; after a lease, when that ended
//	keyed                   zset     topics that have messages with keys → due ms of the first that is blocked, or of an earlier one
//	                                 that is gone; inf: nothing was
//	keys:TOPIC              hash     ids of messages that have a key → KEY; behind a space, while it is blocked, its due ms, 15 digits;
//	                                 or ? if it is scheduled, and dropped if its key is busy then
//	seats:TOPIC             hash     keys → the id of the message that has the seat: it is ready, leased or put off
//	line:TOPIC              zset     KEY, due ms of 15 digits, and ID of each blocked message, a NUL between → 0, so that they sort by
//	                                 key, due time and id
//	heads:TOPIC             zset     keys that have something in the line → due ms of the first, or of an earlier one that is gone
//	grouped                 zset     topics that have groups → 0; while a repair makes them anew, ms until which nothing that waits for
//	                                 one comes; from format 10 on
//	grouped:TOPIC           zset     ids of messages that are in a group; @BRANCH:ID of those of the topic's branches → the number of
//	                                 the group; more by .5 while it is dead; from format 10 on
//	groups:TOPIC            hash     names of groups; #N, the number of each; * → N; behind a space, once it is complete, ms since
//	                                 when; of #N NAME, NAME=NUMBER of each, a space before it: opened, changed, acked, dead, dropped,
//	                                 cancelled, go, restoring, complete, a newline, the member of the callback, if there is one; of * the
//	                                 last number; from format 10 on
//	waiting:TOPIC           zset     inboxes of subscribers that wait → us since which; more by 3e15 if rung since, by 6e15 if handed a
//	                                 message since
//	leased                  zset     leased members → receipt: the end of the lease in us, last digit as receipt_of says; more by .5 if
//	                                 it was handed over and is not confirmed
//	slots:TOPIC             zset     members that are leased, of a topic that has a concurrency → receipt; once that is past, of an
//	                                 extension since
//	broadcasts              zset     members of broadcasts that wait → due ms
//	dead:TOPIC              zset     dead letters; those without a topic are in that of _ → ms of death
//	messages                hash     members → record: AT[,IN][,OBJECT], a newline, the body; see Record
//	attempts                hash     members that used up attempts → how many; behind a newline each, the last 10: ENDED TOOK NAME
//	                                 REASON, both times in ms
//	claims                  zset     RECEIPT SINCE TOPIC NAME of each call that claimed: who has what is leased under that receipt →
//	                                 the receipt without its last digit, in us
//	workers                 hash     ids of daemons, workers and listeners that are there → JSON of name, host, version, kind, since,
//	                                 topics, names under which it listens, and who claims through it
//	expiries                zset     members that have a time to live → ms of its end; .5 if a lease postponed it
//	extended:MEMBER         string   CLAIMED NOW: the receipt of the claim, and the present one, for callers that know only the first; it
//	                                 has a time to live
//	extras                  hash     members of which more is noted → NAME=NUMBER of each, a space before it: lease, until, snoozed,
//	                                 moved, unique, await, and stop, when it was asked to be cancelled once its lease ends;
//	                                 progress=PERCENT,USED,DIGIT,NOTE, how far the work is under a lease by the attempts used up and the
//	                                 last digit of its receipt; a newline and the successor, if there is one; of *, while there is an
//	                                 archive: archive, room
//	taken                   zset     members that ended, whose ids stay taken: their record is =UNTIL, or that of done:TOPIC → ms until
//	                                 which
//	done:TOPIC              zset     members that succeeded and are kept: their record is =UNTIL,OBJECT, a newline, the result → ms
//	                                 until which
//	done-first              zset     topics that keep what succeeded → ms until which the first is kept, or an earlier one that is gone
//	deaths                  hash     members of dead letters; as a channel of a store of several shards, the deaths with their topics →
//	                                 reason
//	deaths-oldest           zset     topics that have dead letters → ms of the oldest death, or of an earlier one that is gone
//	deaths-newest           zset     topics that have dead letters → ms of the newest death, or of a later one that is gone
//	deaths-kept             hash     most, removed, unarchived, done, forgotten → how many a topic keeps; how many deaths removed since
//	                                 the last sweep; how many entries of the stream of endings were removed since then; done: COUNT MS,
//	                                 how many that succeeded a topic keeps, and for how long; how many acknowledgements removed since
//	                                 then
//	hooks                   hash     patterns of named listeners to deaths, such as $dead.TOPIC → how many names have it
//	endings                 stream   what ended and the archive has not stored yet; as a channel, its first entry was added
//	topics                  hash     TOPIC:COUNTER, and *:COUNTER of all topics; TOPIC:settings, and *:settings for topics that have none
//	                                 → number; settings: NAME=NUMBER of each, a space before it; idle: MS PUBLISHED; *:revised, in a
//	                                 store of several shards: us of the last change of *:settings; *:history: 1 while the lateness of
//	                                 claims is counted; *:still: 1 if the clock stands still, and is moved by hand; *:schedules: the last
//	                                 revision of a schedule; *:zones: by which version of the rules of time zones schedules were filled
//	                                 last
//	lateness                hash     buckets of lateness from A on, see Histogram; while carriers keep a history → how many messages
//	                                 were claimed, or handed over, so late
//	history-seconds         string   a ring of samples: what happened in each second of the last hour, see Sample
//	history-minutes         string   the same of each minute of the last week
//	topics-names            zset     all topics → 0, so that they sort by name
//	topics-seen             zset     all topics → ms of the last check whether anything is left of them
//	topics-busy             zset     topics that were published to lately → about when, in ms
//	topics-paused           zset     topics that are paused → ms since when
//	logs                    zset     topics that have a log; as a channel, the bell of all logs → position of the last broadcast in us
//	log:TOPIC               stream   broadcasts that were sent: id, due, prev, record; as a channel, the bell of this log
//	listeners               hash     named listeners → registration: PATTERN START FLOOR ID
//	places:LISTENER         hash     topics → position of the last broadcast that was handed out
//	held:LISTENER           zset     POSITION TOPIC of leased broadcasts, AFTER-UPTO TOPIC of gaps → end of the lease in ms; 0:
//	                                 released
//	tries:LISTENER          hash     POSITION TOPIC of those handed out more than once → how often more
//	owners:LISTENER         hash     POSITION TOPIC of leased broadcasts, AFTER-UPTO TOPIC of gaps → UNTIL NAME: which worker has it,
//	                                 and the end of that lease in ms; it has a time to live
//	alarms                  zset     what the carrier looks at in time: named listeners that have leased broadcasts; /TOPIC of topics
//	                                 whose rate let fewer messages go than were ready; //TOPIC of topics whose pause has an end; / of the
//	                                 schedules; =TOPIC NAME of groups of which nobody may be left; @TOPIC of topics that are copied into
//	                                 their branches → ms of the end of the first lease; ms when it lets more go; ms of that end, or
//	                                 earlier; ms when the first of them is to be looked at, or earlier; ms when nobody was left; ms from
//	                                 which on there is something to copy
//	bridge                  string   position up to which broadcasts were passed on to NATS
//	secret                  string   what the daemons of a store sign with: settle tokens of NATS, cookies of the console
//	logouts                 zset     logins to the console that ended before their time; it has a time to live → ms until which their
//	                                 cookies would be good
//	pushes                  hash     pushes, in the first shard; as a channel, the name of one that was changed → JSON, see Push; of *,
//	                                 how often they were changed; of *NAME, of one that fails, or is closed, ms when it is asked next, of
//	                                 this -ms when it was closed, and the last answer, of one to NATS ms, a subject and the stream that
//	                                 stores it
//	schedules-due           zset     TOPIC:NAME of all schedules → ms at which the carrier looks at it: it is to be filled then; inf:
//	                                 it is paused, or at its end
//	schedules:TOPIC         hash     names of schedules → state: NAME=NUMBER of each, a space before it: revision, cursor, fell, made,
//	                                 missed, taken, paused, refused, unread; behind a newline, with a space before each, SECONDS,DUE,AT
//	                                 of the last 64 occurrences that were made: its time, when its message is due, and when that was
//	                                 made, both in ms, AT 0 if the id was in use
//	rules:TOPIC             hash     names of schedules → JSON of the rule, a newline, and the record of an occurrence without its
//	                                 times
//	relayed                 hash     ids of outboxes → TOKEN BATCH, a newline, and SEQ:CALLED of the rows of that batch that were
//	                                 taken, called in us, a space between: see relay.lua; from format 10 on
//	mark                    string   nothing; it is written behind a call that replicas confirm
//	room:SHARE              string   ms until which less than that share of memory is surely in use; 0: it is in use
//	carrier                 string   token of the elected carrier, EPOCH SINCE LEASE NAME; its time to live is the lease
//	epoch                   string   how many elections there were
//	standbys                hash     names of the carriers that stand by, of a store of several shards → HELD NOW: how many shards it
//	                                 carries, and when it said so, in ms
//	nudge                   channel  the new earliest due ms, for the carrier
//	vacant                  channel  the carrier stepped down: nothing, or the name of the one that is to take over
//	beat                    channel  the heartbeat: epoch, ms, id of the store, bell, ready topics with an empty waiting list
//	ended                   channel  member of a message that ended and was awaited
//	here:SUBSCRIBER         channel  member that a worker of that name is to stop, which may have it; whoever is subscribed to it is
//	                                 there
//	inbox:SUBSCRIBER        channel  topic to claim from
//	hands:SUBSCRIBER        channel  of one that takes hand-overs, as inbox; or TOPIC NOW RECEIPT DUE USED LEASE ID, a newline, the
//	                                 record
//	name:LISTENER           channel  nothing; there may be broadcasts to take
//	wakes                   channel  TOPIC N of a store of several shards: how many were made ready
//	PREFIX:wake:TOPIC       channel  how many were made ready
//	PREFIX:broadcast:TOPIC  channel  body
//	PREFIX:dead:TOPIC       channel  {"id","reason","attempts"}
package script

// Package store is the protocol: what Bellhop keeps in Redis, and every way in
// which that changes. No other package names a key, runs a script or reads a reply.
//
// The package is for this module alone: notify, carrier, subscribers, the daemon
// and the command import it. It promises no compatibility: names, keys and scripts
// change from version to version. Other programs use notify, carrier and
// subscribers.
//
// To read it, begin with the diagram and the table below. Then follow one message:
// its publish (publish.go and script/lua/shared/enter.lua), the carrier's call that makes
// it ready (carry.go, shared/due.lua), its claim (claim.go, shared/claim.lua) and the end of its
// lease (settle.go). Below this package, reach reaches Redis, calls transitions and keeps
// subscriptions; script has the names of all keys and the text of the transitions; record
// says what a message is; and fault what is wrong with an input. Each imports those behind
// it alone.
//
// # States
//
// A [Store] is one Redis and one prefix in it. A [Shard] of it holds topics with
// all that belongs to them. Each of its methods is a transition: one script,
// atomic, bounded to about a millisecond, by Redis's clock. A message is in one
// place at a time:
//
//	   ┌────────────────────┬─── due alone: handed over ────┐
//	   │       later        │    due            claim       ▼   ack
//	publish ─────────▶ scheduled ─────▶ ready ─────────▶ leased ─────▶ gone
//	   │                 ▲    ▲          ▲ ▲              │ │ │
//	   │ due             │    └── nack ──┼─┼──────────────┘ │ │
//	   └─────────────────┼───────────────┘ └── release ─────┘ │ last attempt,
//	                     │ requeue             lease ended    │ refused for good
//	                   dead ◀─────────────────────────────────┘
//	                     ▲
//	                     └── scheduled, ready or blocked: time to live over
//
// A message that becomes due alone, while a subscriber waits and nothing older of its
// topic is ready, is handed over: publish or carry lease it at once, for a second, and
// send it with the ring. The subscriber confirms that by extending the lease. If it
// does not, the message becomes ready without an attempt used up; a tenth of that second
// counts from when a carrier first finds it over, since Redis may have stood still. An
// inbox that leaves gives back what is on its way to it. What is ready is
// claimed, never handed over: so after one such second a claim follows, and a message
// that kills each of its subscribers comes to its end. An inbox that was handed a
// message gets no other of the topic until its subscriber claims, and names that
// hand-over: it has received it and has free hands. Otherwise it claims nothing for the
// second, since the one on its way is older.
//
// A claimer's caller gets the receipt that the confirmation will give, without waiting
// for that: it settles the message before the confirmation, too.
//
// A message that is due at once becomes ready, unless something of its topic is
// overdue: then it waits behind that in the scheduled set. A broadcast waits in a place
// of its own, and the carrier appends it to the log of its topic. cancel removes a
// message from any place but a lease; of a leased one it may note that it is to be removed
// when the lease ends in any way but an ack, see [Shard.Stop]. reschedule moves one between
// scheduled and ready.
//
// Of the messages that have a key one has its seat: it is ready, leased or put off. What is
// due and finds no seat free is blocked: it stands in the topic's line until the one before
// it has ended, or as the settings of the topic say. So the ready set holds only what may go
// now, and a claim looks at no key:
//
//	             due, a seat is free
//	scheduled ───────────────────────▶ ready ───▶ leased ───▶ gone, dead, or put off:
//	    │                                ▲                         the seat is free
//	    └── due, none is ─▶ blocked ─────┘
//	                           called up: first of its key in the line
//
// A call takes note of the seats that are left, and gives them away when all else is done
// (script/lua/shared/seats.lua). A script that stops before leaves a seat of nobody, which
// the housekeeping finds.
//
// A message in a group has an entry in grouped:TOPIC as long as it has a record that names the group, written before that and removed
// behind it, last in a call; so has each copy of it in a branch of TOPIC. The callback of a group is an ordinary scheduled message, due at the end of all times:
//
//	scheduled ── nobody is left: = in alarms ──▶ carry looks: nobody is left ──▶ due now, and the group complete
//
// So what stops half way leaves an entry of nobody, which the housekeeping finds: a callback comes late, never early (script/lua/shared/groups.lua and
// callbacks.lua).
//
// Each arrow is a pair of functions in script/lua/shared that all scripts use: one puts
// a message into its new place, the other takes it out of the old one.
//
//	place        into it                      out of it
//	scheduled    put_scheduled                take_scheduled, take_first_scheduled, index_scheduled
//	put off      put_off_scheduled            index_scheduled, once after all of a call
//	ready        put_ready, then ring last    take_ready, take_oldest_ready, index_ready
//	whole        put_all_ready: of a topic, from scheduled to ready; then ring last
//	by its time  Enter.place: each way in, and a release; then ring last
//	blocked      Seats.put_ready, which makes ready what has a seat   Seats.leave, Seats.settle
//	leased       put_leased; put_handed, send_handed last   take_leased
//	broadcasts   put_broadcasts               take_first_broadcasts, once carry has appended them to a log
//	dead         bury, put_dead               take_dead
//	gone         forget, forget_from, remove_dead
//
// A script puts a message into its new place before it takes it out of the old one,
// and writes what leads to a message before the message: then a script that Redis
// stops half way, for a right that is missing, loses nothing. It updates counters
// and indexes after that, and rings subscribers last.
//
// # Schedules
//
// A [Schedule] of a topic recurs: the elected carrier has [Shard.FillSchedules] make its occurrences, ordinary messages, ahead of
// their times. Package calendar computes these, in the process; scripts know no calendar. How far a schedule is stands in
// its [ScheduleState]. A change, a pause and a delete withdraw, in the same step, what was made ahead and waits as it was
// made; what was cancelled, moved, leased or ended meanwhile stays noted, and its time is never made again.
//
// # Shards
//
// A store of one shard has all keys under the tag {0}. One of several has those of shard k
// of n under {k/n}, perhaps with a suffix that puts its slot into the k-th part of all
// slots, and under {0} only the format key: the root. A topic's shard is its CRC-32 modulo
// n. The format keys of the root and of each shard name n, and every script compares its
// own with what the process works by. A process learns n once, from the root or its
// configuration; the first call on a shard that has no format key yet founds the root, then
// the shard. What a store has only once is in the first shard. Where there are several, the
// channels carry the tag, too, and all is published by SPUBLISH: a process has one
// connection for each server that it listens to. A script says what differs by SHARDED.
package store

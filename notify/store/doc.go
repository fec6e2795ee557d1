// Package store is the protocol: what Bellhop holds in Redis, and every way in
// which that changes. Nothing outside it names a key, runs a script or reads a
// reply.
//
// A [Store] is one Redis and one prefix in it. A [Shard] of it holds topics with
// all that belongs to them; each of its methods is a transition: one script,
// atomic, bounded to about a millisecond, by Redis's clock. A message stands in
// one place at a time:
//
//	           later             due            claim           ack
//	publish ──────────▶ schedule ─────▶ ready ─────────▶ leased ─────▶ gone
//	   │                 ▲    ▲          ▲ ▲              │ │ │
//	   │ due             │    └── nack ──┼─┼──────────────┘ │ │
//	   └─────────────────┼───────────────┘ └── release ─────┘ │ last attempt,
//	                     │ requeue             lease ended    │ refused for good
//	                   dead ◀─────────────────────────────────┘
//	                     ▲
//	                     └── schedule or ready: time to live over
//
// What is due at once stands in the ready set, unless something of its topic is
// overdue: then it waits behind that in the schedule. A broadcast waits in a place
// of its own, and its carry appends it to the log of its topic. cancel takes a
// message out of any place but a lease; reschedule moves one between schedule and
// ready.
//
// Each arrow is a pair of functions in lua/shared that all scripts use: one puts
// a message into its new place, the other takes it out of the old one.
//
//	place        into it                      out of it
//	schedule     put_scheduled                take_scheduled, settle_schedule
//	ready        put_ready, then ring last    take_oldest_ready, settle_ready
//	leased       put_leased                   take_leased
//	broadcasts   put_broadcasts               carry, which appends to a log
//	dead         bury, put_dead               take_dead
//	gone         forget, remove_dead
//
// A message is put into its new place before it is taken out of the old one, and
// what leads to a message is written before the message: a script that Redis
// stops half way, for a right that is missing, loses nothing. Counters and
// indexes are settled behind that, and subscribers are rung last.
//
// # Scripts
//
// lua/NAME.lua is a transition. It reads its own arguments from ARGV, and has the
// keys of the table below by their names; those of a topic are made by functions
// such as ready_of(topic), because topics are learned in scripts: all keys of a
// shard carry one hash tag. It gets those keys and those functions of lua/shared
// that it uses, and no others: each costs a call some 0.1 us.
//
// # Keys
package store

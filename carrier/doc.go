// Package carrier makes scheduled messages ready when they are due, sends broadcasts,
// and rings the subscribers that wait. Without a carrier nothing becomes due.
//
// Any number of carriers may run on one store; one is elected and the others
// stand by:
//
//	c, err := carrier.New(store, carrier.Options{})
//	...
//	err = c.Run(ctx) // until ctx ends
//
// # Election
//
// The elected carrier holds a lease in Redis: a key with a time to live, and a token
// that is unique to the election. The script that moves messages compares the token
// in the same step, so a late call of a carrier that was paused or cut off past its
// lease moves nothing (a fencing token: M. Kleppmann, "How to do distributed locking",
// 2016, enforced by the storage itself). Each heartbeat renews the lease. A carrier
// that stops gives up its lease and tells the standbys, of which one takes over within
// milliseconds. One that is killed is replaced when its lease ends.
//
// # Shards
//
// Each shard of a store has an election and a lease of its own, and a Carrier carries
// every shard for which it is elected. Carriers share the shards out evenly, and nobody
// coordinates that: a carrier that loses an election notes in the shard how many others it
// carries. Whoever carries the shard sees that with its beat, and hands the shard over to
// one that carries at least two fewer, one a second. A Carrier that stops hands each of
// its shards to those that carry the fewest; the one that is named is elected within
// milliseconds, and others wait 100 ms for it. After a kill those that carry fewer stand
// for election first. While all are even a shard costs a call a second, and a look of each
// standby when the lease may have ended.
//
// # The loop
//
// One script call moves a bounded batch of due messages, hands over those that are
// alone in their topics, returns messages whose lease expired, buries those that
// outlived their time to live, rings exactly the subscribers that are needed,
// appends due broadcasts to the logs of their topics and publishes them unless they
// have expired, and answers when the next thing is due. The carrier sleeps until
// then, until a nudge announces an earlier due time, or until its heartbeat. After a
// rest it calls a little ahead, too, since Redis answers the call in time faster
// then. If Redis cannot be reached the loop goes on: the carrier logs that within
// three seconds, and again when Redis is back ([Options.Logger]). What happens to many
// shards at once is summed up in the log.
//
// # A backlog
//
// If more is due than one call carries, as after an outage, the next call follows at
// once, and each takes Redis about a millisecond. The topics that have something due
// get equal shares of a call, and what one does not need goes to the others; each
// topic is carried in the order of its due times. If there are more topics than a
// call can serve, it serves half of them from those furthest behind, which ends the
// backlog, and half from those least behind, which therefore do not notice it. Broadcasts,
// expired leases and expired messages have shares of their own in every call.
// Broadcasts are sent in the order of their due times over all topics, so those of
// one topic do wait for those of another.
//
// # Schedules
//
// An occurrence of a schedule is an ordinary message that is made ahead of its time. The elected carrier makes the next
// two of each schedule, and all of the next minute: its process computes the times, and one call, fenced by its lease
// and by the schedule's cursor and revision, publishes them and moves the cursor. A takeover therefore finds what is due
// next in the scheduled set. Whichever process dies, each time is made once:
//
//   - Before that call nothing is changed. The carrier's alarm rings again a second later, for whoever is elected then.
//   - Behind it the cursor is moved, so no other call makes the same, whatever became of the message meanwhile.
//   - A carrier that was paused or cut off past its lease makes nothing: the call compares its token.
//   - A schedule that was changed in between has another revision, and the call makes nothing of it.
//
// The call is made when the alarm of the schedules is due, an entry among what the carrier looks at anyway: without
// schedules nothing is asked, and with any number of them at rest no call is made.
//
// If the alarm is late, since no carrier was elected for a while, or the clock was set forward, the carrier settles what
// was missed before it carries anything but its beats. Each occurrence that is later than the grace of its schedule, and
// was never made or still waits as it was made, was missed; what waits is withdrawn. Of these the latest is made, or none,
// or all that are not too old. What is late by less is made, or carried as it is.
//
// The times of a rule with a zone are those of the carrier's rules of time zones. A carrier whose rules are newer than
// those by which schedules were filled last has what was made withdrawn, and makes it anew; one with older rules does not.
//
// # Keeping house
//
// Beside the loop, and fenced by the same lease, a small step every now and then
// removes dead letters that are too old or too many ([Options.KeepDeadAge],
// [Options.KeepDeadCount]), messages that succeeded and are kept, if those are too many
// ([Options.KeepDoneCount]) or their time is over, and logs in which everything is too old
// ([Options.KeepAge]), and forgets topics of which nothing is left
// ([Options.KeepTopics]): their counters, and the position of their last broadcast.
// A listener that was away for that long is not told of a gap in such a topic. While
// there is nothing to do or to check, steps are [Options.Sweep] apart.
//
// # Watching it
//
// [Carrier.States] says at any time what a carrier does for each shard, and [Carrier.Alive] reports a
// loop that is stuck to a watchdog. [Options.OnCarried] gets how late each message was
// made ready, and whether only the heartbeat found something whose nudge was lost.
package carrier

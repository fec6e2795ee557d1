// Package carrier moves messages that are due, and rings who waits for them.
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
// The elected carrier holds a lease in Redis, a key with a time to live and a
// token that no other election shares. The script that moves messages compares
// the token and renews the lease in the same step, so a carrier that was paused
// or cut off past its lease moves nothing with its late call (a fencing token:
// M. Kleppmann, "How to do distributed locking", 2016, enforced by the storage
// itself). A carrier that stops gives up its lease and tells the standbys, which
// takes over in milliseconds; one that is killed is replaced when its lease ends.
//
// # The loop
//
// One script call moves a bounded batch of what is due, returns leases that
// expired, buries what outlived its time to live, rings exactly the subscribers
// that are needed, appends broadcasts that are due to the logs of their topics and
// tells who listens, and answers when the next thing is due. The carrier sleeps
// until then, until a nudge says that something came to be due before that, or
// until its heartbeat. A Redis that is away never ends the loop: that is logged
// within three seconds, and so is its end ([Options.Logger]).
//
// # A backlog
//
// Where more is due than one call carries, as after an outage, the next call
// follows at once, and each is kept within a millisecond of Redis's time. The
// topics that have something due have equal shares of a call, and what one does
// not need goes to the others; each topic is carried in the order of its due
// times. Where there are more topics than a call can serve, half of its places
// are for those that are behind the most, which ends the backlog, and half for
// those that are the least, so that nobody else notices it. Broadcasts, leases that
// ended and messages that expired have shares of their own in every call;
// broadcasts go out in the order of their due times over all topics, so those of
// one topic do wait for those of another.
//
// # Keeping house
//
// Beside the loop, and fenced by the same lease, a step every now and then removes
// dead letters that are too old or too many ([Options.KeepDeadAge],
// [Options.KeepDeadCount]), and forgets topics of which nothing is left
// ([Options.KeepTopics]): their counters, and the position of their last broadcast.
// Whoever was away for that long is not told what he missed in such a topic. A step
// is small, and where there is nothing to do the next one comes [Options.Sweep] later.
//
// # Watching it
//
// [Carrier.State] says at any time what a carrier does, and when its loop last
// came around; [Carrier.Alive] reports one that is stuck to a watchdog. [Options.OnCarried] is told
// how late each message was that it made ready, and when its heartbeat found what
// a nudge should have told of.
package carrier

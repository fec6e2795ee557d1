package reach

// An Event is what [Redis.Subscribe] calls on with.
type Event struct {
	Kind    EventKind
	Channel string // of a Received
	Payload string // of a Received or a Beat
	Err     error  // of a Broken

	shard *shard // where it happened; nil: the number of shards is not known yet
}

// Shard returns the shard to which an event belongs.
func (e Event) Shard() Shard { return e.shard.handle() }

// EventKind tells events apart.
type EventKind int

// The kinds of events.
const (
	Subscribed EventKind = iota + 1 // the subscription is up: check for what was published before
	Received                        // a message on one of the channels
	Beat                            // the carrier's heartbeat
	Silent                          // three beats were missed: no carrier runs, or the connection is dead; it is renewed, and others that were as silent are given up
	Broken                          // the connection failed; it is renewed
)

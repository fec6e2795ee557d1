// Package notify says what a Bellhop message is and sends it.
//
// A message has a topic, an id, a body and a due time. It waits in Redis until
// the elected carrier (package carrier) finds it due, and is then handed to one
// worker of its topic (package subscribers):
//
//	store, err := notify.Open(notify.Config{URL: "redis://127.0.0.1:6379"})
//	...
//	pub, err := notify.NewPublisher(store)
//	...
//	_, err = pub.Publish(ctx, notify.Message{
//		Topic: "order.timeout",
//		ID:    "order-4711",
//		Body:  []byte(`{"order":4711}`),
//		Delay: 30 * time.Minute,
//	})
//
// A broadcast, sent by [Publisher.Broadcast], goes to everyone who listens instead.
// An [Inspector] lists and counts messages, sets and pauses topics, and deals with dead
// letters and named listeners.
//
// # Guarantees
//
// A message whose publish was acknowledged is delivered at least once: until it
// is acknowledged, cancelled, expired or dead. It is never handed out before
// its due time by Redis's clock, which is the only clock: a delay is added to
// it inside Redis, so the clocks of publishers do not matter. A due time in the
// past is that of the publish, so that nothing is late by what was over before;
// a time to live counts from the one that was asked for, and broadcasts keep theirs.
//
// Publishing is idempotent by id. An id that is in use is refused with
// [ErrExists], so a publish whose answer was lost may be repeated safely.
//
// A publish is refused with [ErrFull] before Redis has no memory left: from a
// share of its maxmemory on, [Config].MemoryShare. All else has the rest, so
// that messages are still handed out, settled and cancelled, which makes room.
// Without a maxmemory nothing is refused. While Redis may evict what it holds,
// since its maxmemory-policy was changed, a publish is refused with [ErrUnfit].
//
// # Failovers
//
// A replica of Redis that takes the master's place may lack what the master
// answered last. With [Config.WaitReplicas] what is promised is answered only
// when so many replicas have it: that a message is published, cancelled,
// rescheduled, acknowledged, given back, requeued or purged, or a topic paused.
// Where they do not confirm it within a second the error is [ErrUnreplicated]: it
// is done, but a failover may undo it, and to make the same call again is safe.
//
// What the carrier moves, a claim, a release and the extension of a lease wait
// for nobody. A failover that forgets them puts a message back to where it was, scheduled,
// ready or leased, in the one transition that all its places changed in. So it is not lost,
// but may come twice; and the receipt of a claim that was forgotten is refused,
// so that nobody takes for done what will come again.
//
// Connections to a master that was replaced are closed when Sentinel tells so,
// or when it answers READONLY or MOVED, those that listen included.
//
// # Where things stand
//
// A [Store] is one Redis and one prefix in it; the other packages take the same
// Store. Package store says what it holds there, and how that changes. What stands there has a format:
// a store of another one is refused with [ErrUnfit]. [Inspector.Export] writes all
// its messages as lines, and [ParseExported] reads them, to be published elsewhere.
// What there is to be seen of many topics is read from indexes, by name
// ([Inspector.Topics]) or by what stands out ([Inspector.Survey]).
package notify

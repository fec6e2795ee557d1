// Package notify publishes messages that are delivered later, and inspects and
// operates the store in which they wait.
//
// A message has a topic, an id, a body and a due time. It waits in Redis until the
// elected carrier (package carrier) makes it ready. Then one worker of its topic
// (package subscribers) handles it:
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
// [Publisher.Broadcast] sends a message to everyone who listens instead. An
// [Inspector] lists and counts messages, changes settings of topics and pauses them,
// and works on dead letters and named listeners.
//
// # Guarantees
//
// At least once: a message whose publish was acknowledged is delivered until it is
// acknowledged, cancelled, expired, dead, or dropped as it asked.
//
// Never early: no message is handed out before its due time by Redis's clock, the
// only clock. Redis adds a delay itself, so publishers' clocks do not matter. A due
// time in the past becomes the time of the publish, so that no message starts late.
// Its time to live still counts from the due time that was asked for. A broadcast
// keeps a due time in the past.
//
// Publishing is idempotent by id while the message has not ended: an id in use is refused
// with [ErrExists], so it is safe to repeat a publish whose answer was lost. UniqueFor
// keeps the id taken for longer: a message that is due at once may end before the repeat.
//
// A publish is refused with [ErrFull] once Redis uses the share of its maxmemory that
// [Config].MemoryShare allows. All other calls may use the rest, so that messages are
// still handed out, settled and cancelled, which frees memory. Without a maxmemory
// nothing is refused. If the maxmemory-policy is changed to one that evicts keys, a
// publish is refused with [ErrUnfit].
//
// # Failovers
//
// A replica that replaces the master may lack the master's last answers. With
// [Config.WaitReplicas] the store answers only when that many replicas confirm a
// publish, cancel, reschedule, acknowledgement, rejection, burial, requeue or purge,
// or a change of settings such as a pause. If they do not within a second, the error
// is [ErrUnreplicated]: the change is made, a failover may undo it, and it is safe to
// make the same call again.
//
// Claims, releases, extensions of leases and what the carrier moves do not wait. A
// failover that forgets one puts the message back as a whole: scheduled, ready or
// leased. So no message is lost, but one may come twice. The receipt of a forgotten
// claim is refused, so that nobody takes a message for done that will come again.
//
// The store closes connections to a replaced master, subscriptions included, when
// Sentinel reports the new one, or when the old one answers READONLY or MOVED.
//
// # One store
//
// A [Store] is one Redis and one prefix in it; all packages take the same Store.
// Package store documents its states, keys and transitions. What it may hold has a
// format number, which bellhop upgrade raises. A store of a format that this version
// does not know is refused with [ErrUnfit]: move it by
// [Inspector.Export], which writes all messages as lines, and [ParseExported], which
// reads them for a publisher to another store.
//
// A store with many topics is read from indexes: by name ([Inspector.Topics]), or by
// what stands out ([Inspector.Survey]).
//
// # Glossary
//
// What is sent:
//
//   - message: a body for one worker, with a topic, an id and a due time
//   - broadcast: a message for everyone who listens to its topic
//   - topic, id: what a message is filed under, and its name in the topic
//   - member: TOPIC:ID, the name of a message in Redis
//   - due: the time from which a message may be handed out
//   - branch, copy: TOPIC@NAME, the part of a topic that one of several handlers has; a
//     message in one, of which the original was acknowledged when all were made
//   - key: what a message is about; of the messages of a key one goes at a time
//   - JSON line: one message as a line of JSON
//
// What a message goes through:
//
//   - scheduled, ready, blocked, leased, dead: its states; done: it succeeded, and is kept
//   - seat: the right of a message to be the one of its key that is ready or leased
//   - blocked, line: due without a seat; where the blocked messages of a topic stand, by
//     key, due time and id
//   - scheduled set, ready set: the scheduled members of a topic by due time; its ready
//     ones, oldest first
//   - publish, cancel, reschedule: what a sender does
//   - claim: take ready messages under a lease
//   - hand over: lease a message that becomes due alone to a subscriber that waits, and
//     send it with the ring; the subscriber confirms that, or the lease ends after a second
//   - lease, receipt: a claim's right to a message until a deadline, and the number
//     that proves it
//   - acknowledge (ack): end a lease because the message is done
//   - reject (nack): end a lease because handling failed; the message comes again
//     later
//   - bury: end a lease because the message must never come again; it is dead
//   - release: end a lease without an attempt; the message is ready again at once
//   - settle: acknowledge, reject, bury or release
//   - extend: prolong a lease, whose receipt stays the same
//   - attempt: a delivery that counts; 1 is the first
//   - backoff: the delay before the next attempt, random below a bound that doubles
//   - expire: reach the end of a time to live, or of a lease
//   - dead letter: a message that died, kept with the reason; requeue makes it ready
//     again, purge removes it
//
// Who takes part:
//
//   - sender: a program that publishes
//   - carrier: the mover. One is elected for a term, whose number is its epoch; others
//     stand by
//   - carry: move due messages to their ready sets, and due broadcasts to their logs
//   - beat: the heartbeat of the elected carrier, each second
//   - nudge: wake the carrier because the head of a scheduled set changed
//   - ring: wake one waiting subscriber by a message to its inbox
//   - inbox, waiting list: the channel of one subscriber; the inboxes of a topic that
//     wait to be rung, longest first
//   - subscription: the pub/sub connection that receives rings and beats
//   - worker, handler: what handles messages, and its function
//   - claimer: what claims messages by calls, without a handler
//   - listener: what receives broadcasts
//   - named listener: a listener whose positions are kept in Redis; processes that
//     share the name share its broadcasts
//   - log, position, gap: the broadcasts that a topic sent; a place among them; what
//     was removed before a listener read it
//   - gateway: HTTP or NATS in the daemon
//
// Where it is kept:
//
//   - store: one Redis and one prefix in it
//   - shard: a part of a store under one hash tag: some of its topics, with a carrier of their own
//   - prefix, format: what all keys begin with; the number of their layout
//   - settings: what holds for the messages of a topic, such as lease and attempts;
//     the store's value where a topic has none, else the default
//   - fault: an invalid field of an input, with its remedy
package notify

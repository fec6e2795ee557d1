// Package history records the operations of the processes of a test, and checks
// afterwards that they broke no promise of Bellhop.
//
// Each process writes a history file of its own (Log): records as lines of JSON, each
// appended by one write, so that kill -9 loses none that was written. An operation has two
// records: a Call before it begins, and an end. The end is OK, No (refused for certain,
// nothing was changed) or Unknown (a timeout or a broken connection: it may have happened,
// or may happen later). A killed process leaves calls without an end, which count as
// Unknown. An event, such as the start of a process, has one record.
//
//	log, err := history.Open("worker-1.jsonl", "worker-1")
//	…
//	claim := log.Call(history.Record{Op: history.Claim, Topic: "orders", Lease: 1000})
//	ds, err := claimer.Claim(ctx, "orders", 10, time.Second, 0)
//	for _, d := range ds {
//		claim.Took(history.Record{Topic: d.Topic, ID: d.ID, Due: d.Due.UnixMilli(), Attempt: d.Attempt, Receipt: int64(d.Receipt), Lease: 1000})
//	}
//	claim.End(history.OK, history.Record{Count: len(ds)})
//
// # Two clocks
//
// At is by the clock of the machine, which all processes share. Due, Receipt, Redis and
// Position are by Redis's clock, which differs from it by the offset of a fault. Receipts
// are in µs, due times in ms. The receipt of a claim minus its lease is the time of the
// claim by Redis's clock, to the millisecond: times in promises are compared by that clock
// only. Times of different clocks are compared through the offsets, with some milliseconds
// of doubt.
//
// # Shards
//
// In a store of several shards (Bounds.Shards) a topic is in the shard that its name leads
// to. Positions, epochs and what Redis may forget are compared within a shard; a fault may
// concern some shards only, and what is in others is late by no more than Bounds.Beside.
//
// # Branches
//
// What is published to a topic that has branches (Bounds.Branches) is handled there, as a
// message of each branch. Its publishes, cancels and reschedules are recorded once, of the topic.
//
// # What to record
//
// An id belongs to one message, or each publish of it has a Version, which is in the body:
// then all that is about the body has the same Version. Such a message is never
// rescheduled. Each message of a batch is an operation of its own. The fields of each
// operation, beside At, Process, N and Op:
//
//   - Publish, Broadcast: Topic, ID, Key, Busy, TTL, Limit, Lease, Try, Fail, LateAfter, LateMode; of
//     one with a Version: Mode, After, MaxWait, Unique. OK: Due as acknowledged, State,
//     Outcome, Previous. One that was kept or refused ends with No. Group, or AfterGroup with Go, of one without a Version.
//   - Cancel, CancelNext: Topic, ID; Stop; OK: State it was in. Reschedule: Topic, ID; OK: Due.
//   - Claim: Topic, or Topics; Lease, Count, the most; Now if it acknowledges. Before its
//     end, an event Take for each claimed message, with the same N: Topic, ID, Due, Attempt,
//     Receipt, Lease. With Now, the Receipt is the time of the claim, and the Lease 0.
//   - Handle, the run of a handler of a Subscriber, or of anything else that gets messages
//     which others claim and settle: Topic, ID, Due, Attempt, Receipt, Lease; Handed if it
//     was handed over; Hands if the process takes only so many at a time. The end is OK
//     if it succeeded, No if it failed, Unknown if it was stopped, and is recorded before
//     the handler returns or answers. What the others then do, such as acknowledge, is not
//     recorded, but for State, dead if the answer is to bury it. Target: the process of the
//     others, if it is not this one. A request to a URL: Webhook, its webhook-id; Forged if it is
//     not signed as its push says.
//   - Ack, Nack, Snooze, Bury, Release: Topic, ID, Receipt. Nack and Snooze OK: State, Due;
//     State cancelled of one that was to be. An
//     Ack that has the message kept: Keep, Result; OK: Forgotten if memory was short.
//   - Extend: Topic, ID, Lease, Was, the receipt; OK: Receipt, the new end of the lease.
//   - Requeue: Topic, ID, an operation for each message that may be requeued.
//   - Await: Topic, ID, of an id without a Version; Wait. OK: State, gone if nothing is kept;
//     of one that is done: Result. One that was not there at first ends with No.
//   - Listen, an event when a listener is up: Listener, Name if it has one, Pattern,
//     Position from which on it misses nothing, or the Bookmark of one of several shards;
//     Count, the concurrency of a named one.
//   - Receive: Listener, Name, Topic, ID, Position, Due, Attempt; Bookmark of one of several
//     shards, from which the Position is read if it is missing. Without a name it ends OK.
//     Target: the process that reads the logs, if it is not this one.
//   - Push, a request to a URL for a broadcast: Topic, ID, Attempt, Webhook, Forged as of Handle. The
//     end is OK if it is answered so that the broadcast is done, and is recorded before the answer.
//   - Gap: Listener, Name, Topic, Was (after this position), Position (up to this one).
//   - Store, an event at the end for each message of the JetStream stream, in its
//     order: Topic, ID.
//   - Archive, an event at the end for each row of the archive, and for each entry that still
//     waits for it: Topic, ID, State, Redis, the end of the message; Version; Result.
//   - Fault and Heal: Kind, Target, and one N for both, which no other fault has
//     (Operation.Heal). Offset if the fault sets Redis's clock, in both; Loss if Redis may
//     forget; Epoch if the target carries, or Epochs if it carries several shards; Shards
//     if it concerns only some. These may be in the end instead. A fault that
//     heals by itself has a Heal, too. Error, of the Fault, may say more about it.
//     Waited beside Loss: a replica takes over, and calls wait for replicas. No Publish,
//     Broadcast, Cancel, Reschedule, Requeue, Ack, Nack or Bury that ended OK is forgotten
//     then; other operations until the Heal may be. Halfway: until the Heal a call may stop
//     in the middle, so a broadcast may be sent again.
//   - Start, Stop, Kill: events of the harness about a process: Target, Epoch if it carries.
//   - Beat: Shard, Epoch, Redis, as an observer receives them.
//   - Drained, an event of the harness: it has waited until all due messages are settled
//     and all broadcasts received.
package history

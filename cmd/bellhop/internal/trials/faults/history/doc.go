// Package history records what the processes of a test did and what became of
// it, and checks afterwards that no promise of Bellhop was broken.
//
// Each process keeps a history file of its own (Log): lines of JSON, appended
// with one write each, so that kill -9 loses nothing that was written. An
// operation has two records: a Call before it begins, and an end: OK, No (it
// was refused for certain and changed nothing) or Unknown (a timeout, a broken
// connection: it may have happened, and may still happen later). A process that
// is killed leaves calls without an end, which count as Unknown. What has no
// duration, such as the start of a process, is one record, an event.
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
// At is by the clock of the machine, which all processes share; Due, Receipt,
// Redis and Position are by Redis's clock, which is that of the machine and
// the offset of a fault; a receipt is in µs, due times are in ms. The receipt of
// a claim, less its lease, is the time of the claim by Redis's clock, exactly to
// the millisecond: what promises speak of is compared by that alone. The order of what is known by different clocks is judged through
// the offsets, with some milliseconds of doubt.
//
// # What to record
//
// An id is used for one message only. A batch is recorded as an operation for
// each message. In detail, beyond At, Process, N and Op:
//
//   - Publish, Broadcast: Topic, ID, TTL, Limit. OK: Due as acknowledged.
//   - Cancel: Topic, ID; OK: State it was in. Reschedule: Topic, ID; OK: Due.
//   - Claim: Topic, Lease; before its end an event Take for each message that it
//     brought, with the same N: Topic, ID, Due, Attempt, Receipt, Lease.
//   - Handle is a handler of a Subscriber, and whatever else is given messages that
//     others claim and keep: Topic, ID, Due, Attempt, Receipt, Lease. It ends OK
//     when it is done, No when it failed, Unknown where it was told to stop; the end is recorded
//     before the handler returns or answers. What others then do, such as to acknowledge it, is not recorded.
//     Target: the process of those others, if it is another one.
//   - Ack, Nack, Bury, Release: Topic, ID, Receipt. Nack OK: State, Due.
//   - Extend: Topic, ID, Lease, Was, the receipt so far; OK: Receipt, the new one.
//   - Requeue: Topic, ID, as an operation for each message that may be requeued.
//   - Listen, an event when a listener listens: Listener, Name where it has one,
//     Pattern, Position from which on nothing is missed; Count, the hands of a named one.
//   - Hear: Listener, Name, Topic, ID, Position, Due, Attempt. One of a Listener without a name ends OK.
//   - Gap: Listener, Name, Topic, Was (behind this position), Position (up to this one).
//   - Store, an event at the end for each message of the JetStream stream, in its
//     order: Topic, ID.
//   - Fault and Heal: Kind, Target, and both the same N, which no other fault has
//     (Operation.Heal). Offset where the fault sets Redis's clock, of both; Loss for what may forget; Epoch
//     where the target carries. Both may stand in the end, too. A fault that heals by itself has its Heal, too.
//     Waited beside Loss: a replica takes over, and calls wait for replicas. No Publish, Broadcast, Cancel, Reschedule,
//     Requeue, Ack, Nack or Bury that ended OK is forgotten then; of the rest, what comes until the Heal may be, too.
//     Halfway: until the Heal a call may stop in the middle of what it does; a broadcast that it sends may be sent again.
//     Error, of the Fault, may say more about it.
//   - Start, Stop, Kill: events of the harness about a process: Target, Epoch where it carries.
//   - Beat: Epoch, Redis, as an observer hears them.
//   - Drained, an event of the harness: it has waited until all that is due is settled and heard.
package history

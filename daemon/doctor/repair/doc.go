// Package repair finds what is out of place in the keys of a store, and repairs it
// while carriers and subscribers work:
//
//	summary, err := repair.Run(ctx, store, repair.Options{Apply: true}, func(f repair.Finding) {
//		fmt.Println(f)
//	})
//
// Scripts change all keys of a message in one step, so nothing is ever out of place
// in a store that only Bellhop writes to. Repair is for damage of other origin: a
// key that somebody removed, a partly restored backup, a truncated append-only file,
// another program, a bug of Bellhop.
//
// # What it does
//
// Repair loses nothing that can still be delivered. A place is a topic's scheduled set, its
// ready set, the leased messages, the broadcasts to come, or its dead letters.
//
//   - A record in no place is scheduled for when it was due first, as it says, or made ready
//     if that is past. A broadcast, whose due time is lost, is sent.
//   - A member of a place without a record cannot be delivered, and is removed.
//   - A member of two places stays in the first of these: leased, ready, scheduled,
//     dead. A broadcast to come stays among the broadcasts.
//   - Indexes of topics and listeners, and counters, are set to what they should be.
//   - Who is in a group, and which message waits for it, is made from the records. Meanwhile
//     nothing that waits for a group comes.
//   - Topics keep the settings that can be read.
//   - What belongs to no message is removed.
//
// Each of these is a [Finding] that names the message, the topic or the listener. A key
// of another type or of another program, and a record whose name is not TOPIC:ID, are
// findings, too, but are never changed.
//
// A subscriber of a killed process in a waiting list is no fault: the next ring drops
// it, and so does the carrier's housekeeping.
//
// # How
//
// One script reads, compares and repairs a page of a key, so nothing changes in
// between. A page takes about a millisecond, and is followed by a pause as long as it
// took. Pages are read at different moments, so a fault that appears meanwhile may
// or may not be found. A counter can only be compared with all that it counts at one
// moment: above 4,000 leases or broadcasts to come, counters are left out.
package repair

// Package repair finds what is out of place in the keys of a store, and mends it
// while everything goes on:
//
//	summary, err := repair.Run(ctx, store, repair.Options{Apply: true}, func(f repair.Finding) {
//		fmt.Println(f)
//	})
//
// Scripts change all keys of a message in one step, so in a store that only
// Bellhop writes to nothing is ever out of place. This is for what came about
// otherwise: a key that somebody removed, a backup of which a part was restored,
// an append-only file that was cut short, another program, a fault of Bellhop.
//
// # What it does
//
// Nothing is lost that could still be delivered: a record that stands in no place
// is made ready, or sent if it is a broadcast, as due now, since when it was due
// is not known any more. What stands in a place and has no record cannot be
// delivered, and is removed. What stands in two places stays in the first of
// these: leased, ready, scheduled, dead; a broadcast that waits stays among the
// broadcasts. Sets that tell which topics have messages, and counters, are set to
// what they should be. Of the settings of a topic those stay that can be read. What
// belongs to nothing is removed. Each of these is told by its name.
//
// Who stands in a waiting list and is not there any more, because its process was
// killed, is nothing that is out of place: the next ring drops it, and so does the
// carrier's housekeeping.
//
// A key of another type where one of Bellhop's should be, a key of another
// program, and a record of a name that is none are told, and never touched.
//
// # How
//
// A page of a key is read, compared and mended in one script, so nothing can
// change between. A page is as large as fits into a millisecond or so, and after each
// there is a pause as long as it took. Findings are of different moments, and
// what becomes wrong meanwhile may be found or not. Counters can only be compared
// with all that they count, at one moment; where that is too much for one step,
// more than 4,000 leases or waiting broadcasts, they are left out.
package repair

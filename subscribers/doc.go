// Package subscribers receives messages and broadcasts.
//
// A [Subscriber] runs a handler for each message of its topics and
// acknowledges those that return nil:
//
//	sub, err := subscribers.NewSubscriber(store)
//	...
//	err = sub.Handle("order.timeout", func(ctx context.Context, d *subscribers.Delivery) error {
//		return cancelUnpaid(ctx, d.ID)
//	}, subscribers.HandleOptions{Concurrency: 8})
//	...
//	err = sub.Run(ctx) // until ctx ends
//
// It does not poll: where nothing is ready its inbox is in the waiting list of the
// topic, and is rung. A program that wants to pull uses a [Claimer], the calls
// underneath; with a [Poller], which is a Claimer, too, any number of callers wait for
// messages of any topics over one connection. The Inspector of package notify lists, requeues, purges and
// exports what died.
//
// A [Listener] calls a function for each broadcast of a topic, or of a pattern:
//
//	l, err := subscribers.NewListener(store)
//	err = l.Listen(ctx, "prices.*", func(ctx context.Context, b *subscribers.Broadcast) error {
//		return show(b.Topic, b.Body)
//	}, subscribers.ListenOptions{}) // until ctx ends
//
// What waits says so in the log, by itself, within three seconds: that Redis
// cannot be reached or refuses the password, or that no carrier is heard, so that
// nothing scheduled becomes due. It says so once, and once when it is over. The log
// is [log/slog.Default] where the options name no other one; slog.DiscardHandler
// makes one that is silent.
//
// # Guarantees for messages
//
// At least once: a claimed message is leased, not removed. If the process dies
// the lease expires, and another attempt is made; the lease of a handler that
// takes long is extended while it runs. A message is handled twice only after
// its lease expired, or a connection broke in the middle of a claim or an
// acknowledgement. One that is out of attempts is kept among the dead letters.
//
// Messages of a topic are claimed in the order of their due times. With one
// subscriber of concurrency 1 they are handled in that order, except retries.
//
// # Guarantees for broadcasts
//
// Every listener gets every broadcast that is sent while it listens, once, in
// the order in which they were sent. One whose connection was lost gets what it
// missed when it is back, and one that starts can begin in the past, as long as
// the log of the topic keeps it; what was removed before it was read is reported as
// a [Gap]. Such a listener keeps its position in memory only. To resume after a
// restart, save [Broadcast].Position and pass it to [After].
//
// The place of a listener with a name is kept in Redis instead, and processes that listen under
// one name share what comes: at least once, as with messages. What one holds that
// dies is handed to another when its lease ends; what it gives back, because it
// stops, stalls or returns [NotNow], at once. With one process of concurrency 1
// the order of each topic holds, also behind a retry or a NotNow.
//
// A listener that is slow holds up nobody. It has no queue that could overflow:
// it reads the log at its own pace, from memory while it keeps up with the others
// of its process, else from Redis.
package subscribers

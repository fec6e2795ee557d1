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
// topic, and is rung, or handed the message with the ring. A program that wants to pull uses a [Claimer]: any number of
// callers wait for messages of any topics over one connection. The Inspector of
// package notify lists, requeues, purges and exports dead messages.
//
// A [Listener] calls a function for each broadcast of a topic, or of a pattern:
//
//	l, err := subscribers.NewListener(store)
//	err = l.Listen(ctx, "prices.*", func(ctx context.Context, b *subscribers.Broadcast) error {
//		return show(b.Topic, b.Body)
//	}) // until ctx ends
//
// Whatever waits logs why within three seconds: Redis cannot be reached or refuses
// the password, or no carrier is heard, so that nothing scheduled becomes due. Each
// condition is logged once when it begins and once when it is over. The log is
// [log/slog.Default] unless the options name another one; slog.DiscardHandler makes
// a silent one.
//
// # Guarantees for messages
//
// At least once: a claimed message is leased, not removed. If the process dies
// the lease expires, and another attempt is made; the lease of a handler that
// takes long is extended while it runs. A message is handled twice only after
// its lease expired, or a connection broke, or stood still for a second, amid a claim or an
// acknowledgement. One that is out of attempts is kept among the dead letters.
//
// A message that somebody cancels with a stop ends its handler's context, with
// store.ErrCancelled as the cause. Whatever the handler returns then, the message is
// cancelled; one that returned before is acknowledged.
//
// Messages of a topic are claimed in the order of their due times. With one
// subscriber of concurrency 1 they are handled in that order, except retries and
// messages that were handed over to a subscriber that died.
//
// # Guarantees for broadcasts
//
// Every listener gets every broadcast that is sent while it listens, once, in
// the order in which they were sent. One whose connection was lost gets what it
// missed when it is back, and a new one can begin in the past, as long as the log
// of the topic keeps the broadcasts; what was removed before it was read is reported as
// a [Gap]. Such a listener keeps its position in memory only. To resume after a
// restart, save [Broadcast.Bookmark] and pass it to [After]. A broadcast whose TTL is
// over is left out, by every listener, and is no gap.
//
// The position of a named listener is kept in Redis instead, and processes that listen
// under one name share the broadcasts: at least once, until MaxAttempts have failed; then
// nothing keeps it, but OnGivenUp and the log tell of it. So return [NotNow] while what
// the handler needs is down. What a process
// had leased when it died is handed to another when the lease ends; what it releases,
// because it stops, stalls or returns [NotNow], at once. With one process of concurrency 1
// the order of each topic holds, also behind a retry or a NotNow.
//
// A slow listener delays no other. It has no queue that could overflow: it reads the
// log at its own pace, from memory while it keeps up with the others of its process,
// else from Redis.
//
// # Deaths
//
// The topic $dead.TOPIC tells of the deaths of a topic, with a broadcast for each,
// whatever a message died of:
//
//	err = l.Listen(ctx, "$dead.orders", func(ctx context.Context, b *subscribers.Broadcast) error {
//		return tell(b.Body)
//	}, subscribers.ListenOptions{Name: "undertaker"})
//
// A named listener gets each death since it was registered, at least once, also those
// while none of its processes ran, as long as the log keeps them. The script that
// buries a message adds the broadcast, but only while a name is registered for it, by
// that very topic or by a pattern such as $dead.orders.* or $dead.>: so a listener
// without a name hears of deaths only while there is one. The body is JSON:
//
//	{"topic":"orders","id":"17","reason":"no such order","attempts":3,"died_at":"2026-01-31T09:30:00.123Z"}
//
// Names that begin with $ are the system's. Nobody publishes there, and only a pattern
// that begins as such a name does matches it: neither * nor > does.
package subscribers

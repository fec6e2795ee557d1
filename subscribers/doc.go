// Package subscribers receives messages.
//
// A [Subscriber] runs a handler for each message of its topics and
// acknowledges those that return nil:
//
//	sub, err := subscribers.New(store, subscribers.Options{})
//	...
//	err = sub.Handle("order.timeout", func(ctx context.Context, d *subscribers.Delivery) error {
//		return cancelUnpaid(ctx, d.ID)
//	}, subscribers.HandleOptions{Concurrency: 8})
//	...
//	err = sub.Run(ctx) // until ctx ends
//
// It does not poll: where nothing is ready it stands in its topic's waiting
// list and is rung. A program that wants to pull uses a [Claimer], the calls
// underneath. [DeadLetters] lists, requeues, purges and exports what died.
//
// # Guarantees
//
// At least once: a claimed message is leased, not removed. If the process dies
// the lease expires, and another attempt is made; the lease of a handler that
// takes long is extended while it runs. A message is handled twice only after
// its lease expired, or a connection broke in the middle of a claim or an
// acknowledgement. One that is out of attempts is kept among the dead letters.
//
// Messages of a topic are claimed in the order of their due times. With one
// subscriber of concurrency 1 they are handled in that order, except retries.
package subscribers

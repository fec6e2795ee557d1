package subscribers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Receipt is the end of a lease, in Unix microseconds by Redis's clock, as it was
// when the message was claimed; its last digit tells the lease from the one before. It
// is needed to settle the message, also in another process, and stays good while the
// lease goes on, however often it is extended with [Delivery.Extend]; a receipt of an
// earlier lease is refused. That of a [Handler]'s message is good in the handler alone.
type Receipt int64

// until returns the end of the lease, unless it was extended.
func (r Receipt) until() time.Time { return time.UnixMicro(int64(r)) }

// A Delivery is a message that was claimed. Its methods settle it, once: after that
// they fail with notify.ErrLeaseLost.
//
// The delivery of a [Handler] is settled when the handler returns, unless the
// handler settled it before. Its methods know the receipt of the lease as it was
// extended meanwhile; Receipt is that with which the handler began. When the handler has
// returned they fail with notify.ErrLeaseLost.
type Delivery struct {
	Topic   string
	ID      string
	Due     time.Time // since when it is ready; after a failed attempt, of the new one, while FirstDue stays
	Attempt int       // 1 on first delivery
	Receipt Receipt
	Lease   time.Duration    // that the claim gave
	History []notify.Attempt // of the last attempts that failed, oldest first

	Fence int64 // of a message with a key a number that is greater than those of all deliveries of the key before; else 0

	HandedOver bool // it came with the ring: nobody claimed it. While that is not confirmed, the lease lasts a second and uses up no attempt when it ends
	notify.Record

	ends   Receipt       // of the lease as Extend left it; 0: as Receipt says
	late   time.Duration // see Late
	acked  bool          // by its claim
	worker string        // that claimed it; empty: unknown
	handed bool          // it was handed over, and Receipt is that before the confirmation
	by     settler       // makes its calls
}

// A settler makes the calls of deliveries: that of a Claimer by their receipts,
// that of a handler by its worker, which notes the outcome.
type settler interface {
	ack(ctx context.Context, d *Delivery) error
	ackWith(ctx context.Context, d *Delivery, r notify.AckResult) (forgotten bool, err error)
	nack(ctx context.Context, d *Delivery, n store.Nack) (Outcome, error) // which gets the lease of d
	release(ctx context.Context, d *Delivery) error
	extend(ctx context.Context, d *Delivery, lease time.Duration) error
}

// Outcome is what became of a message that was rejected, or put off.
type Outcome struct {
	State     notify.State // Scheduled or Dead; zero if it was dropped, or cancelled
	Dropped   bool         // it was the last attempt, and the publisher asked for FailDrop: nothing is kept
	Cancelled bool         // it was to be, see store.ErrCancelled: nothing is kept
	Attempts  int          // used up
	Due       time.Time    // of the next attempt

	Forgetful bool // memory was short: the attempt counts, but is not in the message's history
}

// A Death is a message that was buried.
type Death struct {
	Delivery
	Reason   string
	Attempts int // used up
}

// ByBackoff is the delay of a Nack that leaves it to the topic's settings: a
// random wait, whose bound doubles with each attempt.
const ByBackoff time.Duration = -1

// Ack acknowledges the message: it is done and gone. Errors: notify.ErrInvalid, notify.ErrLeaseLost,
// or that of the connection, after which it may or may not be acknowledged.
func (d *Delivery) Ack(ctx context.Context) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.by.ack(ctx, d)
}

// AckWith acknowledges the message, and keeps it as notify.Done with a result for so
// long: its id stays taken, and [notify.Inspector.Inspect] and Await return both. It is
// kept no longer than the store keeps any, and as long at least as its UniqueFor. It
// reports whether the message is forgotten, though it should be kept: memory was short,
// or another one follows it (After), which has its id now. Errors: as Ack's, and a
// notify.Fault for a result that cannot be kept, after which the lease goes on.
func (d *Delivery) AckWith(ctx context.Context, r notify.AckResult) (forgotten bool, err error) {
	if err := errors.Join(r.Check(), d.check()); err != nil {
		return false, err
	}
	return d.by.ackWith(ctx, d, r)
}

// Nack rejects the message: it is due again after the delay, or dead or dropped if that
// was its last attempt. The reason is kept with a dead one, up to 1000 bytes of it.
// Errors: notify.ErrInvalid, notify.ErrLeaseLost, or that of the connection.
func (d *Delivery) Nack(ctx context.Context, delay time.Duration, reason string) (Outcome, error) {
	return d.nack(ctx, store.Nack{Delay: delay, Reason: reason})
}

// Snooze puts the message off: it is due again after the delay, or after a random wait
// by ByBackoff, and no attempt is used up. It is refused, with a notify.Fault of the
// delay, where the message would be due past its time to live; and, with one of the
// attempt, where a message without a time to live was put off 1000 times. Then the lease
// goes on. Errors as Nack's.
func (d *Delivery) Snooze(ctx context.Context, delay time.Duration) (Outcome, error) {
	return d.nack(ctx, store.Nack{Delay: delay, Keep: true})
}

// Bury rejects the message for good: it is dead, also where its publisher asked for
// FailDrop. Errors as Nack's.
func (d *Delivery) Bury(ctx context.Context, reason string) (Outcome, error) {
	return d.nack(ctx, store.Nack{Reason: reason, Bury: true})
}

func (d *Delivery) nack(ctx context.Context, n store.Nack) (Outcome, error) {
	if n.Delay < 0 && n.Delay != ByBackoff {
		return Outcome{}, fault.New("delay", "delay %v: it is negative; use zero or more, or ByBackoff", n.Delay)
	}
	if err := d.check(); err != nil {
		return Outcome{}, err
	}
	return d.by.nack(ctx, d, n)
}

// Release releases the message: it is ready again since its Due, or now
// if that is zero, and no attempt is used up. Errors: notify.ErrInvalid,
// notify.ErrLeaseLost, or that of the connection.
func (d *Delivery) Release(ctx context.Context) error {
	if err := d.check(); err != nil {
		return err
	}
	return d.by.release(ctx, d)
}

// Extend gives the message a lease from now on; the receipt stays the same. A lease of
// zero is that of the message, or else of the topic's settings; in a handler it is the one
// before, by which the subscriber goes on extending. No lease goes beyond the TryTimeout of
// the message: Until tells. With a context of [store.WithProgress] it also says how far the
// work is. Errors: notify.ErrInvalid, notify.ErrLeaseLost, [store.ErrCancelled], after which
// the message is to be released by the end of the lease, which is as before, or that of the connection.
func (d *Delivery) Extend(ctx context.Context, lease time.Duration) error {
	if err := d.check(); err != nil {
		return err
	}
	if err := checkLease(lease); err != nil {
		return err
	}
	return d.by.extend(ctx, d, lease)
}

// checkLease reports what is wrong with a lease; zero is that of the topic's settings.
func checkLease(lease time.Duration) error {
	if lease == 0 {
		return nil
	}
	return fault.Within("lease", "lease", lease, record.MinLease, record.MaxLease)
}

// Late returns how late the message was claimed: from its due time on, or from when
// it had the ClaimOptions.MinAge, to the millisecond, by Redis's clock alone; zero
// where Due is.
func (d *Delivery) Late() time.Duration { return d.late }

// check reports a delivery that was not claimed, or acknowledged by its claim, and an
// invalid topic.
func (d *Delivery) check() error {
	if d.acked {
		return fmt.Errorf("settle %s: it was acknowledged when it was claimed: %w", d.member(), notify.ErrLeaseLost)
	}
	if d.by == nil {
		return fault.New("delivery", "delivery of %q: it was made by hand; use one that was claimed, or Claimer.Delivery", d.member())
	}
	return record.CheckTopic(d.Topic)
}

func (d *Delivery) member() string { return record.Member(d.Topic, d.ID) }

// Until returns when the lease of the message ends, by Redis's clock, unless a
// Subscriber extends it, or a copy of d. A hand-over counts as confirmed, which it is in a
// moment.
func (d *Delivery) Until() time.Time {
	switch {
	case d.ends != 0:
		return d.ends.until()
	case d.handed:
		return d.Receipt.until().Add(d.Lease - record.HandoverLease)
	}
	return d.Receipt.until()
}

// lease returns what settles the message.
func (d *Delivery) lease() store.Lease {
	return store.Lease{Member: d.member(), Receipt: int64(d.Receipt), Handed: d.handed, Worker: d.worker}
}

// extended gives the message the receipt of an extension by an engine, which knows it.
func (d *Delivery) extended(receipt int64) {
	d.Receipt, d.handed = Receipt(receipt), false
}

// extension returns the error of an extension of the lease alone, of which all else is known.
func (d *Delivery) extension(e store.Extended, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("extend %s: %w", d.member(), err)
	case len(e.Lost) > 0:
		return d.lost("extend")
	case len(e.Stopped) > 0:
		return fmt.Errorf("extend %s: %w", d.member(), store.ErrCancelled)
	}
	return nil
}

// lost returns the error of a call for which the lease is lost.
func (d *Delivery) lost(verb string) error {
	return fmt.Errorf("%s %s: %w", verb, d.member(), notify.ErrLeaseLost)
}

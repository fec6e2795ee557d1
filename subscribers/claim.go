package subscribers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Limits of a claim.
const (
	MaxClaim = 500 // messages in one claim
	MinLease = 100 * time.Millisecond
	MaxLease = 24 * time.Hour
)

const (
	fewMessages = 16 // in a claim whose answer takes little memory, and
	manyClaims  = 8  // claims of more at a time: 4 MiB of records may come by each, twice while they are read
)

// A Receipt is the end of a lease, in Unix microseconds by Redis's clock; its
// last digit tells the lease from the one before. It is needed to settle the
// message; one of an earlier lease is refused.
type Receipt int64

// Until returns the end of the lease.
func (r Receipt) Until() time.Time { return time.UnixMicro(int64(r)) }

// withDigit returns the receipt with the last digit of another, which an extension keeps.
func (r Receipt) withDigit(of Receipt) Receipt { return Receipt(store.WithDigit(int64(r), int64(of))) }

// A Delivery is a message that was claimed.
type Delivery struct {
	Topic   string
	ID      string
	Due     time.Time // since when it is ready; after a failed attempt, of the new one, while FirstDue stays
	Attempt int       // 1 on first delivery
	Receipt Receipt
	Lease   time.Duration // that the claim gave
	notify.Record
}

// Late returns how late a message was claimed: from its due time on, or from when
// it had the age that was asked for, to the millisecond, by Redis's clock alone;
// zero where that is foreign. minAge is that which it was claimed for.
func (d *Delivery) Late(minAge time.Duration) time.Duration {
	if d.Due.IsZero() {
		return 0
	}
	return max(d.Receipt.Until().Sub(d.Due)-d.Lease-minAge, 0)
}

// A Claimer pulls messages: it claims them and settles them by their receipts.
// It is safe for concurrent use.
type Claimer struct {
	store *notify.Store
	many  chan struct{} // holds one for each claim of many messages that is under way
}

// NewClaimer returns a claimer on a store.
func NewClaimer(s *notify.Store) *Claimer {
	return &Claimer{store: s, many: make(chan struct{}, manyClaims)}
}

// Claim leases up to max ready messages of a topic that are due for minAge at
// least, oldest due first. A lease of zero is that of the topic's settings. It does
// not wait; none is no error. A message whose
// record is unreadable is buried with the reason. Errors: notify.ErrInvalid, or
// that of the connection, after which messages may be leased until it expires.
func (c *Claimer) Claim(ctx context.Context, topic string, max int, lease, minAge time.Duration) ([]Delivery, error) {
	if err := checkClaim(topic, max, lease, minAge); err != nil {
		return nil, err
	}
	ds, _, err := c.take(ctx, topic, max, lease, minAge)
	return ds, err
}

// checkClaim reports what is wrong with a claim.
func checkClaim(topic string, max int, lease, minAge time.Duration) error {
	if err := store.CheckTopic(topic); err != nil {
		return err
	}
	if err := store.Within("max", "max", max, 1, MaxClaim); err != nil {
		return err
	}
	if minAge < 0 {
		return store.Faultf("min_age", "min age %v: it is negative; use zero or more", minAge)
	}
	return checkLease(lease)
}

// take is Claim for what was checked. Where there is none it returns in how
// long the oldest that is ready has that age; less than zero: none is ready.
func (c *Claimer) take(ctx context.Context, topic string, max int, lease, minAge time.Duration) ([]Delivery, time.Duration, error) {
	got, err := c.claim(ctx, topic, max, lease, minAge, "")
	if err != nil {
		return nil, 0, err
	}
	c.buryUnreadable(ctx, got.unreadable)
	return got.deliveries, got.ripe, nil
}

// buryUnreadable buries messages whose records are unreadable. Where that fails
// their leases run out, and they are found unreadable again.
func (c *Claimer) buryUnreadable(ctx context.Context, all []unreadable) {
	for _, bad := range all {
		_, _ = c.nack(ctx, bad.Delivery, 0, bad.fault.Error(), true)
	}
}

// checkLease reports what is wrong with a lease; zero is that of the topic's settings.
func checkLease(lease time.Duration) error {
	if lease == 0 {
		return nil
	}
	return store.Within("lease", "lease", lease, MinLease, MaxLease)
}

// claimed is what one claim brought.
type claimed struct {
	deliveries []Delivery
	unreadable []unreadable
	buried     []Death // by the script: expired, or without a record
	lease      time.Duration
	short      bool // there were fewer than asked for: the inbox waits now

	ripe time.Duration // where there are none: in how long the oldest that is ready has the age; less than zero: none is ready
}

type unreadable struct {
	Delivery
	fault error
}

// claim claims, and lets inbox wait for the topic if there are fewer than max.
func (c *Claimer) claim(ctx context.Context, topic string, max int, lease, minAge time.Duration, inbox string) (claimed, error) {
	if max > fewMessages {
		select {
		case c.many <- struct{}{}:
		case <-ctx.Done():
			return claimed{}, ctx.Err()
		}
		defer func() { <-c.many }()
	}
	reply, err := c.store.Of(topic).Claim(ctx, store.Claim{Topic: topic, Max: max, Lease: lease, MinAge: minAge, Inbox: inbox})
	if err != nil {
		return claimed{}, fmt.Errorf("claim %s: %w", topic, err)
	}
	got := claimed{short: reply.Short, lease: reply.Lease, deliveries: make([]Delivery, 0, len(reply.Messages)), ripe: reply.Ripe}
	for _, one := range reply.Buried {
		death := Death{Delivery: Delivery{Topic: topic, ID: idOf(topic, one.Member)}, Reason: one.Reason}
		got.buried = append(got.buried, death)
	}
	for _, m := range reply.Messages {
		d := Delivery{Topic: topic, ID: idOf(topic, m.Member), Due: m.Due, Attempt: 1 + m.Used, Receipt: Receipt(m.Receipt), Lease: reply.Lease}
		if d.Record, err = store.DecodeRecord(m.Record); err != nil {
			got.unreadable = append(got.unreadable, unreadable{d, err})
			continue
		}
		got.deliveries = append(got.deliveries, d)
	}
	return got, nil
}

// idOf returns the id of a member of a topic; of a stray it is all of it.
func idOf(topic, member string) string { return strings.TrimPrefix(member, topic+":") }

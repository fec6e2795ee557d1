package subscribers

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

var (
	//go:embed claim.lua
	claimSource string
	claimScript = notify.NewScript("claim", claimSource)
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

// withDigit returns the receipt with the last digit of a number. It is receipt_of of prelude.lua.
func (r Receipt) withDigit(of Receipt) Receipt { return r - r%10 + of%10 }

// digitOf returns the last digit of a count, 0 where that is foreign. It is digit_of of prelude.lua.
func digitOf(count string) Receipt {
	if count == "" || strings.Trim(count, "0123456789") != "" {
		return 0
	}
	return Receipt(count[len(count)-1] - '0')
}

// A Delivery is a message that was claimed.
type Delivery struct {
	Topic   string
	ID      string
	Due     time.Time // since when it is ready; after a failed attempt, of the new one
	Attempt int       // 1 on first delivery
	Receipt Receipt
	notify.Record
}

// Late returns how late a message was claimed: from its due time on, or from when
// it had the age that was asked for, to the millisecond, by Redis's clock alone;
// zero where that is foreign. lease and minAge are those that it was claimed for.
func (d *Delivery) Late(lease, minAge time.Duration) time.Duration {
	if d.Due.IsZero() {
		return 0
	}
	return max(d.Receipt.Until().Sub(d.Due)-lease.Truncate(time.Millisecond)-minAge, 0)
}

// A Claimer pulls messages: it claims them and settles them by their receipts.
// It is safe for concurrent use.
type Claimer struct {
	store       *notify.Store
	maxAttempts int
	many        chan struct{} // holds one for each claim of many messages that is under way
}

// NewClaimer returns a claimer on a store. maxAttempts is the limit of attempts
// of messages that have none of their own; zero is DefaultMaxAttempts.
func NewClaimer(store *notify.Store, maxAttempts int) *Claimer {
	if maxAttempts <= 0 {
		maxAttempts = DefaultMaxAttempts
	}
	return &Claimer{store: store, maxAttempts: maxAttempts, many: make(chan struct{}, manyClaims)}
}

// Claim leases up to max ready messages of a topic that are due for minAge at
// least, oldest due first. It does not wait; none is no error. A message whose
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
	if err := notify.CheckTopic(topic); err != nil {
		return err
	}
	if err := store.Within("max", "max", max, 1, MaxClaim); err != nil {
		return err
	}
	if minAge < 0 {
		return notify.Faultf("min_age", "min age %v: it is negative; use zero or more", minAge)
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

func checkLease(lease time.Duration) error {
	return store.Within("lease", "lease", lease, MinLease, MaxLease)
}

// claimed is what one claim brought.
type claimed struct {
	deliveries []Delivery
	unreadable []unreadable
	buried     []Death // by the script: expired, or without a record
	short      bool    // there were fewer than asked for: the inbox waits now

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
	reply, err := c.store.Run(ctx, claimScript, c.store.Keys().Topic(topic),
		topic, max, lease.Milliseconds(), ceilMs(minAge), inbox)
	if err != nil {
		return claimed{}, fmt.Errorf("claim %s: %w", topic, err)
	}
	short, _ := reply[0].(int64)
	deadline, _ := reply[1].(int64)
	found, _ := reply[2].([]any)
	records, _ := reply[3].([]any)
	attempts, _ := reply[4].([]any)
	buried, _ := reply[5].([]any)
	ripe, _ := reply[6].(int64)
	got := claimed{short: short == 1, deliveries: make([]Delivery, 0, len(records)), ripe: time.Duration(ripe) * time.Millisecond}
	for i := 0; i+1 < len(buried); i += 2 {
		death := Death{Delivery: Delivery{Topic: topic}}
		death.ID = strings.TrimPrefix(buried[i].(string), topic+":")
		death.Reason, _ = buried[i+1].(string)
		got.buried = append(got.buried, death)
	}
	for i, record := range records {
		raw, ok := record.(string)
		if !ok || len(found) < 2*i+2 {
			continue // buried
		}
		d := Delivery{Topic: topic, Attempt: 1, Receipt: Receipt(deadline)}
		d.ID = strings.TrimPrefix(found[2*i].(string), topic+":")
		d.Due = notify.TimeOf(found[2*i+1])
		if i < len(attempts) && attempts[i] != nil {
			count, _ := attempts[i].(string)
			used, _ := strconv.Atoi(count)
			d.Attempt += used
			d.Receipt = d.Receipt.withDigit(d.Receipt%10 + digitOf(count))
		}
		if d.Record, err = notify.DecodeRecord(raw); err != nil {
			got.unreadable = append(got.unreadable, unreadable{d, err})
			continue
		}
		got.deliveries = append(got.deliveries, d)
	}
	return got, nil
}

// ceilMs returns a duration in milliseconds, rounded up, so that it is never too short.
func ceilMs(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

package subscribers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	maxReason   = 1000 // bytes of a reason that are kept
	fewMessages = 16   // in a claim whose answer takes little memory, and
	manyClaims  = 8    // claims of more at a time: 4 MiB of records may come by each, twice while they are read

	manyClaimsOfOne = 2 // such claims at a time from one of several shards
)

// ClaimOptions say what [Claimer.Claim] and [Claimer.ClaimAny] claim. The zero value is
// the default.
type ClaimOptions struct {
	Max    int           // messages at the most, up to 500; zero: one
	Lease  time.Duration // of the messages, 100ms to 24h; zero: that of the topic's settings
	MinAge time.Duration // for how long they are due at the least
	Wait   time.Duration // for how long to wait until there is one, up to 5m; zero: not at all
	Oldest bool          // of several topics, all in one shard, the oldest messages of all; else those of a topic before those of the topics behind it

	// AckNow acknowledges the messages as they are claimed, in one step. They have no
	// lease, no receipt and nothing to settle, and come at most once: what is lost
	// between Redis and the caller is lost. It excludes Lease.
	AckNow bool

	Worker string // the name of the worker that the claim is for; empty: ClaimerOptions.Name

	try    bool   // see store.Claim
	behind string // see store.Claim
}

// check returns a joined Fault for each option that is wrong.
func (o ClaimOptions) check() error {
	var lease, worker error
	if o.Worker != "" {
		worker = record.CheckWorker("worker", o.Worker)
	}
	if o.AckNow && o.Lease != 0 {
		lease = fault.New("lease", "lease %v: what is acknowledged at once (ack=now) has none; give one of them", o.Lease)
	}
	return errors.Join(
		fault.Within("wait", "wait", o.Wait, 0, record.MaxWait), fault.Within("max", "max", o.Max, 1, record.MaxClaim), checkAge(o.MinAge), lease, checkLease(o.Lease), worker,
	)
}

// checkAge returns a Fault for an age that no message can have.
func checkAge(age time.Duration) error {
	if age < 0 {
		return fault.New("min_age", "min age %v: it is negative; use zero or more", age)
	}
	return nil
}

// leases claims messages, and settles them by their receipts.
type leases struct {
	store *notify.Store
	log   *slog.Logger
	name  string        // of the worker, where a claim names none
	turns atomic.Uint64 // of claims from several shards: each begins with another one

	mu   sync.Mutex
	many map[store.Shard]chan struct{} // holds one for each claim of many messages that is under way
}

func newLeases(s *notify.Store, log *slog.Logger, name string) *leases {
	return &leases{store: s, log: log, name: name, many: make(map[store.Shard]chan struct{})}
}

// manyOf returns what holds one for each claim of many messages that is under way in a
// shard: those that one leaves unanswered delay no other.
func (l *leases) manyOf(shard store.Shard) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.many[shard] == nil {
		n := manyClaims
		if shard.Label() != "" { // of several
			n = manyClaimsOfOne
		}
		l.many[shard] = make(chan struct{}, n)
	}
	return l.many[shard]
}

// claimed is what one claim brought.
type claimed struct {
	deliveries []Delivery
	unreadable []badRecord
	buried     []Death // by the script: expired, late, or without a record
	dropped    []Death // by the script: expired, or late
	short      bool    // there were fewer than asked for: the inbox waits now
	now        int64   // by Redis's clock, in us
	onTheWay   bool    // there were none, because a hand-over has to be received before

	ripe time.Duration // where there are none: in how long the oldest that is ready has the age; less than zero: none is ready
}

// any reports whether the claim found anything.
func (c *claimed) any() bool {
	return len(c.deliveries)+len(c.unreadable)+len(c.buried)+len(c.dropped) > 0
}

// A badRecord is a message whose record is unreadable.
type badRecord struct {
	Delivery
	fault error
}

// take claims messages, and buries those that are unreadable. Where all that it found
// has died or was dropped it looks for more. If it claims none it returns in how long
// the oldest ready message has the age that is asked for; less than zero: none is ready.
func (l *leases) take(ctx context.Context, topic string, o ClaimOptions) ([]Delivery, time.Duration, error) {
	for {
		got, err := l.claim(ctx, topic, o, reach.Inbox{}, 0)
		if err != nil {
			return nil, 0, err
		}
		l.buryUnreadable(ctx, got.unreadable)
		if len(got.deliveries) > 0 || !got.any() {
			return got.deliveries, got.ripe, nil
		}
	}
}

// claim claims, and lets inbox wait for the topic if there are fewer than o.Max.
// received is the time of the last hand-over that the inbox received; 0: it takes none.
func (l *leases) claim(ctx context.Context, topic string, o ClaimOptions, inbox reach.Inbox, received int64) (claimed, error) {
	if o.Max > fewMessages {
		many := l.manyOf(l.store.Of(topic))
		select {
		case many <- struct{}{}:
		case <-ctx.Done():
			return claimed{}, ctx.Err()
		}
		defer func() { <-many }()
	}
	c := store.Claim{Topic: topic, Max: o.Max, Lease: o.Lease, AckNow: o.AckNow, MinAge: o.MinAge, Inbox: inbox, Received: received, Try: o.try, Behind: o.behind}
	if !o.AckNow {
		c.Name = cmp.Or(o.Worker, l.name)
	}
	reply, err := l.store.Of(topic).Claim(ctx, c)
	if err != nil {
		return claimed{}, fmt.Errorf("claim %s: %w", topic, err)
	}
	got := claimed{short: reply.Short, deliveries: make([]Delivery, 0, len(reply.Messages)), ripe: reply.Ripe, now: reply.Now, onTheWay: reply.OnTheWay}
	got.buried, got.dropped = deathsOf(topic, reply.Buried), deathsOf(topic, reply.Dropped)
	for _, m := range reply.Messages {
		d := Delivery{
			Topic: topic, ID: idOf(topic, m.Member), Due: m.Due, Attempt: 1 + m.Used, Receipt: Receipt(m.Receipt), Lease: m.Length,
			History: m.History, acked: o.AckNow, worker: c.Name, by: l,
		}
		if !d.Due.IsZero() {
			at := d.Receipt.until().Add(-d.Lease)
			if o.AckNow {
				at = time.UnixMicro(reply.Now)
			}
			d.late = max(at.Sub(d.Due)-o.MinAge, 0)
		}
		if d.Record, err = record.Decode(m.Record); err != nil {
			got.unreadable = append(got.unreadable, badRecord{d, err})
			continue
		}
		if d.Key != "" {
			d.Fence = m.Fence
		}
		got.deliveries = append(got.deliveries, d)
	}
	return got, nil
}

func deathsOf(topic string, ended []store.Buried) (all []Death) {
	for _, one := range ended {
		all = append(all, Death{Delivery: Delivery{Topic: topic, ID: idOf(topic, one.Member)}, Reason: one.Reason})
	}
	return all
}

// handedOver returns the delivery of a hand-over. The error is an unreadable record.
func (l *leases) handedOver(h store.Handover) (Delivery, error) {
	record, err := record.Decode(h.Record)
	d := Delivery{
		Topic: h.Topic, ID: idOf(h.Topic, h.Member), Due: h.Due, Attempt: 1 + h.Used, Receipt: Receipt(h.Receipt), Lease: h.Full, History: h.History,
		Record: record, HandedOver: true, handed: true, worker: l.name, by: l,
	}
	if !d.Due.IsZero() {
		d.late = max(time.UnixMicro(h.At).Sub(d.Due), 0)
	}
	return d, err
}

// idOf returns the id of a member of a topic; of a foreign member it is all of it.
func idOf(topic, member string) string { return strings.TrimPrefix(member, topic+":") }

// buryUnreadable buries messages whose records are unreadable. Where that fails
// their leases expire, and they are found unreadable again. One that was acknowledged
// as it was claimed is gone.
func (l *leases) buryUnreadable(ctx context.Context, all []badRecord) {
	for _, bad := range all {
		if bad.acked {
			l.log.Error("message was acknowledged as it was claimed, and is unreadable", "topic", bad.Topic, "id", bad.ID, "error", bad.fault)
			continue
		}
		_, _ = l.nack(ctx, &bad.Delivery, store.Nack{Reason: bad.fault.Error(), Bury: true})
	}
}

func (l *leases) ack(ctx context.Context, d *Delivery) error {
	lost, err := l.ackMany(ctx, d.Topic, []Delivery{*d})
	if err == nil && len(lost) > 0 {
		err = d.lost("acknowledge")
	}
	return err
}

func (l *leases) ackWith(ctx context.Context, d *Delivery, r notify.AckResult) (forgotten bool, err error) {
	lost, forgotten, err := l.store.Of(d.Topic).AckWith(ctx, d.Topic, d.lease(), r)
	switch {
	case err != nil:
		return false, fmt.Errorf("acknowledge %s: %w", d.member(), err)
	case lost:
		return false, d.lost("acknowledge")
	}
	return forgotten, nil
}

// ackMany acknowledges messages of one topic, and returns those whose lease was lost.
func (l *leases) ackMany(ctx context.Context, topic string, ds []Delivery) (lost []Delivery, err error) {
	if err := checkTopics(topic, ds); err != nil {
		return nil, err
	}
	for len(ds) > 0 {
		page := ds[:min(len(ds), record.MaxClaim)]
		at, err := l.store.Of(topic).Ack(ctx, topic, leasesOf(page))
		if err != nil {
			return lost, fmt.Errorf("acknowledge %s: %w", topic, err)
		}
		lost = append(lost, pick(page, at)...)
		ds = ds[len(page):]
	}
	return lost, nil
}

func (l *leases) nack(ctx context.Context, d *Delivery, n store.Nack) (Outcome, error) {
	n.Reason = strings.ToValidUTF8(n.Reason, "\uFFFD") // it becomes a text of JSON
	if len(n.Reason) > maxReason {
		n.Reason = strings.ToValidUTF8(n.Reason[:maxReason], "") + "…"
	}
	verb := "reject"
	if n.Keep {
		verb = "put off"
	}
	n.Lease = d.lease()
	out, err := l.store.Of(d.Topic).Nack(ctx, d.Topic, n)
	switch {
	case err != nil:
		return Outcome{}, fmt.Errorf("%s %s: %w", verb, d.member(), err)
	case out.Lost:
		return Outcome{}, d.lost(verb)
	}
	state := notify.Scheduled
	switch {
	case out.Dead:
		state = notify.Dead
	case out.Dropped, out.Cancelled:
		state = 0
	}
	return Outcome{State: state, Dropped: out.Dropped, Cancelled: out.Cancelled, Attempts: out.Attempts, Due: out.Due, Forgetful: out.Forgetful}, nil
}

func (l *leases) release(ctx context.Context, d *Delivery) error {
	lost, err := l.releaseMany(ctx, d.Topic, reach.Inbox{}, 0, []Delivery{*d})
	if err == nil && len(lost) > 0 {
		err = d.lost("release")
	}
	return err
}

// releaseMany releases messages of one topic, and returns those whose lease was lost. The inbox waits no longer for the topic, of which
// the last hand-over that it received was made at received.
func (l *leases) releaseMany(ctx context.Context, topic string, inbox reach.Inbox, received int64, ds []Delivery) (lost []Delivery, err error) {
	if err := checkTopics(topic, ds); err != nil {
		return nil, err
	}
	for first := true; first || len(ds) > 0; first = false {
		page := ds[:min(len(ds), record.MaxClaim)]
		back := make([]store.Return, len(page))
		for i := range page {
			back[i] = store.Return{Lease: page[i].lease(), Due: page[i].Due}
		}
		at, err := l.store.Of(topic).Release(ctx, topic, inbox, received, back)
		if err != nil {
			return lost, fmt.Errorf("release %s: %w", topic, err)
		}
		lost = append(lost, pick(page, at)...)
		ds = ds[len(page):]
	}
	return lost, nil
}

// extend extends a lease, of which only the receipt of the claim is known, here or to
// other processes.
func (l *leases) extend(ctx context.Context, d *Delivery, lease time.Duration) error {
	e, err := l.store.Of(d.Topic).ExtendByClaim(ctx, d.Topic, d.worker, []store.Lease{d.lease()}, lease)
	if err = d.extension(e, err); err == nil {
		d.ends = Receipt(e.Receipts[0])
	}
	return err
}

// extendMany extends up to record.MaxClaim leases of one worker and returns their new receipts, which
// alone settle them from now on, and the indexes of those that were lost, or are to stop.
func (l *leases) extendMany(ctx context.Context, ds []Delivery, lease time.Duration) (store.Extended, error) {
	e, err := l.store.Of(ds[0].Topic).Extend(ctx, ds[0].Topic, ds[0].worker, leasesOf(ds), lease)
	if err != nil {
		return store.Extended{}, fmt.Errorf("extend leases: %w", err)
	}
	return e, nil
}

func leasesOf(ds []Delivery) []store.Lease {
	all := make([]store.Lease, len(ds))
	for i := range ds {
		all[i] = ds[i].lease()
	}
	return all
}

// pick returns the messages at some indexes.
func pick(ds []Delivery, indexes []int) []Delivery {
	var picked []Delivery
	for _, i := range indexes {
		picked = append(picked, ds[i])
	}
	return picked
}

// checkTopics reports a message that is not of the topic.
func checkTopics(topic string, ds []Delivery) error {
	for i := range ds {
		if ds[i].Topic != topic {
			return fault.New("topic", "message %s: it is not of the topic %s; settle each topic by itself", ds[i].member(), topic)
		}
	}
	return record.CheckTopic(topic)
}

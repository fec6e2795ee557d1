package subscribers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestClaimAndAck(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"), body("b"))
	a, b := claimOne(t, c, time.Minute), claimOne(t, c, time.Minute)
	if ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Minute}); len(ds) != 0 || err != nil {
		t.Errorf("claimed %v, %v, and all are leased", ds, err)
	}
	stale := a
	stale.Receipt--
	lost, err := c.AckMany(t.Context(), topic, []subscribers.Delivery{stale, b})
	if err != nil || len(lost) != 1 || lost[0].ID != "a" {
		t.Errorf("lost %v, %v", lost, err)
	}
	storetest.Should(t, a.Ack(t.Context()))
	storetest.Fails(t, "second acknowledgement", a.Ack(t.Context()), notify.ErrLeaseLost)
	storetest.Empty(t, db)
}

func TestClaimOnlyWhatIsOldEnough(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	old := body("old")
	old.Due, old.Restore = time.Now().Add(-time.Hour), &notify.Restore{}
	storetest.Publish(t, db, body("young"), old)
	ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Minute, MinAge: time.Minute})
	if err != nil || len(ds) != 1 || ds[0].ID != "old" {
		t.Errorf("claimed %v, %v", ds, err)
	}
}

// A due time that is none of ours is shown as zero: another one could not be written as JSON.
func TestClaimOfForeignDueTimes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	for _, due := range []string{"-inf", "-1e17", "-1"} {
		storetest.Publish(t, db, body("a"))
		storetest.Must(t, db.Client().Do(t.Context(), "ZADD", db.KeysOf(topic).Ready(topic), due, record.Member(topic, "a")).Err())
		d := claimOne(t, c, time.Minute)
		if !d.Due.IsZero() || d.Late() != 0 {
			t.Errorf("due %s: it is shown as %v, and %v late", due, d.Due, d.Late())
		}
		storetest.Should(t, d.Ack(t.Context()))
	}
}

func TestNackReleaseAndBury(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"))
	d := claimOne(t, c, time.Minute)
	out, err := d.Nack(t.Context(), time.Millisecond, "busy")
	if err != nil || out.State != notify.Scheduled || out.Attempts != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	if _, err := d.Nack(t.Context(), 0, ""); !errors.Is(err, notify.ErrLeaseLost) {
		t.Errorf("second nack: %v", err)
	}
	storetest.Eventually(t, "it is ready again", func() bool { return counts(t, db).Ready == 1 })

	d = claimOne(t, c, time.Minute)
	if lost, err := c.ReleaseMany(t.Context(), topic, []subscribers.Delivery{d}); len(lost) != 0 || err != nil {
		t.Errorf("lost %v, %v", lost, err)
	}
	again := claimOne(t, c, time.Minute)
	if again.Attempt != 2 || !again.Due.Equal(d.Due) {
		t.Errorf("after the release it is attempt %d, due %v, want 2 and %v", again.Attempt, again.Due, d.Due)
	}
	long := strings.Repeat("no ", 1000)
	if out, err = again.Bury(t.Context(), long); err != nil || out.State != notify.Dead || out.Attempts != 2 {
		t.Errorf("got %+v, %v", out, err)
	}
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Dead || len(info.Reason) > 1100 || !strings.HasPrefix(long, info.Reason[:900]) {
		t.Errorf("got %+v, %v", info, err)
	}
}

// What is released comes again with the due time that it had, before what is due later.
func TestReleaseKeepsThePlace(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("first"), body("next"))
	storetest.Must(t, db.Client().ZIncrBy(t.Context(), db.KeysOf(topic).Ready(topic), -time.Hour.Seconds()*1000, topic+":first").Err())
	d := claimOne(t, c, time.Minute)
	if lost, err := c.ReleaseMany(t.Context(), topic, []subscribers.Delivery{d}); len(lost) != 0 || err != nil {
		t.Errorf("lost %v, %v", lost, err)
	}
	if again := claimOne(t, c, time.Minute); again.ID != "first" || !again.Due.Equal(d.Due) {
		t.Errorf("after the release comes %s, due %v; want that of %v", again.ID, again.Due, d.Due)
	}
}

// What is claimed at once is bounded in bytes too; the rest stays ready.
func TestClaimIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	const n = 60
	var messages []notify.Message
	for i := range n {
		m := body(fmt.Sprintf("%02d", i))
		m.Body = make([]byte, notify.DefaultMaxBody)
		messages = append(messages, m)
	}
	storetest.Publish(t, db, messages...)
	total := 0
	for total < n {
		ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: record.MaxClaim, Lease: time.Minute})
		if err != nil || len(ds) == 0 || len(ds) > 20 {
			t.Fatalf("claimed %d of 256 KiB each, %v", len(ds), err)
		}
		for i, d := range ds {
			if d.ID != fmt.Sprintf("%02d", total+i) {
				t.Fatalf("message %d is %s", total+i, d.ID)
			}
		}
		total += len(ds)
	}
}

func TestClaimDoesNotHandOutWhatExpired(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	m := body("a")
	m.Due, m.TTL = time.Now().Add(-time.Hour), time.Minute
	storetest.Publish(t, db, m, body("b"))
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Minute})
	if err != nil || len(ds) != 1 || ds[0].ID != "b" {
		t.Errorf("claimed %v, %v", ds, err)
	}
	info, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
	if err != nil || info.State != notify.Dead || info.Reason != "expired" {
		t.Errorf("got %+v, %v", info, err)
	}
}

func TestSettlingTwiceInOneCallCountsOnce(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"), body("b"))
	a, b := claimOne(t, c, time.Minute), claimOne(t, c, time.Minute)
	if lost, err := c.AckMany(t.Context(), topic, []subscribers.Delivery{a, a}); len(lost) != 0 || err != nil {
		t.Errorf("lost %v, %v", lost, err)
	}
	if n := counts(t, db).Leased; n != 1 {
		t.Errorf("%d are leased, want 1", n)
	}
	b.Due = time.Time{} // which stands for now
	if lost, err := c.ReleaseMany(t.Context(), topic, []subscribers.Delivery{b, b}); len(lost) != 0 || err != nil {
		t.Errorf("lost %v, %v", lost, err)
	}
	if n := counts(t, db); n.Leased != 0 || n.Ready != 1 {
		t.Errorf("got %+v", n)
	}
	if d := claimOne(t, c, time.Minute); time.Since(d.Due) > time.Hour {
		t.Errorf("it is due since %v", d.Due)
	}
}

func TestBadClaims(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	c := subscriberstest.Claimer(t, db)
	storetest.Publish(t, db, body("a"))
	d := claimOne(t, c, time.Minute)
	bad := func(o subscribers.ClaimOptions) func() error {
		return func() error { return storetest.ErrOf(c.Claim(t.Context(), topic, o)) }
	}
	for _, test := range []struct {
		field, want string
		call        func() error
	}{
		{"topic", "topic", func() error { return storetest.ErrOf(c.Claim(t.Context(), "a:b")) }},
		{"max", "max -1", bad(subscribers.ClaimOptions{Max: -1})},
		{"max", "max 501", bad(subscribers.ClaimOptions{Max: 501})},
		{"lease", "lease -1s", bad(subscribers.ClaimOptions{Lease: -time.Second})},
		{"lease", "lease 1ms", bad(subscribers.ClaimOptions{Lease: time.Millisecond})},
		{"min_age", "min age -1s", bad(subscribers.ClaimOptions{MinAge: -time.Second})},
		{"wait", "wait -1ns", bad(subscribers.ClaimOptions{Wait: -1})},
		{"wait", "wait 5m0", bad(subscribers.ClaimOptions{Wait: record.MaxWait + 1})},
		{"delay", "delay -1s", func() error { _, err := d.Nack(t.Context(), -time.Second, ""); return err }},
		{"topic", "not of the topic", func() error { _, err := c.AckMany(t.Context(), "other", []subscribers.Delivery{d}); return err }},
		{"topic", "not of the topic", func() error { _, err := c.ReleaseMany(t.Context(), "other", []subscribers.Delivery{d}); return err }},
		{"lease", "lease 48h", func() error { return d.Extend(t.Context(), 48*time.Hour) }},
	} {
		wantFault(t, test.call(), test.field, test.want)
	}
	if err := d.Ack(t.Context()); err != nil {
		t.Errorf("the lease was changed: %v", err)
	}
}

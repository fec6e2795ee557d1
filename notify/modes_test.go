package notify_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// before brings the message a into each state that a publish may find its id in.
var before = map[string]func(t *testing.T, db *notify.Store){
	"none":      func(*testing.T, *notify.Store) {},
	"scheduled": func(t *testing.T, db *notify.Store) { publish(t, clientOf(t, db), message("a", future)) },
	"ready":     func(t *testing.T, db *notify.Store) { publish(t, clientOf(t, db), message("a", time.Time{})) },
	"retry": func(t *testing.T, db *notify.Store) {
		publish(t, clientOf(t, db), message("a", time.Time{}))
		storetest.Must(t, storetest.ErrOf(claim(t, db, 1)[0].Nack(t.Context(), anHour, "later")))
	},
	"leased": func(t *testing.T, db *notify.Store) { inState(t, db, message("a", time.Time{}), notify.Leased) },
	"handed": func(t *testing.T, db *notify.Store) {
		hands := db.KeysOf(topic).Hands("x")
		subscribe := db.Client().Subscribe
		if len(db.KeysOfAll()) > 1 {
			subscribe = db.Client().SSubscribe
		}
		sub := subscribe(t.Context(), hands)
		t.Cleanup(func() { sub.Close() })
		storetest.Must(t, storetest.ErrOf(sub.Receive(t.Context())))
		storetest.Must(t, db.Client().Do(t.Context(), "zadd", db.KeysOf(topic).Waiting(topic), 1, hands).Err())
		publish(t, clientOf(t, db), message("a", time.Time{}))
		if score := db.Client().ZScore(t.Context(), db.KeysOf(topic).Leased(), topic+":a").Val(); score == float64(int64(score)) {
			t.Fatalf("the message is not handed over: its receipt is %v", score)
		}
	},
	"dead": func(t *testing.T, db *notify.Store) { inState(t, db, message("a", time.Time{}), notify.Dead) },
	"done": func(t *testing.T, db *notify.Store) { done(t, db, anHour) },
	"over": func(t *testing.T, db *notify.Store) {
		done(t, db, time.Millisecond)
		storetest.Eventually(t, "the id is free", func() bool { return stateOf(t, clientOf(t, db), "a") == 0 })
	},
	"broadcast": func(t *testing.T, db *notify.Store) {
		m := message("a", future)
		m.Broadcast = true
		publish(t, clientOf(t, db), m)
	},
}

// done acknowledges the message a, whose id stays taken.
func done(t *testing.T, db *notify.Store, unique time.Duration) {
	t.Helper()
	m := message("a", time.Time{})
	m.UniqueFor = unique
	publish(t, clientOf(t, db), m)
	storetest.Must(t, claim(t, db, 1)[0].Ack(t.Context()))
}

// modes has what a publish answers for each mode and state, and what its repetition does.
var modes = map[string]string{
	"refuse none": "created, exists", "keep none": "created, kept", "replace none": "created, replaced", "debounce none": "created, moved",
	"refuse scheduled": "exists, exists", "keep scheduled": "kept, kept", "replace scheduled": "replaced, replaced", "debounce scheduled": "moved, moved",
	"refuse retry": "exists, exists", "keep retry": "kept, kept", "replace retry": "replaced, replaced", "debounce retry": "moved, moved",
	"refuse ready": "exists, exists", "keep ready": "kept, kept", "replace ready": "replaced, replaced", "debounce ready": "moved, moved",
	"refuse leased": "exists, exists", "keep leased": "leased, leased", "replace leased": "leased, leased", "debounce leased": "leased, leased",
	"refuse handed": "exists, exists", "keep handed": "leased, leased", "replace handed": "leased, leased", "debounce handed": "leased, leased",
	"refuse dead": "exists, exists", "keep dead": "dead, dead", "replace dead": "replaced, replaced", "debounce dead": "dead, dead",
	"refuse done": "exists, exists", "keep done": "kept, kept", "replace done": "exists, exists", "debounce done": "exists, exists",
	"refuse over": "created, exists", "keep over": "created, kept", "replace over": "created, replaced", "debounce over": "created, moved",
	"refuse broadcast": "exists, exists", "keep broadcast": "exists, exists", "replace broadcast": "replaced, replaced", "debounce broadcast": "exists, exists",

	"refuse leased after": "created, exists", "keep leased after": "created, kept", "replace leased after": "created, replaced", "debounce leased after": "created, moved",
	"refuse handed after": "created, exists", "keep handed after": "created, kept", "replace handed after": "created, replaced", "debounce handed after": "created, moved",
}

// answered names what a publish answered.
func answered(t *testing.T, p notify.Publication, err error) string {
	t.Helper()
	for name, is := range map[string]error{"exists": notify.ErrExists, "leased": notify.ErrLeased, "dead": notify.ErrDead} {
		if errors.Is(err, is) {
			if p.Outcome != notify.Refused || !p.Due.IsZero() || p.State != 0 {
				t.Errorf("refused with %+v", p)
			}
			return name
		}
	}
	storetest.Must(t, err)
	return string(p.Outcome)
}

// Each mode does with a message in each state what the table of Publish says, and so
// does its repetition.
func TestModes(t *testing.T) {
	t.Parallel()
	walkModes(t, storetest.Open)
}

// So it is in the embedded server.
func TestModesInTheTrialServer(t *testing.T) {
	t.Parallel()
	walkModes(t, trial)
}

// The page of the command line has the same table.
func TestPageOfModes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../cmd/bellhop/README.md")
	storetest.Must(t, err)
	columns := [][]string{{"scheduled", "retry", "ready"}, {"leased", "handed"}, {"dead"}, {"done"}}
	for _, mode := range []notify.IfExists{notify.Refuse, notify.Keep, notify.Replace, notify.Debounce} {
		_, row, _ := strings.Cut(string(page), fmt.Sprintf("\n| `%s`", mode))
		row, _, _ = strings.Cut(row, "\n")
		cells := strings.Split(strings.Trim(row, " |"), " | ")
		if len(cells) < len(columns) {
			t.Fatalf("the page has no row of %s: %q", mode, row)
		}
		for i, cell := range cells[len(cells)-len(columns):] {
			for _, state := range columns[i] {
				want, _, _ := strings.Cut(modes[fmt.Sprintf("%s %s", mode, state)], ",")
				if want == "exists" || want == "leased" || want == "dead" {
					want = "refused"
				}
				if cell != want {
					t.Errorf("%s, %s: the page says %q, and it is %s", mode, state, cell, want)
				}
			}
		}
	}
}

// walkModes checks each mode against each state, each in a store of its own.
func walkModes(t *testing.T, open func(testing.TB) *notify.Store) {
	for _, mode := range []notify.IfExists{notify.Refuse, notify.Keep, notify.Replace, notify.Debounce} {
		for state, bring := range before {
			for _, then := range []notify.Then{"", notify.After} {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, state, then), func(t *testing.T) {
					t.Parallel()
					db := open(t)
					bring(t, db)
					want, known := modes[strings.TrimSpace(fmt.Sprintf("%s %s %s", mode, state, then))]
					if !known {
						want = modes[fmt.Sprintf("%s %s", mode, state)]
					}
					m := notify.Message{Topic: topic, ID: "a", Body: []byte("new"), Delay: 2 * anHour, IfExists: mode, Then: then, MaxAttempts: 7}
					c := modeCase{t: t, pub: clientOf(t, db), db: db, m: m, follows: then != "" && (state == "leased" || state == "handed")}
					if got := c.publish() + ", " + c.publish(); got != want {
						t.Errorf("answered %s; want %s", got, want)
					}
				})
			}
		}
	}
}

// A modeCase publishes a message, and checks what that leaves.
type modeCase struct {
	t       *testing.T
	pub     client
	db      *notify.Store
	m       notify.Message
	follows bool
}

func (c *modeCase) publish() string {
	c.t.Helper()
	was, published := dump(c.t, c.db), counts(c.t, c.pub).Published
	info, _ := c.pub.Inspect(c.t.Context(), topic, "a")
	start := redisTime(c.t, c.db)
	p, err := c.pub.Publish(c.t.Context(), c.m)
	got := answered(c.t, p, err)
	if err != nil || got == "kept" {
		if diff := cmp.Diff(was, dump(c.t, c.db)); diff != "" {
			c.t.Errorf("%s changed (-before +after):\n%s", got, diff)
		}
	}
	if err != nil {
		return got
	}
	now, _ := c.pub.Inspect(c.t.Context(), topic, "a")
	due, previous := now.Due, info.Due
	if c.follows {
		due, previous = now.Next.FirstDue, time.Time{}
		if info.Next != nil {
			previous = info.Next.FirstDue
		}
	}
	if !p.Due.Equal(due) || !p.PreviousDue.Equal(previous) || p.State != now.State {
		c.t.Errorf("%s: it is due %v, before %v and is %v; inspect says %v, %v, %v", got, p.Due, p.PreviousDue, p.State, due, previous, now.State)
	}
	c.check(got, start, now)
	if n := counts(c.t, c.pub).Published - published; n == 1 != (got == "created" || info.State == notify.Dead) {
		c.t.Errorf("%s: %d more were published", got, n)
	}
	return got
}

// check checks the message that a publish left.
func (c *modeCase) check(outcome string, start time.Time, now notify.Info) {
	c.t.Helper()
	record, attempts := now.Record, now.Attempts
	if c.follows {
		record, attempts = *now.Next, 0
	}
	if outcome == "kept" {
		return
	}
	if string(record.Body) != "new" || record.MaxAttempts != 7 || attempts != 0 || record.FirstDue.Before(start.Truncate(time.Millisecond).Add(c.m.Delay)) {
		c.t.Errorf("%s: it is %+v", outcome, now)
	}
	if published := record.Published; (outcome == "moved") != published.Before(start.Truncate(time.Millisecond)) && outcome != "moved" {
		c.t.Errorf("%s: it was published at %v, and that is %v", outcome, published, start)
	}
}

// What follows a leased message is published when that ends, and only then.
func TestFollows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(t *testing.T, c *following)
	}{
		{"acked", func(t *testing.T, c *following) { c.fails(c.first.Ack(t.Context())) }},
		{"acked with others", func(t *testing.T, c *following) {
			publish(t, c.pub, message("b", time.Time{}))
			lost, err := c.work.AckMany(t.Context(), topic, []subscribers.Delivery{c.first, claim(t, c.db, 1)[0]})
			c.fails(errors.Join(err, orLost(len(lost))))
		}},
		{"buried", func(t *testing.T, c *following) { _, err := c.first.Bury(t.Context(), "no"); c.fails(err) }},
		{"last attempt", func(t *testing.T, c *following) {
			c.again(func() { _, err := c.first.Nack(t.Context(), 0, "again"); c.fails(err) })
			_, err := c.first.Nack(t.Context(), 0, "no")
			c.fails(err)
		}},
		{"released", func(t *testing.T, c *following) {
			c.again(func() {
				_, err := c.work.ReleaseMany(t.Context(), topic, []subscribers.Delivery{c.first})
				c.fails(err)
			})
			c.fails(c.first.Ack(t.Context()))
		}},
		{"lease ended", func(t *testing.T, c *following) { c.endLease(); c.again(func() {}); c.endLease() }},
		{"expired in a retry", func(t *testing.T, c *following) {
			_, err := c.first.Nack(t.Context(), anHour, "later")
			c.fails(err)
			c.fails(c.db.Client().Do(t.Context(), "zadd", c.db.KeysOf(topic).Expiries(), 1, topic+":a").Err())
		}},
		{"expired when claimed", func(t *testing.T, c *following) {
			_, err := c.work.ReleaseMany(t.Context(), topic, []subscribers.Delivery{c.first})
			c.fails(err)
			c.stop()
			c.fails(c.db.Client().Do(t.Context(), "zadd", c.db.KeysOf(topic).Expiries(), 1, topic+":a").Err())
			_, err = c.work.Claim(t.Context(), topic, subscribers.ClaimOptions{})
			c.fails(err)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := follow(t)
			test.end(t, c)
			storetest.Eventually(t, "what follows is published", func() bool {
				info, err := c.pub.Inspect(t.Context(), topic, "a")
				return err == nil && string(info.Body) == "next" && info.State == notify.Scheduled && info.Due.Equal(future) && info.Attempts == 0 && info.Next == nil
			})
			if n := counts(t, c.pub); n.Dead != 0 || n.Scheduled != 1 || n.Leased != 0 || n.Acked+n.Died == 0 {
				t.Errorf("counts are %+v", n)
			}
			c.stop()
			if state, err := c.pub.Cancel(t.Context(), topic, "a"); state != notify.Scheduled || err != nil {
				t.Errorf("cancelled %v, %v", state, err)
			}
			storetest.Empty(t, c.db)
		})
	}
}

// While one message has something that follows it, another one without dies as ever.
func TestDeathBesideWhatFollows(t *testing.T) {
	t.Parallel()
	c := follow(t)
	publish(t, c.pub, message("b", time.Time{}))
	storetest.Must(t, storetest.ErrOf(claim(t, c.db, 1)[0].Bury(t.Context(), "no")))
	if info, err := c.pub.Inspect(t.Context(), topic, "b"); err != nil || info.State != notify.Dead || info.Reason != "no" {
		t.Errorf("%+v, %v", info, err)
	}
}

// A following is a leased message, and one that follows it.
type following struct {
	t     *testing.T
	pub   client
	db    *notify.Store
	work  *subscribers.Claimer
	first subscribers.Delivery
	stop  func()
}

func follow(t *testing.T) *following {
	t.Helper()
	pub, db := open(t)
	c := &following{t: t, pub: pub, db: db, work: subscriberstest.Claimer(t, db)}
	m := message("a", time.Time{})
	m.MaxAttempts, m.TTL = 2, anHour
	publish(t, pub, m)
	c.first = claim(t, db, 1)[0]
	c.stop = carry(t, db)
	next := notify.Message{Topic: topic, ID: "a", Body: []byte("next"), Due: future, Then: notify.After}
	if p := publish(t, pub, next); p.Outcome != notify.Created || p.State != notify.Leased || !p.Due.Equal(future) {
		t.Fatalf("got %+v", p)
	}
	return c
}

func (c *following) fails(err error) {
	c.t.Helper()
	storetest.Must(c.t, err)
}

func orLost(n int) error {
	if n > 0 {
		return fmt.Errorf("%d leases are lost", n)
	}
	return nil
}

// again claims the first message again after f, and checks that the other one still follows.
func (c *following) again(f func()) {
	c.t.Helper()
	f()
	storetest.Eventually(c.t, "it is claimed again", func() bool {
		ds, err := c.work.Claim(c.t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: time.Minute})
		c.fails(err)
		if len(ds) == 1 {
			c.first = ds[0]
		}
		return len(ds) == 1
	})
	info, err := c.pub.Inspect(c.t.Context(), topic, "a")
	if err != nil || info.Next == nil || string(info.Next.Body) != "next" || string(c.first.Body) != "body of a" {
		c.t.Fatalf("got %+v, %v; claimed %s", info, err, c.first.Body)
	}
}

// endLease makes the lease end.
func (c *following) endLease() {
	c.t.Helper()
	c.fails(c.db.Client().Do(c.t.Context(), "zadd", c.db.KeysOf(topic).Leased(), redisTime(c.t, c.db).UnixMicro(), topic+":a").Err())
}

// Messages of one id in one call do what they do one after the other.
func TestModesInOneCall(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	as := func(mode notify.IfExists, hours time.Duration, change func(*notify.Message)) notify.Message {
		m := notify.Message{Topic: topic, ID: "a", Body: fmt.Append(nil, mode, hours), Delay: hours * anHour, IfExists: mode}
		change(&m)
		return m
	}
	plain := func(*notify.Message) {}
	unique, expires := func(m *notify.Message) { m.UniqueFor = anHour }, func(m *notify.Message) { m.TTL = anHour }
	other := as(notify.Debounce, 2, plain)
	other.ID = "b"
	var got []string
	for _, r := range pub.PublishMany(t.Context(), []notify.Message{
		as(notify.Debounce, 1, unique), as(notify.Debounce, 2, plain), as(notify.Debounce, 3, expires), other, as(notify.Debounce, 4, unique),
		as(notify.Keep, 9, plain), as(notify.Replace, 2, plain), as(notify.Replace, 3, plain), as(notify.Refuse, 9, unique), as(notify.Debounce, 5, plain),
	}) {
		got = append(got, answered(t, r.Publication, r.Err))
	}
	want := []string{"created", "moved", "moved", "created", "moved", "kept", "replaced", "replaced", "exists", "moved"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	info, err := pub.Inspect(t.Context(), topic, "a")
	if err != nil || string(info.Body) != string(as(notify.Debounce, 5, plain).Body) || info.UniqueFor != 0 || !info.Expires.IsZero() || !info.Due.Equal(info.FirstDue) {
		t.Errorf("it is %+v, %v", info, err)
	}
	storetest.Heads(t, db)
	for _, id := range []string{"a", "b"} {
		storetest.Should(t, storetest.ErrOf(pub.Cancel(t.Context(), topic, id)))
	}
	storetest.Empty(t, db)
}

package notify_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// before brings the message a into each state that a publish may find its id in.
var before = map[string]string{
	"none":      "",
	"scheduled": "publish a due=future",
	"ready":     "publish a",
	"retry":     "publish a \n claim 1 = a \n nack a delay=1h",
	"leased":    "publish a \n claim 1 = a",
	"handed":    "hand a",
	"dead":      "publish a \n claim 1 = a \n bury a",
	"done":      "publish a unique_for=1h \n claim 1 = a \n ack a",
	"over":      "publish a unique_for=1ms \n claim 1 = a \n ack a \n pass 2ms \n is a=none",
	"broadcast": "publish a mode=broadcast due=future",
}

// hand ID: it is published, and handed over to a worker that waits.
func hand(p *storetest.Player, words []string) string {
	keys := p.Store.KeysOf(topic)
	storetest.Subscribe(p, p.Store, keys.Hands("x"))
	storetest.Must(p, p.Store.Client().ZAdd(p.Context(), keys.Waiting(topic), redis.Z{Score: 1, Member: keys.Hands("x")}).Err())
	storetest.Publish(p, p.Store, message(words[0], time.Time{}))
	if score := p.Store.Client().ZScore(p.Context(), keys.Leased(), topic+":"+words[0]).Val(); score == float64(int64(score)) {
		return fmt.Sprintf("the message is not handed over: its receipt is %v", score)
	}
	return "ok"
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
					own := storetest.Scenario{Topic: topic, Open: open, Verbs: map[string]func(*storetest.Player, []string) string{"hand": hand}}
					player := storetest.NewPlayer(t, own)
					player.Play(bring)
					db := player.Store
					want, known := modes[strings.TrimSpace(fmt.Sprintf("%s %s %s", mode, state, then))]
					if !known {
						want = modes[fmt.Sprintf("%s %s", mode, state)]
					}
					m := notify.Message{Topic: topic, ID: "a", Body: []byte("new"), Delay: 2 * anHour, IfExists: mode, Then: then, MaxAttempts: 7}
					c := modeCase{t: t, pub: clientOf(t, db), db: db, m: m, follows: then != "" && (state == "leased" || state == "handed")}
					storetest.Is(t, "answered", c.publish()+", "+c.publish(), want)
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
		storetest.Same(c.t, fmt.Sprintf("%s changed", got), was, dump(c.t, c.db))
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
	storetest.Play(t, `
	publish a attempts=2 ttl=1h
	claim 1 = a
	publish a body=next due=future then=after = leased
	has a state=leased next=next
== acked
	ack a
	counts scheduled=1 published=2 acked=1
== acked with others
	publish b
	claim 1 = b
	ack a b
	counts scheduled=1 published=3 acked=2
== buried
	bury a reason=no
	counts scheduled=1 published=2 died=1
== last attempt
	nack a delay=0s
	pass 2ms
	carry
	claim 1 = a:1
	has a next=next body="body of a"
	nack a delay=0s = dead
	counts scheduled=1 published=2 died=1
== released
	release a
	claim 1 = a
	has a next=next body="body of a"
	ack a
	counts scheduled=1 published=2 acked=1
== lease ended
	lapse a
	carry
	claim 1 = a:1
	has a next=next body="body of a"
	lapse a
	carry = dead:a
	counts scheduled=1 published=2 died=1
== expired in a retry
	nack a delay=1h
	expire a
	carry = dead:a
	counts scheduled=1 published=2 died=1
== expired when claimed
	release a
	expire a
	claim 1 = dead:a
	counts scheduled=1 published=2 died=1
== another one without dies as ever
	publish b
	claim 1 = b
	bury b reason=no
	has b state=dead reason=no
	purge b
	ack a
== cancelled alone
	cancel a next = ok
	cancel a next = none
	publish a body=next due=future then=after = leased
	cancel a = refused:leased
	ack a
==
	has a state=scheduled body=next due=future attempts=0 next=
	cancel a = scheduled
	empty
	`, scenario())
}

// What follows is cancelled with the message once that waits.
func TestCancelBoth(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	claim 1 = a
	publish a body=next due=future then=after = leased
	nack a delay=1h
	cancel a = scheduled
	empty
	`)
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
	storetest.Same(t, "answers", want, got)
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

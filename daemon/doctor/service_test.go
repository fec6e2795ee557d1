package doctor_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// ward is a store that is examined.
type ward struct {
	t      *testing.T
	config notify.Config
	store  *notify.Store
	pub    *notify.Publisher
}

func newWard(t *testing.T) *ward {
	t.Helper()
	c := ownConfig()
	db := storetest.At(t, c.URL, c.Prefix)
	return &ward{t, c, db, storetest.Publisher(t, db)}
}

// findings returns the findings of some checks in a quick run, as VERDICT CHECK FOUND → REMEDY.
func (w *ward) findings(checks ...string) (found []string) {
	w.t.Helper()
	_, err := doctor.Run(w.t.Context(), w.config, doctor.Options{Quick: true}, func(f doctor.Finding) {
		if slices.Contains(checks, f.Check) {
			found = append(found, fmt.Sprintf("%v %s %s → %s", f.Verdict, f.Check, f.Found, f.Remedy))
		}
	})
	storetest.Must(w.t, err)
	return found
}

// seconds is a duration of less than a minute, of which a test cannot know the seconds.
var seconds = regexp.MustCompile(`\b\d{1,2}s\b`)

// expect compares the findings of a check in a quick run. Its durations of less
// than a minute are <1m.
func (w *ward) expect(check string, want ...string) {
	w.t.Helper()
	got := w.findings(check)
	for i := range got {
		got[i] = seconds.ReplaceAllString(got[i], "<1m")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", check, diff)
	}
}

func (w *ward) must(err error) {
	w.t.Helper()
	storetest.Must(w.t, err)
}

// publish publishes messages of a topic, with ids from 1 on.
func (w *ward) publish(topic string, n int, delay time.Duration) {
	w.t.Helper()
	for i := range n {
		_, err := w.pub.Publish(w.t.Context(), notify.Message{Topic: topic, ID: fmt.Sprint(i + 1), Body: []byte("x"), Delay: delay})
		w.must(err)
	}
}

// ages sets the scores of all members of a place, and of the topic in its index, to some time ago.
func (w *ward) ages(place, index, topic string, ago time.Duration) {
	w.t.Helper()
	since := float64(time.Now().Add(-ago).UnixMilli())
	members, err := w.store.Client().ZRange(w.t.Context(), place, 0, -1).Result()
	w.must(err)
	for _, member := range members {
		w.must(w.store.Client().ZAdd(w.t.Context(), place, redis.Z{Score: since, Member: member}).Err())
	}
	w.must(w.store.Client().ZAdd(w.t.Context(), index, redis.Z{Score: since, Member: topic}).Err())
}

func (w *ward) overdue(topic string, n int, ago time.Duration) {
	w.t.Helper()
	w.publish(topic, n, 0)
	w.ages(w.store.KeysOf(topic).Ready(topic), w.store.KeysOf(topic).ReadyTopics(), topic, ago)
}

// dies buries messages of a topic.
func (w *ward) dies(topic string, n int) {
	w.t.Helper()
	w.publish(topic, n, 0)
	c := subscriberstest.Claimer(w.t, w.store)
	got, err := c.Claim(w.t.Context(), topic, subscribers.ClaimOptions{Max: n, Lease: time.Minute})
	w.must(err)
	for _, d := range got {
		_, err := d.Bury(w.t.Context(), "because")
		w.must(err)
	}
}

func TestNothingIsMissing(t *testing.T) {
	w := newWard(t)
	want := []string{
		"ok overdue no message has been ready and unclaimed for more than 1m0s → ", "ok behind all due messages are ready → ", "ok paused no topic → ",
		"ok dead none in the last 24h; kept: 0 → ", "ok listeners none with a name → ",
	}
	checks := []string{"overdue", "behind", "paused", "dead", "listeners"}
	storetest.Same(t, "nothing was published", want, w.findings(checks...))
	w.publish("fresh", 1, 0)
	w.publish("later", 1, time.Hour)
	storetest.Same(t, "nothing is late", want, w.findings(checks...))
}

// A topic with unclaimed messages is reported with what is missing there, the oldest first; paused topics have a check of their own.
func TestOverdue(t *testing.T) {
	w := newWard(t)
	w.overdue("orders", 3, 22*time.Minute)
	w.overdue("busy", 2, 5*time.Minute)
	_, err := subscriberstest.Claimer(w.t, w.store).Claim(t.Context(), "busy", subscribers.ClaimOptions{Max: 1, Lease: time.Hour})
	w.must(err)
	w.overdue("hung", 1, 2*time.Minute)
	w.must(w.store.Client().ZAdd(t.Context(), w.store.KeysOf("hung").Waiting("hung"), redis.Z{Score: 1, Member: "inbox"}).Err())
	storetest.Set(t, w.store, "full", notify.SettingsChange{Concurrency: new(1)})
	w.overdue("full", 2, 4*time.Minute)
	_, err = subscriberstest.Claimer(w.t, w.store).Claim(t.Context(), "full", subscribers.ClaimOptions{Max: 2, Lease: time.Hour})
	w.must(err)
	storetest.Set(t, w.store, "slow", notify.SettingsChange{Rate: new(90 * record.PerMinute)})
	w.overdue("slow", 1, 3*time.Minute)
	w.must(w.store.Client().ZAdd(t.Context(), w.store.KeysOf("slow").Waiting("slow"), redis.Z{Score: 1, Member: "inbox"}).Err())
	w.overdue("held", 1, 3*time.Hour)
	w.must(storetest.Inspector(t, w.store).Pause(t.Context(), "held"))
	w.must(storetest.Inspector(t, w.store).Pause(t.Context(), "quiet"))
	w.publish("fresh", 1, 0)
	all := []string{
		"warn overdue orders: oldest due 22m ago, 3 ready, no subscriber waits → start a worker: bellhop work orders",
		"warn overdue busy: oldest due 5m ago, 1 ready, no subscriber waits, 1 leased → start more workers, or raise their concurrency: bellhop work busy --concurrency 8",
		"warn overdue full: oldest due 4m ago, 1 ready, 1 of at most 1 leased → raise that, if it may be: bellhop topics set full concurrency=N",
		"warn overdue slow: oldest due 3m ago, 1 ready, claimed at no more than 90/m → raise that, if it may be: bellhop topics set slow rate=N/s",
		"warn overdue hung: oldest due 2m ago, 1 ready, waiting subscribers do not claim them → check whether these workers hang; a beat rings them again",
	}
	w.expect("overdue", all...)
	w.expect("paused", "warn paused held: paused for <1m, 1 ready, oldest due 3h ago → resume it, unless the pause is intended: bellhop resume held")
	end, err := store.PauseUntil(t.Context(), w.store, "held", store.In(time.Hour))
	w.must(err)
	w.expect("paused", "warn paused held: paused for <1m, until "+end.Format(time.RFC3339)+", 1 ready, oldest due 3h ago → resume it, unless the pause is intended: bellhop resume held")
	w.must(storetest.Inspector(t, w.store).Resume(t.Context(), "held"))
	w.expect("paused", "ok paused 1 topic, with no message waiting → ")
	for _, topic := range []string{"full", "slow"} {
		for _, id := range []string{"1", "2"} {
			_, _ = w.pub.Cancel(t.Context(), topic, id)
		}
	}
	for i := range 3 {
		w.overdue(fmt.Sprintf("late%d", i), 1, 100*time.Second)
	}
	if found := w.findings("overdue"); len(found) != 6 || found[5] != "warn overdue and 2 more topics → bellhop topics --sort overdue" {
		t.Errorf("got %q", found)
	}
}

// Keys that a dead letter bars are reported, and what has to be dealt with.
func TestBarredKeys(t *testing.T) {
	w := newWard(t)
	storetest.Set(t, w.store, "ledger", notify.SettingsChange{OnDead: new("stop")})
	for _, key := range []string{"acct-7", "acct-8"} {
		storetest.Publish(t, w.store, notify.Message{Topic: "ledger", ID: "first-of-" + key, Key: key}, notify.Message{Topic: "ledger", ID: "next-of-" + key, Key: key})
	}
	w.expect("blocked", "ok blocked no dead letter bars a key → ")
	got, err := subscriberstest.Claimer(t, w.store).Claim(t.Context(), "ledger", subscribers.ClaimOptions{Max: 1, Lease: time.Hour})
	w.must(err)
	_, err = got[0].Bury(t.Context(), "because")
	w.must(err)
	w.expect("blocked", "warn blocked ledger: dead letters bar 1 key; of acct-7, 1 blocked, the oldest due <1m ago, behind first-of-acct-7 → see why, then requeue or purge what bars: bellhop keys ledger")
}

// A worker that hangs, but extends its lease, is reported, unless its attempt has an end.
func TestLongLeases(t *testing.T) {
	w := newWard(t)
	storetest.Publish(t, w.store, notify.Message{Topic: "mail", ID: "hangs"}, notify.Message{Topic: "video", ID: "takes-long", TryTimeout: time.Hour})
	claimer, err := subscribers.NewClaimer(w.store, subscribers.ClaimerOptions{Name: "mailer-1"})
	w.must(err)
	for _, topic := range []string{"mail", "video"} {
		_, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Lease: time.Hour})
		w.must(err)
	}
	w.expect("leases", "ok leases no worker has had a message without a try_timeout for more than 15m → ")
	for _, topic := range []string{"mail", "video"} {
		claims := w.store.KeysOf(topic).Claims()
		all, err := w.store.Client().ZRangeWithScores(t.Context(), claims, 0, -1).Result()
		w.must(err)
		for _, one := range all { // a base, since when in ms, the topic and the worker
			f := strings.Fields(one.Member.(string))
			if f[2] != topic {
				continue
			}
			since, err := strconv.ParseInt(f[1], 10, 64)
			w.must(err)
			f[1] = fmt.Sprint(since - (20 * time.Minute).Milliseconds())
			w.must(w.store.Client().ZRem(t.Context(), claims, one.Member).Err())
			w.must(w.store.Client().ZAdd(t.Context(), claims, redis.Z{Score: one.Score, Member: strings.Join(f, " ")}).Err())
		}
	}
	w.expect("leases", "warn leases mail: mailer-1 has had hangs for 20m → if it hangs: bellhop cancel mail hangs --stop; publish with try_timeout, after which an attempt ends")
}

// sendPushes has a daemon be there that may send pushes to URLs.
func (w *ward) sendPushes() {
	w.t.Helper()
	channel := w.store.Home().PushersChannel(false)
	storetest.Run(w.t, func(ctx context.Context) error {
		w.store.Subscribe(ctx, func(store.Event) {}, channel)
		return nil
	})
	storetest.Eventually(w.t, "a daemon may send pushes", func() bool {
		n, err := w.store.Listening(w.t.Context(), channel)
		return err == nil && n == 1
	})
}

// Pushes that are paused, that no daemon sends, or whose endpoints fail, are reported.
func TestPushes(t *testing.T) {
	w := newWard(t)
	storetest.Publish(t, w.store, notify.Message{Topic: "a"})
	w.expect("pushes", "ok pushes 0, none is paused, fails or lacks a daemon → ")
	for _, name := range []string{"crm", "mail", "shop"} {
		w.must(w.store.Home().PutPush(t.Context(), store.Push{Name: name, Topics: []string{name}, URL: "https://x.example", Secrets: []string{"whsec_" + strings.Repeat("A", 32)}}))
	}
	lacks := "no daemon sends it; its messages wait → run one with BELLHOP_PUSH_ALLOW, or for a push to NATS with BELLHOP_NATS_URL"
	w.expect("pushes", "warn pushes crm: "+lacks, "warn pushes mail: "+lacks, "warn pushes shop: "+lacks)
	w.sendPushes()
	w.expect("pushes", "ok pushes 3, none is paused, fails or lacks a daemon → ")
	w.must(w.store.Home().PausePush(t.Context(), "crm", "by an operator"))
	w.must(w.store.Home().ChangePush(t.Context(), "mail", func(p *store.Push) (*store.Push, error) {
		p.Failing = &store.PushFailure{Since: time.Now().Add(-5*time.Minute - 30*time.Second), Answer: "HTTP 500 Internal Server Error"}
		return p, nil
	}))
	const paused, fails = "warn pushes crm: it is paused, by an operator; its messages wait → bellhop push resume crm", "warn pushes mail: its endpoint fails since 5m ago, with HTTP "
	w.expect("pushes", paused, fails+"500 Internal Server Error; its messages wait, and it is asked again with the next message → bellhop push test mail")
	w.must(w.store.Home().PushTried(t.Context(), "mail", 90*time.Minute, "HTTP 502 Bad Gateway"))
	w.expect("pushes", paused, fails+"502 Bad Gateway; its messages wait, and it is asked again in 1h → bellhop push test mail")
}

// What a push has, and no daemon claims, is reported with the push.
func TestOverduePushes(t *testing.T) {
	w := newWard(t)
	w.must(w.store.Home().PutPush(t.Context(), store.Push{Name: "crm", Topics: []string{"order.*"}, URL: "https://x.example", Secrets: []string{"whsec_" + strings.Repeat("A", 32)}}))
	w.must(w.store.Home().PutPush(t.Context(), store.Push{Name: "news", Topics: []string{"mail.*"}, URL: "https://x.example", Secrets: []string{"whsec_" + strings.Repeat("A", 32)}, Broadcasts: true}))
	w.overdue("order.none", 1, 4*time.Minute)
	w.overdue("order.busy", 2, 3*time.Minute)
	_, err := subscriberstest.Claimer(t, w.store).Claim(t.Context(), "order.busy", subscribers.ClaimOptions{Max: 1, Lease: time.Hour})
	w.must(err)
	w.overdue("order.hung", 1, 2*time.Minute)
	w.must(w.store.Client().ZAdd(t.Context(), w.store.KeysOf("order.hung").Waiting("order.hung"), redis.Z{Score: 1, Member: "inbox"}).Err())
	w.overdue("mail.in", 1, 61*time.Second)
	const mail = "warn overdue mail.in: oldest due 1m ago, 1 ready, no subscriber waits → start a worker: bellhop work mail.in"
	w.expect("overdue",
		"warn overdue order.none: oldest due 4m ago, 1 ready, no daemon works for their push crm → run one with BELLHOP_PUSH_ALLOW, or for a push to NATS with BELLHOP_NATS_URL; where such daemons are busy with 1,000 topics each that patterns match, another one",
		"warn overdue order.busy: oldest due 3m ago, 1 ready, 1 leased by the push crm → raise its --in-flight, if its endpoint is fast enough, or run another daemon: bellhop push show crm",
		"warn overdue order.hung: oldest due 2m ago, 1 ready, those that wait for the push crm do not claim them → check whether their daemons hang; a beat rings them again",
		mail)
	w.must(w.store.Home().PausePush(t.Context(), "crm", "by an operator"))
	waits := func(topic, minutes string) string {
		return "warn overdue " + topic + ": oldest due " + minutes + " ago, 1 ready, their push crm is paused, or fails → see the check of pushes below"
	}
	w.expect("overdue", waits("order.none", "4m"), waits("order.busy", "3m"), waits("order.hung", "2m"), mail)
}

func TestBehind(t *testing.T) {
	w := newWard(t)
	w.publish("later", 1, time.Hour)
	w.ages(w.store.KeysOf("later").Scheduled("later"), w.store.KeysOf("later").ScheduledTopics(), "later", 3*time.Minute)
	const remedy = "see the check of the carrier above; a live carrier works this off by itself, oldest first"
	w.expect("behind", "warn behind 1 topic with overdue messages that are not ready yet; the oldest is of later, due 3m ago → "+remedy)
	if storetest.Shards() == 1 {
		w.expect("carrier", "fail carrier none is elected, so what is scheduled does not become due → start one: bellhop serve")
	}
	_, err := w.pub.Cancel(t.Context(), "later", "1")
	w.must(err)
	_, err = w.pub.Broadcast(t.Context(), notify.Message{Topic: "news", ID: "1", Body: []byte("x"), Delay: time.Hour})
	w.must(err)
	w.must(w.store.Client().ZAdd(t.Context(), w.store.KeysOf("news").Broadcasts(), redis.Z{Score: float64(time.Now().Add(-time.Hour).UnixMilli()), Member: "news:1"}).Err())
	w.expect("behind", "warn behind overdue broadcasts are not sent; the oldest was due 1h ago → "+remedy)
}

// New deaths are reported as long as their dead letters are kept; old dead letters are no finding.
func TestNewDeaths(t *testing.T) {
	w := newWard(t)
	w.dies("old", 3)
	w.ages(w.store.KeysOf("old").Dead("old"), w.store.KeysOf("old").NewestDeaths(), "old", 3*24*time.Hour)
	w.expect("dead", "ok dead none in the last 24h; kept: 3 → ")
	w.dies("mail", 2)
	w.must(w.store.Client().ZAdd(t.Context(), w.store.KeysOf("mail").Dead("mail"), redis.Z{Score: float64(time.Now().Add(-30 * time.Hour).UnixMilli()), Member: "mail:1"}).Err())
	w.expect("dead", "warn dead mail: 1 died in the last 24h, the newest <1m ago → see why, then requeue or purge them: bellhop dead list mail")
	_, err := storetest.Inspector(t, w.store).Purge(t.Context(), "mail", storetest.Dead(t, w.store, "mail")...)
	w.must(err)
	w.expect("dead", "ok dead none in the last 24h; kept: 3 → ")
}

// A named listener is reported when it is far behind, and when the log soon drops what it has not seen.
func TestListenersBehind(t *testing.T) {
	w := newWard(t)
	storetest.Found(t, w.store)
	client, keys := w.store.Client(), w.store.KeysOf("prices.gold")
	send := func(ago time.Duration, prev notify.Position) notify.Position {
		t.Helper()
		at := notify.Position(time.Now().Add(-ago).UnixMicro())
		w.must(client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Log("prices.gold"), ID: at.String(), Values: []any{"id", at.String(), "prev", prev.String()}}).Err())
		w.must(client.ZAdd(t.Context(), keys.Logs(), redis.Z{Score: float64(at), Member: "prices.gold"}).Err())
		return at
	}
	for _, keys := range w.store.KeysOfAll() {
		w.must(client.HSet(t.Context(), keys.Listeners(), "billing", "prices.> beginning 0 0 store").Err())
	}
	w.expect("listeners", "ok listeners 1 listener with a name, none of them more than 1m0s behind → ")
	const remedy = "listen again: bellhop listen 'prices.>' --name billing; or remove it: bellhop listeners remove billing"
	last := send(22*time.Minute, 0)
	w.expect("listeners", "warn listeners billing: is 22m behind, nobody listens → "+remedy)
	send(time.Second, last)
	w.must(client.HSet(t.Context(), keys.Places("billing"), "prices.gold", int64(last)-1).Err())
	w.must(client.XTrimMaxLen(t.Context(), keys.Log("prices.gold"), 1).Err())
	w.expect("listeners", "warn listeners billing: has missed broadcasts that the log no longer keeps, nobody listens → "+remedy)
	w.must(client.HSet(t.Context(), keys.Places("billing"), "prices.gold", int64(last)).Err())
	w.expect("listeners", "warn listeners billing: is <1m behind, and its next broadcasts will soon be removed from the log, nobody listens → "+remedy)
	subscribed, stop := context.WithCancel(t.Context())
	defer stop()
	events := make(chan struct{}, 10)
	go w.store.Subscribe(subscribed, func(store.Event) { events <- struct{}{} }, w.store.Home().NameChannel("billing"))
	storetest.Receive(t, "the name has a subscription", events)
	w.must(client.HSet(t.Context(), keys.Places("billing"), "prices.gold", 1).Err())
	w.expect("listeners", "warn listeners billing: has missed broadcasts that the log no longer keeps, somebody listens → "+
		"raise its concurrency, run more processes, or keep more in the log: BELLHOP_BROADCAST_KEEP")
}

// While a carrier is elected, the doctor reports whether another daemon would take over.
func TestStandby(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.expect("standby")
	carriers := make([]*carrier.Carrier, 2)
	for i := range carriers {
		c, err := carrier.New(w.store, carrier.Options{Lease: carrier.MaxLease}) // one term, or until it has its share
		w.must(err)
		storetest.Run(t, c.Run)
		carriers[i] = c
		if i == 0 {
			storetest.Eventually(t, "it carries", func() bool { return carries(c) == storetest.Shards() })
			w.expect("standby", "warn standby none: if the carrier's machine fails, no delayed message is delivered → run a second daemon on another machine: bellhop serve")
		}
	}
	storetest.Eventually(t, "the other one stands by, and has its share", func() bool {
		n, err := store.Gather(t.Context(), w.store, carrier.Standbys)
		return err == nil && !slices.Contains(n, 0) && carries(carriers[1]) == storetest.Shards()/2
	})
	w.expect("standby", "ok standby 1 would take over → ")
}

// carries returns how many shards a carrier carries.
func carries(c *carrier.Carrier) (n int) {
	for _, s := range c.States() {
		if s.Carrying {
			n++
		}
	}
	return n
}

// An interrupted run reports what it found so far, and no fault that only the interruption caused.
func TestInterrupted(t *testing.T) {
	w := newWard(t)
	w.publish("orders", 100, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var last doctor.Finding
	o := doctor.Options{OnProgress: func(examined, _ int) {
		if examined > 0 {
			stop()
		}
	}}
	_, err := doctor.Run(ctx, w.config, o, func(f doctor.Finding) {
		if f.Verdict == doctor.Fail && f.Check != "persistence" { // the shared Redis keeps nothing
			t.Errorf("%+v", f)
		}
		last = f
	})
	want := doctor.Finding{Check: doctor.Contents, Verdict: doctor.Warn, Found: "interrupted: 0 faults found so far", Remedy: "run it again to the end; --quick leaves this check out"}
	if diff := cmp.Diff(want, last); diff != "" || err == nil {
		t.Errorf("%v, the last one is (-want +got):\n%s", err, diff)
	}
	ctx, stop = context.WithCancel(t.Context())
	var checks []string
	_, err = doctor.Run(ctx, w.config, doctor.Options{}, func(f doctor.Finding) {
		if checks = append(checks, f.Check); f.Check == "clock" { // the run now waits for a beat
			stop()
		}
	})
	if err == nil || checks[len(checks)-1] != "clock" {
		t.Errorf("%v, checks are %v", err, checks)
	}
}

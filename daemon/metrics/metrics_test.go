package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const topic = "orders"

// newMetrics returns metrics whose scrapes each ask Redis, unless the options say otherwise.
func newMetrics(t testing.TB, store *notify.Store, o metrics.Options) *metrics.Metrics {
	t.Helper()
	if o.Fresh == 0 {
		o.Fresh = time.Nanosecond
	}
	m, err := metrics.New(store, o)
	storetest.Must(t, err)
	return m
}

// get scrapes over HTTP and returns the text.
func get(t testing.TB, handler http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("the scrape is answered with %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// ofShards finds the labels that only a store of several shards has.
var ofShards = regexp.MustCompile(`,?(?:shard|server)="[^"]*"`)

// together returns the series of a scrape with those of all shards as one: their sum, or of
// what is not to be added up the greatest, and of bellhop_redis_up the least.
func together(all map[string]float64) map[string]float64 {
	one := make(map[string]float64)
	for name, value := range all {
		short := strings.NewReplacer("{}", "", "{,", "{").Replace(ofShards.ReplaceAllString(name, ""))
		was, there := one[short]
		switch {
		case !there || short == name:
			one[short] = value
		case short == "bellhop_redis_up":
			one[short] = min(was, value)
		case short == "bellhop_carrier_kept" || strings.HasPrefix(short, "bellhop_fallbacks"):
			one[short] = was + value
		default:
			one[short] = max(was, value)
		}
	}
	return one
}

// state returns what a carrier does for all shards together.
func state(c *carrier.Carrier) (sum carrier.State) {
	sum.Heard = 1
	for _, s := range c.States() {
		sum.Moved += s.Moved
		sum.Kept += s.Kept
		sum.Lapsed += s.Lapsed
		sum.Heard = min(sum.Heard, s.Heard)
	}
	return sum
}

// scrape returns the series of a scrape, each by its name and labels.
func scrape(t testing.TB, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	series := make(map[string]float64)
	for line := range strings.Lines(get(t, m.Handler())) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		series[line[:at]] = value
	}
	return series
}

// want checks the values of series.
func want(t testing.TB, got, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if have, ok := got[name]; !ok || have != value {
			t.Errorf("%s is %v (there: %v), want %v", name, have, ok, value)
		}
	}
}

func publish(t testing.TB, store *notify.Store, topic string, n int, delay time.Duration) {
	t.Helper()
	var messages []notify.Message
	for range n {
		messages = append(messages, notify.Message{Topic: topic, Body: []byte("x"), Delay: delay})
	}
	storetest.Publish(t, store, messages...)
}

// history makes one of each thing that is counted by topic.
func history(t testing.TB, store *notify.Store) {
	t.Helper()
	publish(t, store, topic, 7, 0)
	publish(t, store, topic, 2, time.Hour)
	claimer := subscriberstest.Claimer(t, store)
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 5, Lease: time.Hour})
	if err != nil || len(ds) != 5 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	for _, d := range ds[:2] {
		storetest.Must(t, d.Ack(t.Context()))
	}
	storetest.Must(t, storetest.ErrOf(ds[2].Bury(t.Context(), "for a test")))
	storetest.Publish(t, store,
		notify.Message{Topic: "prices", Broadcast: true, Body: []byte("x"), Delay: time.Millisecond},
		notify.Message{Topic: "prices", Broadcast: true, Body: []byte("x"), Delay: time.Hour})
}

func TestHistory(t *testing.T) {
	store, began := storetest.Open(t), time.Now()
	m := newMetrics(t, store, metrics.Options{Version: "v1.2.3"})
	store.Observe(m.Observe)
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MaxLease, OnCarried: m.Carried})
	storetest.Must(t, err)
	m.ShowCarrier(c.States)
	want(t, together(scrape(t, m)), map[string]float64{
		"bellhop_is_carrier": 0, "bellhop_carrier_heard": 0, "bellhop_carrier_epoch": 0, "bellhop_carrier_elected": 0, "bellhop_topics": 0,
		"bellhop_carrier_progress_timestamp_seconds": 0, "bellhop_redis_up": 1,
	})
	history(t, store)
	publish(t, store, "soon", 3, time.Millisecond)
	storetest.Run(t, c.Run) // its first call counts what is kept
	storetest.Eventually(t, "it has carried and counted", func() bool { s := state(c); return s.Moved == 4 && s.Kept == 11 && s.Heard == 1 })

	storetest.Must(t, storetest.Inspector(t, store).Pause(t.Context(), topic))
	var got map[string]float64
	storetest.Eventually(t, "what was carried is told", func() bool { // behind the state
		got = together(scrape(t, m))
		return got["bellhop_carried_total"] == 4 && got["bellhop_is_carrier"] == 1 && got["bellhop_carrier_heard"] == got["bellhop_carrier_epoch"]
	})
	passed := time.Since(began).Seconds()
	if late := got[`bellhop_last_claim_lateness_seconds{topic="orders"}`]; late <= 0 || late > passed {
		t.Errorf("the last claim was late by %v s", late)
	}
	want(t, got, map[string]float64{
		`bellhop_build_info{version="v1.2.3"}`:               1,
		`bellhop_messages{state="scheduled",topic="orders"}`: 2,
		`bellhop_messages{state="ready",topic="orders"}`:     2,
		`bellhop_messages{state="leased",topic="orders"}`:    2,
		`bellhop_messages{state="dead",topic="orders"}`:      1,
		`bellhop_messages{state="ready",topic="soon"}`:       3,
		`bellhop_published_total{topic="orders"}`:            9,
		`bellhop_acknowledged_total{topic="orders"}`:         2,
		`bellhop_died_total{topic="orders"}`:                 1,
		`bellhop_paused{topic="orders"}`:                     1,
		`bellhop_paused{topic="soon"}`:                       0,
		`bellhop_waiting_subscribers{topic="orders"}`:        0,
		`bellhop_scheduled_broadcasts{topic="prices"}`:       1,
		`bellhop_broadcasts_sent_total{topic="prices"}`:      1,
		`bellhop_log_broadcasts{topic="prices"}`:             1,
		`bellhop_messages{state="dead",topic="other"}`:       0,
		`bellhop_oldest_overdue_seconds{topic="other"}`:      0,
		"bellhop_topics":                                         3,
		"bellhop_is_carrier":                                     1,
		"bellhop_carrier_elected":                                1,
		"bellhop_carrier_epoch":                                  1,
		"bellhop_carrier_kept":                                   11,
		"bellhop_carried_total":                                  4,
		"bellhop_ready_lateness_seconds_count":                   3,
		`bellhop_fallbacks_total{part="carrier"}`:                0,
		`bellhop_fallbacks_total{part="ring"}`:                   0,
		`bellhop_script_seconds_count{script="ack"}`:             2,
		`bellhop_script_seconds_count{script="claim"}`:           1,
		`bellhop_script_errors_total{script="ack"}`:              0,
		`bellhop_script_seconds_bucket{script="nack",le="+Inf"}`: 1,
		`bellhop_redis_up`:                                       1,
		`bellhop_redis_pool_timeouts_total`:                      0,
	})
	if overdue := got[`bellhop_oldest_overdue_seconds{topic="orders"}`]; overdue <= 0 || overdue > passed {
		t.Errorf("overdue by %v s", overdue)
	}
	if late := got["bellhop_carrier_lateness_seconds"]; late <= 0 || late > got["bellhop_ready_lateness_seconds_sum"] {
		t.Errorf("late by %v s, all in all %v s", late, got["bellhop_ready_lateness_seconds_sum"])
	}
	if at, now := got["bellhop_carrier_progress_timestamp_seconds"], float64(time.Now().UnixMilli())/1000; at > now || at < now-passed-1 {
		t.Errorf("progress at %v, now is %v, and it began %v s ago", at, now, passed)
	}
	for _, name := range []string{
		"bellhop_redis_scrape_seconds", "bellhop_carry_seconds_sum", "bellhop_redis_pool_hits_total",
		"bellhop_redis_pool_connections", "bellhop_redis_subscriptions", "go_goroutines", "process_resident_memory_bytes",
	} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "bellhop_nats") || strings.HasPrefix(name, "bellhop_listener") || strings.Contains(name, `part="http"`) {
			t.Errorf("%s is shown, but its part is missing", name)
		}
	}
}

// Hand-overs by the carrier, by publishes of the process, and to its subscribers. Nobody answers those of here.
func TestHandovers(t *testing.T) {
	db := storetest.Open(t)
	m := newMetrics(t, db, metrics.Options{Topics: []string{topic}})
	c, err := carrier.New(db, carrier.Options{Lease: carrier.MaxLease})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	m.ShowCarrier(c.States)
	m.ShowPush(func() push.Stats { return push.Stats{Handovers: subscribers.SubscriberStats{HandedOver: 2}} })
	m.ShowHTTP(func() httpapi.Stats {
		return httpapi.Stats{Handovers: subscribers.SubscriberStats{HandedOver: 3, Dropped: 1}}
	})
	inbox := reach.NewInbox("nobody", true)
	subscribed := make(chan struct{}, 100)
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			if e.Kind == reach.Subscribed {
				subscribed <- struct{}{}
			}
		}, db.Of(topic).InboxChannel(inbox))
		return nil
	})
	storetest.Receive(t, "the subscription", subscribed)
	for i, delay := range []time.Duration{0, 10 * time.Millisecond} {
		storetest.Must(t, storetest.ErrOf(db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 1, Inbox: inbox})))
		publish(t, db, topic, 1, delay)
		storetest.Eventually(t, "it lapses", func() bool { return state(c).Lapsed == int64(i+1) })
		if got, err := db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 1, AckNow: true}); err != nil || len(got.Messages) != 1 {
			t.Fatalf("claimed %v, %v", got, err)
		}
	}
	want(t, scrape(t, m), map[string]float64{
		`bellhop_handovers_total{outcome="sent",part="publisher"}`: 1,
		`bellhop_handovers_total{outcome="sent",part="carrier"}`:   1,
		`bellhop_handovers_total{outcome="lapsed",part="carrier"}`: 2,
		`bellhop_handovers_total{outcome="received",part="push"}`:  2,
		`bellhop_handovers_total{outcome="dropped",part="push"}`:   0,
		`bellhop_handovers_total{outcome="received",part="http"}`:  3,
		`bellhop_handovers_total{outcome="dropped",part="http"}`:   1,
	})
}

// Hooks of the daemon feed these.
func TestHooks(t *testing.T) {
	m := newMetrics(t, storetest.Open(t), metrics.Options{Topics: []string{topic}})
	m.ShowCarrier(func() []carrier.State { return []carrier.State{{Fallbacks: 1, Repeated: 2}} })
	m.ShowHTTP(func() httpapi.Stats { return httpapi.Stats{Fallbacks: 5} })
	m.Carried(carrier.Carried{
		Moved: 5, Took: 3 * time.Millisecond, Fallback: true,
		Lateness: []carrier.Lateness{{Late: 50 * time.Microsecond, N: 3}, {Late: 4 * time.Millisecond, N: 1}},
	})
	m.Claimed(topic, 2*time.Second)
	m.Claimed(topic, 90*time.Second)
	m.Observe("claim", time.Millisecond, nil)
	m.Observe("claim", 3*time.Second, errors.New("refused"))
	m.Observe("claim", time.Second, fmt.Errorf("claim: %w", context.Canceled))
	m.Request("publish", http.StatusCreated, 300*time.Microsecond)
	m.Request("publish", http.StatusConflict, 300*time.Microsecond)
	want(t, scrape(t, m), map[string]float64{
		`bellhop_ready_lateness_seconds_bucket{le="0.0001"}`:                   3,
		`bellhop_ready_lateness_seconds_bucket{le="0.003"}`:                    3,
		`bellhop_ready_lateness_seconds_bucket{le="0.005"}`:                    4,
		`bellhop_ready_lateness_seconds_count`:                                 4,
		`bellhop_carry_seconds_sum`:                                            0.003,
		`bellhop_carried_total`:                                                5,
		`bellhop_fallbacks_total{part="carrier"}`:                              1,
		`bellhop_fallbacks_total{part="ring"}`:                                 2,
		`bellhop_fallbacks_total{part="http"}`:                                 5,
		`bellhop_claim_lateness_seconds_bucket{le="2.5"}`:                      1,
		`bellhop_claim_lateness_seconds_bucket{le="60"}`:                       1,
		`bellhop_claim_lateness_seconds_count`:                                 2,
		`bellhop_claimed_total{topic="orders"}`:                                2,
		`bellhop_script_seconds_count{script="claim"}`:                         3,
		`bellhop_script_errors_total{script="claim"}`:                          1,
		`bellhop_http_requests_total{code="201",operation="publish"}`:          1,
		`bellhop_http_requests_total{code="409",operation="publish"}`:          1,
		`bellhop_http_request_seconds_bucket{operation="publish",le="0.0002"}`: 0,
		`bellhop_http_request_seconds_bucket{operation="publish",le="0.0005"}`: 2,
	})
}

// What asked to be dropped is counted by topic, and leaves no dead letter.
func TestDropped(t *testing.T) {
	store := storetest.Open(t)
	m := newMetrics(t, store, metrics.Options{Topics: []string{topic}})
	want(t, scrape(t, m), map[string]float64{`bellhop_dropped_total{topic="other"}`: 0})
	claimer := subscriberstest.Claimer(t, store)
	for _, topic := range []string{topic, topic, "hasty"} {
		storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("x"), Fail: notify.FailDrop, MaxAttempts: 1})
		ds, err := claimer.Claim(t.Context(), topic)
		if err != nil || len(ds) != 1 {
			t.Fatalf("claimed %d, %v", len(ds), err)
		}
		storetest.Must(t, storetest.ErrOf(ds[0].Nack(t.Context(), 0, "for a test")))
	}
	storetest.Eventually(t, "it is counted", func() bool { // scrapes share an answer for a while
		got := scrape(t, m)
		return got[`bellhop_dropped_total{topic="orders"}`] == 2 && got[`bellhop_dropped_total{topic="hasty"}`] == 1
	})
	want(t, scrape(t, m), map[string]float64{`bellhop_died_total{topic="orders"}`: 0, `bellhop_messages{state="dead",topic="orders"}`: 0})
}

// fill sets the counters of a struct to numbers of their own, and returns how many there are.
func fill(counters any, from int64) (n int64) {
	for _, field := range reflect.ValueOf(counters).Elem().Fields() {
		if field.Kind() == reflect.Int64 {
			n++
			field.SetInt(from + n)
		}
	}
	return n
}

// All counters of a gateway and a listener are shown, future ones included.
func TestEveryCounterIsShown(t *testing.T) {
	gate := natsgate.Stats{Connected: true, Endpoints: map[string]natsgate.Tally{"claim": {Requests: 9001, Refused: 9002, Failed: 9003}}}
	var listener subscribers.ListenerStats
	var publisher notify.PublisherStats
	ofGate, ofListener, ofPublisher := fill(&gate, 1000), fill(&listener, 2000), fill(&publisher, 3000)
	m := newMetrics(t, storetest.Open(t), metrics.Options{})
	m.ShowNATS(func() natsgate.Stats { return gate })
	m.ShowHTTP(func() httpapi.Stats { return httpapi.Stats{Listener: listener, Publisher: publisher, Snoozed: 4000} })
	got := scrape(t, m)
	shown := make(map[float64]string)
	for name, value := range got {
		if strings.HasPrefix(name, "bellhop_") {
			shown[value] = name
		}
	}
	for i := range ofGate {
		if name := shown[float64(1001+i)]; !strings.HasPrefix(name, "bellhop_nats_") {
			t.Errorf("field %d of natsgate.Stats is shown as %q", i, name)
		}
	}
	for i := range ofListener {
		if name := shown[float64(2001+i)]; !strings.HasPrefix(name, "bellhop_listener_") {
			t.Errorf("field %d of subscribers.ListenerStats is shown as %q", i, name)
		}
	}
	for i := range ofPublisher {
		if name := shown[float64(3001+i)]; !strings.HasPrefix(name, "bellhop_publishes_total{") {
			t.Errorf("field %d of notify.PublisherStats is shown as %q", i, name)
		}
	}
	want(t, got, map[string]float64{
		`bellhop_publishes_total{outcome="moved",part="http"}`: float64(publisher.Moved), `bellhop_publishes_total{outcome="kept",part="nats"}`: 0,
		"bellhop_http_snoozed_total": 4000, "bellhop_nats_snoozed_total": float64(gate.Snoozed),
		"bellhop_nats_up": 1, "bellhop_nats_late_answers_total": float64(gate.LateAnswers), "bellhop_listener_gaps_total": float64(listener.Gaps),
		`bellhop_nats_requests_total{endpoint="claim"}`:         9001,
		`bellhop_nats_refused_requests_total{endpoint="claim"}`: 9002,
		`bellhop_nats_failed_requests_total{endpoint="claim"}`:  9003,
	})
}

// full returns metrics that show all series.
func full(t testing.TB, store *notify.Store) *metrics.Metrics {
	t.Helper()
	m := newMetrics(t, store, metrics.Options{Version: "v1", Topics: []string{topic}})
	m.ShowCarrier(func() []carrier.State { return make([]carrier.State, 1) })
	m.ShowNATS(func() natsgate.Stats {
		return natsgate.Stats{Endpoints: map[string]natsgate.Tally{"claim": {}, "publish": {}}}
	})
	m.ShowHTTP(func() httpapi.Stats { return httpapi.Stats{} })
	m.ShowPush(func() push.Stats { return push.Stats{Failing: []string{"crm"}} })
	m.ShowArchive(archivetest.Open(t, store, archive.Options{URL: "postgres://nobody@127.0.0.1:1/none"}))
	url := databasetest.Database(t)
	_, err := outbox.Install(t.Context(), database.Address{URL: url}, outbox.InstallOptions{})
	storetest.Must(t, err)
	m.ShowOutbox(openOutbox(t, store, url))
	m.Claimed(topic, time.Millisecond)
	m.Observe("claim", time.Millisecond, nil)
	m.Request("publish", http.StatusCreated, time.Millisecond)
	publish(t, store, topic, 2, 0)
	put(t, store, "crm")
	claimer := subscriberstest.Claimer(t, store)
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 2, Lease: time.Hour})
	if err != nil || len(ds) != 2 {
		t.Fatalf("claimed %d, %v", len(ds), err)
	}
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "for a test")))
	return m
}

func TestLint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(get(t, full(t, storetest.Open(t)).Handler()))).Lint()
	storetest.Must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// If Redis is down or does not answer, the metrics kept in Redis are left out.
func TestRedisAway(t *testing.T) {
	server := storetest.Server(t)
	store := storetest.At(t, server.URL(), "")
	m := full(t, store)
	storetest.Eventually(t, "what Redis keeps is shown", func() bool {
		got := together(scrape(t, m))
		return got["bellhop_redis_up"] == 1 && got[`bellhop_published_total{topic="orders"}`] == 2
	})
	away := func() {
		t.Helper()
		got := together(scrape(t, m))
		want(t, got, map[string]float64{"bellhop_redis_up": 0, "bellhop_is_carrier": 0, `bellhop_claimed_total{topic="orders"}`: 1})
		for name := range got {
			if strings.HasPrefix(name, "bellhop_published") || strings.HasPrefix(name, "bellhop_topics") || strings.HasPrefix(name, "bellhop_carrier_elected") {
				t.Errorf("%s is shown", name)
			}
		}
	}
	// It does not answer for longer than a test may take, and is then stopped.
	pause := storetest.At(t, server.URL(), "")
	storetest.Must(t, pause.Client().Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "ALL").Err())
	away()
	server.Kill()
	away()
}

// Scrapes at the same time share an answer of Redis, and those above the limit are refused at once.
func TestConcurrentScrapes(t *testing.T) {
	store := storetest.Open(t)
	var asked atomic.Int64
	store.Observe(func(string, time.Duration, error) { asked.Add(1) })
	publish(t, store, topic, 2, 0)
	before := asked.Load()
	scrape(t, newMetrics(t, store, metrics.Options{}))
	one := asked.Load() - before

	m := newMetrics(t, store, metrics.Options{Fresh: time.Hour})
	var held atomic.Int64
	release := make(chan struct{})
	m.ShowHTTP(func() httpapi.Stats {
		held.Add(1)
		<-release
		return httpapi.Stats{}
	})
	handler := m.Handler()
	answered := func() int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return answer.Code
	}
	before = asked.Load()
	var all sync.WaitGroup
	for range metrics.MaxScrapes {
		all.Go(func() {
			if code := answered(); code != http.StatusOK {
				t.Errorf("answered with %d", code)
			}
		})
	}
	storetest.Eventually(t, "all are under way", func() bool { return held.Load() == metrics.MaxScrapes })
	for range 8 {
		if code := answered(); code != http.StatusServiceUnavailable {
			t.Errorf("one too many is answered with %d", code)
		}
	}
	close(release)
	all.Wait()
	if n := asked.Load() - before; n != one {
		t.Errorf("they ran %d scripts, a single one runs %d", n, one)
	}
}

// The metrics may be fed during a scrape.
func TestHooksBesideScrapes(t *testing.T) {
	store := storetest.Open(t)
	m := newMetrics(t, store, metrics.Options{TopicLimit: 5, Topics: []string{"topic-0-7"}})
	publish(t, store, topic, 1, 0)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				m.Claimed(fmt.Sprint("topic-", i, "-", n), time.Millisecond)
				m.Observe("claim", time.Millisecond, nil)
				m.Carried(carrier.Carried{Moved: 1, Lateness: []carrier.Lateness{{Late: time.Millisecond, N: 1}}})
				m.Request("claim", http.StatusOK, time.Millisecond)
			}
		})
	}
	for range 5 {
		scrape(t, m)
	}
	all.Wait()
	got := scrape(t, m)
	want(t, got, map[string]float64{"bellhop_claim_lateness_seconds_count": 800, "bellhop_ready_lateness_seconds_count": 800})
	claimed := 0
	for name := range got {
		if strings.HasPrefix(name, "bellhop_claimed_total") {
			claimed++
		}
	}
	if claimed != 2 || got[`bellhop_claimed_total{topic="topic-0-7"}`] != 1 || got[`bellhop_claimed_total{topic="other"}`] != 799 {
		t.Errorf("%d topics have a label, want the listed one and other", claimed)
	}
}

// BenchmarkScrape scrapes 100 topics.
func BenchmarkScrape(b *testing.B) {
	store := storetest.Open(b)
	m := full(b, store)
	for i := range metrics.DefaultTopicLimit {
		publish(b, store, fmt.Sprint("topic-", i), 3, time.Duration(i%2)*time.Hour)
	}
	handler := m.Handler()
	size := 0
	for b.Loop() {
		size = len(get(b, handler))
	}
	b.ReportMetric(float64(size), "bytes/scrape")
}

func BenchmarkObserve(b *testing.B) {
	m := newMetrics(b, storetest.Open(b), metrics.Options{})
	for b.Loop() {
		m.Observe("claim", time.Millisecond, nil)
	}
}

func BenchmarkCarried(b *testing.B) {
	m := newMetrics(b, storetest.Open(b), metrics.Options{})
	c := carrier.Carried{Moved: 500, Lateness: []carrier.Lateness{{Late: time.Millisecond, N: 500}}}
	for b.Loop() {
		m.Carried(c)
	}
}

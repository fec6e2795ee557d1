package dev_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/dev"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// began is when the clocks of the tests begin.
var began = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// A shop is a bellhop dev with a manual clock, and what a test does with it.
type shop struct {
	*testing.T
	url   string
	said  *storetest.Log
	store *notify.Store
	stop  func()
}

func options(t *testing.T, vars ...string) dev.Options {
	t.Helper()
	c, err := daemon.Load(vars)
	storetest.Must(t, err)
	return dev.Options{Config: c, Clock: dev.Manual, At: began, Command: "bellhop", Out: io.Discard, Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, vars ...string) *shop {
	t.Helper()
	return openAt(t, began, vars...)
}

func openAt(t *testing.T, at time.Time, vars ...string) *shop {
	t.Helper()
	storetest.OneShard(t, "a Redis in memory holds one")
	s := &shop{T: t, url: fmt.Sprintf("http://127.0.0.1:%d", storetest.Port(t)), said: &storetest.Log{}}
	o := options(t, append(vars, "BELLHOP_LISTEN="+strings.TrimPrefix(s.url, "http://"))...)
	o.At, o.Out, o.Logger = at, s.said, s.said.Logger(slog.LevelWarn)
	s.stop = storetest.Run(t, func(ctx context.Context) error { return dev.Run(ctx, o) })
	storetest.Eventually(t, "it is ready", func() bool {
		resp, err := http.Get(s.url + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	s.store = storetest.With(t, notify.Config{URL: "redis://" + regexp.MustCompile(`in memory on ([\d.:]+)`).FindStringSubmatch(s.said.String())[1]})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		for _, wrong := range []string{"deposed", "NTP", "cannot"} {
			if strings.Contains(s.said.String(), wrong) {
				t.Errorf("it logged: %s", s.said)
			}
		}
	})
	return s
}

// call makes a call, and returns its answer.
func (s *shop) call(method, path, body string) (status int, answer []byte) {
	s.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(s.Context()), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Error(err)
		return 0, nil
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(resp.Body)
	return resp.StatusCode, answer
}

// change makes a call that succeeds.
func (s *shop) change(method, path, body string) {
	s.Helper()
	if status, answer := s.call(method, path, body); status >= 300 {
		s.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}

// advance moves the clock, and waits for longer than a machine stands still, unless it is told for how long.
func (s *shop) advance(query string) (a calls.Advanced) {
	s.Helper()
	if !strings.Contains(query, "wait=") {
		query += "&wait=5m"
	}
	status, answer := s.call("POST", "/v1/clock?"+query, "")
	if err := json.Unmarshal(answer, &a); status != http.StatusOK || err != nil {
		s.Errorf("%s: %d %s", query, status, answer)
	}
	return a
}

// refused moves the clock in vain.
func (s *shop) refused(status int, query string, says ...string) {
	s.Helper()
	got, answer := s.call("POST", "/v1/clock?"+query, "")
	if got != status {
		s.Errorf("%s: %d %s, want %d", query, got, answer, status)
	}
	for _, part := range says {
		if !strings.Contains(string(answer), part) {
			s.Errorf("%s: %s, want %s", query, answer, part)
		}
	}
}

func (s *shop) now() time.Time {
	s.Helper()
	now, err := s.store.Client().Time(s.Context()).Result()
	storetest.Should(s, err)
	return now.UTC()
}

func (s *shop) publish(topic, id string, delay time.Duration) {
	s.Helper()
	storetest.Publish(s.T, s.store, notify.Message{Topic: topic, ID: id, Delay: delay})
}

// A handled is a message that a worker handled, and when.
type handled struct {
	ID      string
	Attempt int
	At      time.Duration // since the clock began
}

// worker handles the messages of a topic over HTTP, and settles them as it is told. What it handled is returned at the end of the test, or by the function.
func (s *shop) worker(topic string, settle func(d api.Delivery) (path string)) func() []handled {
	s.Helper()
	var mu sync.Mutex
	var all []handled
	storetest.Run(s.T, func(ctx context.Context) error {
		for ctx.Err() == nil {
			r, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/topics/"+topic+"/claim?wait=1m&worker=desk", nil)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return nil
			}
			var claimed struct{ Messages []api.Delivery }
			err = json.NewDecoder(resp.Body).Decode(&claimed)
			resp.Body.Close()
			if err != nil && ctx.Err() == nil {
				s.Errorf("the answer to a claim: %v", err)
			}
			for _, d := range claimed.Messages {
				mu.Lock()
				all = append(all, handled{d.ID, d.Attempt, s.now().Sub(began)})
				mu.Unlock()
				if path := settle(d); path != "" {
					s.call("POST", fmt.Sprintf("/v1/topics/%s/messages/%s/%s", topic, d.ID, path), "")
				}
			}
		}
		return nil
	})
	storetest.Eventually(s.T, "the worker waits", func() bool {
		n, err := s.store.Client().ZCard(s.Context(), s.store.Keys().Waiting(topic)).Result()
		return err == nil && n > 0
	})
	return func() []handled {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func acks(d api.Delivery) string { return fmt.Sprint("ack?receipt=", d.Receipt) }

func (s *shop) want(got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("want - got +:\n%s", diff)
	}
}

// Three days of a schedule pass at once, each occurrence at its very time. Where nothing is due time goes on.
func TestThreeDays(t *testing.T) {
	t.Parallel()
	s := open(t)
	got := s.worker("report", acks)
	s.change("PUT", "/v1/topics/report/schedules/daily", `{"cron":"30 2 * * *","body":""}`)
	a := s.advance("advance=72h")
	first := 2*time.Hour + 30*time.Minute
	for i, one := range got() {
		s.want(one.At, first+time.Duration(i)*24*time.Hour)
	}
	next := began.Add(72*time.Hour + first)
	s.want(a, calls.Advanced{Clock: calls.Clock{Now: began.Add(72 * time.Hour), Scheduled: 2, Next: &next}, Steps: a.Steps, Published: a.Published, Delivered: 3})
	s.want(s.advance("next=true").Now, next)
	s.want(len(got()), 4)
	s.change("DELETE", "/v1/topics/report/schedules/daily", "")
	s.want(s.advance("next=true"), calls.Advanced{Clock: calls.Clock{Now: next}})
	to := next.Add(365 * 24 * time.Hour)
	s.want(s.advance("to="+to.Format(time.RFC3339)), calls.Advanced{Clock: calls.Clock{Now: to}})
	to = to.Add(time.Microsecond) // time ends at no fraction of one
	s.want(s.advance("to="+to.Add(-1).Format(time.RFC3339Nano)), calls.Advanced{Clock: calls.Clock{Now: to}})
}

// Retries come after their backoffs, and what fails too often is dead.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := open(t)
	got := s.worker("mail", func(d api.Delivery) string { return fmt.Sprintf("nack?receipt=%d&delay=%dm", d.Receipt, d.Attempt*10) })
	storetest.Publish(t, s.store, notify.Message{Topic: "mail", ID: "a", Delay: time.Minute, MaxAttempts: 3})
	a := s.advance("advance=1h")
	s.want(got(), []handled{{"a", 1, time.Minute}, {"a", 2, 11 * time.Minute}, {"a", 3, 31 * time.Minute}})
	s.want(a, calls.Advanced{Clock: calls.Clock{Now: began.Add(time.Hour)}, Steps: 3, Dead: 1})
}

// Time does not pass a handler that hangs, unless that is asked for. Then its lease ends as in life, and no other is waited for less.
func TestHangs(t *testing.T) {
	t.Parallel()
	s := open(t)
	begun := make(chan bool, 9)
	hangs := s.worker("slow", func(api.Delivery) string { begun <- true; return "" })
	s.publish("slow", "a", 0)
	storetest.Receive(t, "the handler begins", begun)
	s.refused(409, "advance=1h&wait=50ms", "urn:bellhop:not-quiet", "slow:a is leased by desk", "force=true", began.Format(time.RFC3339))
	s.want(s.now(), began)
	_, answer := s.call("GET", "/v1/clock", "")
	var c calls.Clock
	if err := json.Unmarshal(answer, &c); err != nil || c.Next == nil || c.Next.Sub(began).Round(time.Second) != 30*time.Second {
		t.Errorf("the lease ends as %s says", answer)
	}
	got := s.worker("mail", acks)
	s.publish("mail", "b", time.Second)
	s.want(s.advance("advance=40s&wait=5s&force=true").Now, began.Add(40*time.Second))
	s.want(got(), []handled{{"b", 1, time.Second}})
	attempts := hangs()
	if len(attempts) != 2 || attempts[1].Attempt != 2 || attempts[1].At.Round(time.Second) != 30*time.Second {
		t.Errorf("it came as %v", attempts)
	}
}

// Of much that is in hand the answer names some.
func TestManyHang(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 12 {
		s.publish("slow", fmt.Sprintf("%02d", i), 0)
		s.change("POST", "/v1/topics/slow/claim?worker=desk", "")
	}
	s.refused(409, "next=true&wait=0s", "slow:00 is leased by desk, slow:01 is leased by desk", "slow:09 is leased by desk, and 2 more")
	s.want(s.now(), began)
	s.want(s.advance("advance=20s&wait=0s&force=true").Now, began.Add(20*time.Second)) // their leases last
	s.advance("advance=20s&wait=0s&force=true")
	n, err := storetest.Count(s.store, "slow")
	s.want(err, nil)
	s.want(n.Ready, int64(12))
	for _, worker := range []string{"till", "desk"} {
		s.change("POST", "/v1/topics/slow/claim?worker="+worker, "")
	}
	s.refused(409, "next=true&wait=0s", "slow:00 is leased by desk or till, slow:01 is leased by desk or till") // which one, nobody can tell
}

// What a second advance is told of the first.
func TestTwoAdvances(t *testing.T) {
	t.Parallel()
	s := open(t)
	begun, end := make(chan bool, 1), make(chan bool)
	s.worker("slow", func(d api.Delivery) string {
		begun <- true
		<-end
		return acks(d)
	})
	s.publish("slow", "a", time.Minute)
	first := make(chan calls.Advanced)
	go func() { first <- s.advance("advance=1h&wait=5m") }()
	storetest.Receive(t, "the handler begins", begun)
	s.refused(409, "next=true", "urn:bellhop:advancing", "2030-01-01T00:01:00Z", "2030-01-01T01:00:00Z")
	close(end)
	s.want(storetest.Receive(t, "the advance ends", first).Delivered, int64(1))
}

// An advance that waits does not hold up the stop of the daemon.
func TestStopDuringAnAdvance(t *testing.T) {
	t.Parallel()
	s := open(t)
	begun := make(chan bool, 1)
	s.worker("slow", func(api.Delivery) string { begun <- true; return "" })
	s.publish("slow", "a", time.Minute)
	ended := make(chan string)
	go func() {
		status, answer := s.call("POST", "/v1/clock?next=true&wait=5m", "")
		ended <- fmt.Sprint(status, string(answer))
	}()
	storetest.Receive(t, "the handler begins", begun)
	s.stop()
	if answer := storetest.Receive(t, "the advance ends", ended); !strings.HasPrefix(answer, "503") || !strings.Contains(answer, "the daemon is stopping") {
		t.Errorf("the advance ended with %s", answer)
	}
}

// What is published while time moves is handled at its time, or at once where that is past.
func TestPublishesMeanwhile(t *testing.T) {
	t.Parallel()
	s := open(t)
	got := s.worker("chain", func(d api.Delivery) string {
		var n int
		fmt.Sscan(d.ID, &n)
		if n < 20 {
			s.publish("chain", fmt.Sprint(n+1), time.Duration(n)*time.Minute)
		}
		return acks(d)
	})
	s.publish("chain", "1", time.Minute)
	var others sync.WaitGroup
	for i := range 4 {
		others.Go(func() {
			for n := range 25 {
				s.publish("others", fmt.Sprint(i, "-", n), time.Duration(n)*time.Minute)
			}
		})
	}
	a := s.advance("advance=6h")
	others.Wait()
	at, want := time.Minute, []handled(nil)
	for n := 1; n <= 20; n++ {
		want = append(want, handled{fmt.Sprint(n), 1, at})
		at += time.Duration(n) * time.Minute
	}
	s.want(got(), want)
	s.want(a.Delivered, int64(20))
	s.advance("advance=1h")
	n, err := storetest.Count(s.store, "others")
	s.want(err, nil)
	s.want(n.Ready, int64(100))
}

// What nobody handles does not hold time up, nor a topic that is paused, or one whose worker has left.
func TestWithoutWorkers(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.publish("nobody", "a", time.Minute)
	got := s.worker("paused", acks)
	s.change("POST", "/v1/topics/paused/pause?until=30m", "")
	s.publish("paused", "b", time.Minute)
	s.publish("left", "c", 0)
	s.change("POST", "/v1/topics/left/claim?worker=desk&ack=now", "")
	s.publish("left", "d", time.Minute)
	s.want(s.advance("advance=10m&wait=1s"), calls.Advanced{Clock: calls.Clock{Now: began.Add(10 * time.Minute), Next: new(began.Add(30 * time.Minute))}, Steps: 1})
	s.want(got(), []handled(nil))
	s.advance("advance=1h")
	s.want(got(), []handled{{"b", 1, 30 * time.Minute}})
}

// A rate lets messages go one after the other, each at its time.
func TestRate(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.change("PATCH", "/v1/topics/calls/settings", `{"rate":"1/m"}`)
	got := s.worker("calls", acks)
	for i := range 5 {
		s.publish("calls", fmt.Sprint(i), time.Minute)
	}
	s.advance("advance=1h")
	for i, one := range got() {
		s.want(one, handled{fmt.Sprint(i), 1, time.Duration(i+1) * time.Minute})
	}
	s.want(len(got()), 5)
}

// A worker of the library that waited for long, by the clock of its host, gets what is due at the same moment.
func TestWorkerOfTheLibrary(t *testing.T) {
	t.Parallel()
	s := open(t)
	var mu sync.Mutex
	var got []string
	sub := subscriberstest.Subscriber(t, s.store)
	err := sub.Handle("jobs", func(_ context.Context, d *subscribers.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(d.ID, " ", s.now().Sub(d.Due)))
		return nil
	}, subscribers.HandleOptions{})
	storetest.Must(t, err)
	storetest.Run(t, sub.Run)
	for i := range 50 {
		s.publish("jobs", fmt.Sprintf("now-%02d", i), 0)
	}
	for i := range 10 {
		s.publish("jobs", fmt.Sprintf("soon-%02d", i), time.Duration(i)*time.Millisecond+1)
	}
	s.want(s.advance("advance=1s").Scheduled, int64(0))
	mu.Lock()
	defer mu.Unlock()
	s.want(len(got), 60)
	for _, one := range got {
		if !strings.HasSuffix(one, " 0s") {
			t.Errorf("%s late", one)
		}
	}
}

// What a named listener has in hand is waited for, too.
func TestNamedListener(t *testing.T) {
	t.Parallel()
	s := open(t)
	begun, end := make(chan time.Duration, 1), make(chan bool)
	storetest.Run(t, func(ctx context.Context) error {
		return subscriberstest.Listener(t, s.store).Listen(ctx, "news", func(ctx context.Context, _ *subscribers.Broadcast) error {
			begun <- s.now().Sub(began)
			select {
			case <-end:
			case <-ctx.Done():
			}
			return nil
		}, subscribers.ListenOptions{Name: "audit"})
	})
	storetest.Eventually(t, "it listens", func() bool {
		n, err := s.store.Client().HLen(t.Context(), s.store.Keys().Listeners()).Result()
		return err == nil && n > 0
	})
	storetest.Publish(t, s.store, notify.Message{Topic: "news", Broadcast: true, Delay: time.Minute})
	go s.call("POST", "/v1/clock?next=true", "")
	s.want(storetest.Receive(t, "the broadcast comes", begun), time.Minute)
	storetest.Eventually(t, "the first advance has ended", func() bool {
		status, answer := s.call("POST", "/v1/clock?advance=1h&wait=0s", "")
		return status == http.StatusConflict && strings.Contains(string(answer), "the listener audit has broadcasts in hand")
	})
	s.want(s.now(), began.Add(time.Minute))
	close(end)
	s.want(s.advance("advance=1h").Now, began.Add(61*time.Minute))
}

// Random plans: each message is handled exactly when it is due, and in that order.
func TestRandomPlans(t *testing.T) {
	t.Parallel()
	s := open(t)
	random := rand.New(rand.NewPCG(1, 2))
	got := s.worker("plan", acks)
	handledSoFar := 0
	for plan := range 200 {
		var want []handled
		now := s.now().Sub(began)
		for i := range 1 + random.IntN(5) {
			delay := time.Duration(random.IntN(5)) * time.Duration(random.IntN(100_000)) * time.Millisecond
			id := fmt.Sprintf("%03d-%d", plan, i)
			s.publish("plan", id, delay)
			want = append(want, handled{id, 1, now + delay})
		}
		slices.SortStableFunc(want, func(a, b handled) int { return int(a.At - b.At) })
		for left := 400 * time.Second; left > 0; {
			piece := min(time.Duration(1+random.IntN(400))*time.Second, left)
			s.advance(fmt.Sprintf("advance=%v", piece))
			left -= piece
		}
		all := got()
		s.want(all[handledSoFar:], want)
		handledSoFar = len(all)
		if t.Failed() {
			return
		}
	}
}

// A clock begins at any time since 1970.
func TestBegins(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(1_000_000_000, 0), time.Unix(2_000_000_000, 0), time.Date(2059, 12, 31, 0, 0, 0, 0, time.UTC)} {
		t.Run(at.UTC().Format(time.RFC3339), func(t *testing.T) {
			t.Parallel()
			s := openAt(t, at)
			got := s.worker("mail", acks)
			s.publish("mail", "a", 0)
			s.publish("mail", "b", 90*time.Second)
			s.want(s.advance("advance=1h").Scheduled, int64(0))
			s.want(len(got()), 2)
		})
	}
}

// What is wrong is refused with a word on what would be right, and time stands.
func TestBadAdvances(t *testing.T) {
	t.Parallel()
	s := open(t)
	for query, says := range map[string]string{
		"":                                   "advance=30m, or give to, or next=true",
		"advance=0":                          "use 1ms to 87840h",
		"advance=-1h":                        "use 1ms to 87840h",
		"advance=4000d":                      "use 1ms to 87840h",
		"advance=1h&to=2030-01-02T00:00:00Z": "it is given beside advance; give one of them",
		"advance=1h&next=true":               "it is given beside advance or to; give one of them",
		"to=2029-01-02T00:00:00Z":            "give a later time",
		"to=2030-01-01T00:00:00Z":            "give a later time",
		"to=2041-01-02T00:00:00Z":            "too far ahead; give a time up to 2040-01-",
		"advance=1h&wait=1h":                 "wait",
		"next=perhaps":                       "write true or false",
	} {
		s.refused(422, query, says)
	}
	s.want(s.now(), began)
	s.advance("advance=87840h")
	s.advance("advance=87840h")
	s.refused(422, "advance=87840h", "too far ahead; give a time up to 2060-01-01T00:00:00Z")
}

// What a manual clock cannot have is refused before anything runs.
func TestBadClocks(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*dev.Options){
		"clock \"sundial\": use manual or real":                                                                                 func(o *dev.Options) { o.Clock = "sundial" },
		"at: it is when a manual clock begins; add --clock manual":                                                              func(o *dev.Options) { o.Clock = dev.Real },
		"at 1969-12-31T23:59:59Z: it is before 1970":                                                                            func(o *dev.Options) { o.At = time.Unix(-1, 0).UTC() },
		"at 2060-01-01T00:00:01Z: a manual clock shows times up to":                                                             func(o *dev.Options) { o.At = time.Date(2060, 1, 1, 0, 0, 1, 0, time.UTC) },
		"shards 8: a manual clock is that of a Redis in memory, which holds one shard; leave one of the two out":                func(o *dev.Options) { o.Shards = 8 },
		"shards 2: a manual clock is that of a Redis in memory, which holds one shard":                                          func(o *dev.Options) { o.Config.Shards = 2 },
		"BELLHOP_WAIT_REPLICAS 1: a manual clock is that of a Redis in memory, which has no replicas; leave one of the two out": func(o *dev.Options) { o.Config.WaitReplicas = 1 },
	} {
		o := options(t)
		change(&o)
		if err := dev.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// NATS has the same calls.
func TestClockOverNATS(t *testing.T) {
	t.Parallel()
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: storetest.Port(t), NoSigs: true, NoLog: true})
	storetest.Must(t, err)
	n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(storetest.Deadline) {
		t.Fatal("nats-server does not start")
	}
	s := open(t, "BELLHOP_NATS_URL="+n.ClientURL())
	conn, err := nats.Connect(n.ClientURL())
	storetest.Must(t, err)
	defer conn.Close()
	ask := func(subject, data string) string {
		var answer *nats.Msg
		storetest.Eventually(t, "the gate answers", func() bool {
			answer, err = conn.Request("bellhop."+subject, []byte(data), storetest.Deadline)
			return err == nil
		})
		return string(answer.Data)
	}
	s.publish("nobody", "a", time.Hour)
	s.want(ask("clock", ""), `{"now":"2030-01-01T00:00:00Z","scheduled":1,"next":"2030-01-01T01:00:00Z"}`)
	s.want(ask("advance", `{"next":true}`), `{"now":"2030-01-01T01:00:00Z","scheduled":0,"steps":1,"published":0,"delivered":0,"dead":0}`)
}

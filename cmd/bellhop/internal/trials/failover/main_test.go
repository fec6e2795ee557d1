package failover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestMain(m *testing.M) { storetest.MainInTime(m) }

// The topics of workers in Go, of clients over HTTP, and of broadcasts.
const (
	orders = "orders"
	mails  = "mails"
	prices = "prices"
)

// lease is the lease of messages: those claimed from a lost master come again when it expires.
const lease = 5 * time.Second

// attempts is the limit of attempts of each message, far more than any needs.
const attempts = 1000

// A ledger records which messages were published and which arrived.
type ledger struct {
	mu       sync.Mutex
	begun    map[string]time.Time // id → begin of its publish
	promised map[string]string    // id → topic, of acknowledged publishes
	arrived  map[string]int       // receiver and id → arrivals
	done     map[string]bool      // ids acknowledged over HTTP
	early    []string
	again    []string // ids that came over HTTP after their acknowledgement
	gaps     []string // of which listeners were told
	refused  map[string]int

	since time.Time // the mark
	first time.Time // when the first probe published after the mark was claimed, by Redis's clock
}

func newLedger() *ledger {
	return &ledger{
		begun: make(map[string]time.Time), promised: make(map[string]string), arrived: make(map[string]int),
		done: make(map[string]bool), refused: make(map[string]int),
	}
}

// arrives records that a receiver got a message, which was late by Redis's clock when it was claimed.
func (l *ledger) arrives(receiver, id string, due time.Time, late time.Duration) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived[receiver+" "+id]++
	if now.Before(due) {
		l.early = append(l.early, receiver+" "+id)
	}
	if strings.HasPrefix(id, "probe") && l.first.IsZero() && !l.since.IsZero() && l.begun[id].After(l.since) {
		l.first = due.Add(late)
	}
}

// mark starts measuring the time until the first probe published from now on arrives.
func (l *ledger) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Now()
}

// missing returns acknowledged messages that did not arrive at one of their receivers, by receiver.
func (l *ledger) missing() map[string][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := make(map[string][]string)
	for id, topic := range l.promised {
		to := []string{topic}
		if topic == prices {
			to = []string{"anybody", "named"}
		}
		for _, receiver := range to {
			if l.arrived[receiver+" "+id] == 0 {
				lost[receiver] = append(lost[receiver], id)
			}
		}
	}
	return lost
}

// check waits until all acknowledged messages have arrived, and fails the test for each fault.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	storetest.Poll(20*time.Millisecond, storetest.Deadline, func() bool { return len(l.missing()) == 0 })
	lost := l.missing()
	l.mu.Lock()
	defer l.mu.Unlock()
	for receiver, ids := range lost {
		t.Errorf("%s: %d were acknowledged and did not arrive, such as %v; listeners were told of gaps: %v", receiver, len(ids), ids[:min(len(ids), 10)], l.gaps)
	}
	twice := 0
	for _, n := range l.arrived {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d published, %d of them acknowledged; %d arrivals, %d more than once; refused: %v",
		len(l.begun), len(l.promised), len(l.arrived), twice, l.refused)
	if len(l.early) > 0 {
		t.Errorf("%d were early, such as %s", len(l.early), l.early[0])
	}
	if len(l.again) > 0 {
		t.Errorf("%d came again after they were acknowledged, such as %s", len(l.again), l.again[0])
	}
	if len(l.promised) == 0 {
		t.Error("nothing was acknowledged")
	}
}

// open returns a store on a Redis.
func open(t *testing.T, c notify.Config) *notify.Store {
	t.Helper()
	store, err := notify.Open(c)
	storetest.Must(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

// serve runs a daemon, and returns its URL.
func serve(t *testing.T, c notify.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	config := daemon.Config{
		RedisURL: daemon.URLs(c.URL), RedisMaster: c.Master, RedisUsername: c.Username, RedisPasswordFile: c.PasswordFile,
		RedisSentinelUsername: c.SentinelUsername, RedisSentinelPasswordFile: c.SentinelPasswordFile,
		RedisCAFile: c.CAFile, RedisCertFile: c.CertFile, RedisKeyFile: c.KeyFile, WaitReplicas: c.WaitReplicas, Prefix: c.Prefix, MetricsTopics: 100,
		CarrierLease: carrier.DefaultLease, CarrierBatch: carrier.DefaultBatch, Lease: lease, MaxAttempts: attempts,
		BroadcastKeep: daemon.Keep{Count: carrier.DefaultKeepCount, Age: carrier.DefaultKeepAge}, NatsPrefix: natsgate.DefaultPrefix,
		MaxBody: notify.DefaultMaxBody, ShutdownTimeout: 20 * time.Second,
	}
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, config, daemon.Options{Listeners: []net.Listener{l}, Logger: logger(t)})
	})
	return "http://" + l.Addr().String()
}

// setDefaults sets the topic settings of the daemons' configuration, which daemons set only after they serve.
func setDefaults(t *testing.T, c notify.Config) {
	t.Helper()
	inspector := storetest.Inspector(t, open(t, c))
	storetest.Eventually(t, "settings are taken, for which a master may miss its replicas", func() bool {
		_, err := inspector.Set(t.Context(), notify.AllTopics, notify.SettingsChange{Attempts: new(attempts), Lease: new(lease)})
		return err == nil
	})
}

// logger logs to the test's output if the test is verbose.
func logger(t *testing.T) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// work handles messages in Go.
func work(t *testing.T, c notify.Config, l *ledger) {
	t.Helper()
	sub, err := subscribers.NewSubscriber(open(t, c), subscribers.SubscriberOptions{Logger: logger(t)})
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle(orders, func(_ context.Context, d *subscribers.Delivery) error {
		l.arrives(orders, d.ID, d.Due, d.Late())
		return nil
	}, subscribers.HandleOptions{Concurrency: 16}))
	storetest.Run(t, sub.Run)
}

// rest runs an idle worker, which makes no call that would show it a new master. wake
// publishes a message and waits until the worker handled it.
func rest(t *testing.T, c notify.Config) (wake func()) {
	t.Helper()
	const topic = "rest"
	handled := make(chan string, 100)
	sub, err := subscribers.NewSubscriber(open(t, c), subscribers.SubscriberOptions{Logger: logger(t)})
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		handled <- d.ID
		return nil
	}, subscribers.HandleOptions{}))
	storetest.Run(t, sub.Run)
	store := open(t, c)
	publisher := storetest.Publisher(t, store)
	storetest.Eventually(t, "the worker waits", func() bool {
		n, err := store.Client().ZCard(t.Context(), store.Keys().Waiting(topic)).Result()
		return err == nil && n == 1
	})
	return func() {
		t.Helper()
		wanted := notify.Message{Topic: topic, ID: "wake", Body: []byte("x"), UniqueFor: time.Hour}
		storetest.Eventually(t, "a message for the idle worker is published", func() bool {
			_, err := publisher.Publish(t.Context(), wanted)
			return err == nil || errors.Is(err, notify.ErrExists)
		})
		storetest.Receive(t, "the idle worker handles a message", handled)
	}
}

// listen receives broadcasts, by a named listener and one without a name.
func listen(t *testing.T, c notify.Config, l *ledger) {
	t.Helper()
	listener := subscriberstest.Listener(t, open(t, c), subscribers.ListenerOptions{Logger: logger(t)})
	for who, o := range map[string]subscribers.ListenOptions{
		"anybody": {From: subscribers.FromBeginning()}, "named": {Name: "named", From: subscribers.FromBeginning(), Lease: lease},
	} {
		o.OnGap = func(g subscribers.Gap) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.gaps = append(l.gaps, fmt.Sprintf("%s %d to %d", who, g.After, g.UpTo))
		}
		storetest.Run(t, func(ctx context.Context) error {
			return listener.Listen(ctx, prices, func(_ context.Context, b *subscribers.Broadcast) error {
				l.arrives(who, b.ID, b.Due, 0)
				return nil
			}, o)
		})
	}
}

// poll claims and acknowledges over HTTP until the test ends.
func poll(t *testing.T, url string, l *ledger) {
	t.Helper()
	storetest.Run(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			var got struct {
				Messages []struct {
					ID      string
					Due     time.Time
					Receipt int64
				}
			}
			if status := post(ctx, url+"/v1/topics/"+mails+"/claim?max=20&wait=20s&lease="+lease.String(), &got); status != http.StatusOK {
				l.refuse(ctx, fmt.Sprintf("claim %d", status))
				continue
			}
			for _, m := range got.Messages {
				l.arrives(mails, m.ID, m.Due, 0)
				l.mu.Lock()
				if l.done[m.ID] {
					l.again = append(l.again, m.ID)
				}
				l.mu.Unlock()
				if post(ctx, fmt.Sprintf("%s/v1/topics/%s/messages/%s/ack?receipt=%d", url, mails, m.ID, m.Receipt), nil) == http.StatusNoContent {
					l.mu.Lock()
					l.done[m.ID] = true
					l.mu.Unlock()
				}
			}
		}
		return nil
	})
}

// refuse counts a refusal, and waits a moment.
func (l *ledger) refuse(ctx context.Context, what string) {
	l.mu.Lock()
	if ctx.Err() == nil {
		l.refused[what]++
	}
	l.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// post makes a call and returns the status, or 0 without an answer.
func post(ctx context.Context, url string, into any) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0
	}
	client := http.Client{Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || into != nil && json.Unmarshal(body, into) != nil {
		return 0
	}
	return response.StatusCode
}

var transport = &http.Transport{DisableKeepAlives: true}

// publish publishes to workers, clients over HTTP and listeners, until it is stopped.
func publish(t *testing.T, c notify.Config, l *ledger) (stop func()) {
	t.Helper()
	pub := storetest.Publisher(t, open(t, c))
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				m := notify.Message{Topic: orders, ID: fmt.Sprintf("m%d-%d", i, n), Body: []byte("x"), Delay: time.Duration(n%100) * time.Millisecond}
				switch n % 10 {
				case 0:
					m.Topic = mails
				case 1:
					m.Topic, m.Broadcast = prices, true
				}
				l.publish(ctx, pub, m)
			}
		})
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// publish publishes one message, and records whether it was acknowledged.
func (l *ledger) publish(ctx context.Context, pub *notify.Publisher, m notify.Message) {
	l.mu.Lock()
	l.begun[m.ID] = time.Now()
	l.mu.Unlock()
	_, err := pub.Publish(context.WithoutCancel(ctx), m)
	if err == nil {
		l.mu.Lock()
		l.promised[m.ID] = m.Topic
		l.mu.Unlock()
		return
	}
	reason := "publish: no connection"
	if errors.Is(err, notify.ErrUnreplicated) {
		reason = "publish: unreplicated"
	} else if strings.Contains(err.Error(), "NOREPLICAS") {
		reason = "publish: no replicas"
	}
	l.refuse(ctx, reason)
}

// arriving waits until n publishes were acknowledged, and each receiver has got messages.
func (l *ledger) arriving(t *testing.T, n int) {
	t.Helper()
	storetest.Eventually(t, "messages arrive", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		got := make(map[string]bool)
		for key := range l.arrived {
			receiver, _, _ := strings.Cut(key, " ")
			got[receiver] = true
		}
		return len(l.promised) >= n && len(got) == 4
	})
}

// after waits until a probe published after the mark has arrived, and judges when it was claimed.
func (l *ledger) after(t *testing.T, watch *standstill.Watch, bound time.Duration) {
	t.Helper()
	storetest.Eventually(t, "a probe published after the change arrives", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.first.IsZero()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	watch.Judge(t, "the first claim after the change", l.since, l.first, bound)
}

// probe publishes a message every 20 ms, and waits neither for replicas nor for the one before.
func probe(t *testing.T, c notify.Config, l *ledger) {
	t.Helper()
	c.WaitReplicas = 0
	pub := storetest.Publisher(t, open(t, c))
	storetest.Run(t, func(ctx context.Context) error {
		var all sync.WaitGroup
		defer all.Wait()
		every := time.NewTicker(20 * time.Millisecond)
		defer every.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return nil
			case <-every.C:
			}
			id := fmt.Sprintf("probe%d", n)
			l.mu.Lock()
			l.begun[id] = time.Now()
			l.mu.Unlock()
			all.Go(func() {
				_, _ = pub.Publish(ctx, notify.Message{Topic: orders, ID: id, Body: []byte("x")}) // a failed one does not arrive
			})
		}
	})
}

// promises returns how many publishes were acknowledged.
func (l *ledger) promises() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.promised)
}

// play runs everything on a Redis: two daemons, a worker, listeners, a client over HTTP and
// publishers. stop ends the publishers.
func play(t *testing.T, c notify.Config, l *ledger) (stop func()) {
	t.Helper()
	setDefaults(t, c)
	url := serve(t, c)
	serve(t, c)
	work(t, c, l)
	listen(t, c, l)
	poll(t, url, l)
	probe(t, c, l)
	stop = publish(t, c, l)
	l.arriving(t, 2000)
	return stop
}

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The keys of a store in which everything was used are those of the table, with their types.
func TestTableHasAllKeys(t *testing.T) {
	master := storetest.Server(t)
	replica, err := master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir()})
	storetest.Must(t, err)
	t.Cleanup(replica.Stop)
	port := storetest.Port(t)
	startNATS(t, port)
	c := config(t, master.URL())
	c.WaitReplicas, c.NatsURL = 1, daemon.NatsURLs(fmt.Sprintf("nats://127.0.0.1:%d", port))
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, &storetest.Log{})})
	})
	s := storetest.With(t, notify.Config{URL: master.URL(), Prefix: c.Prefix, WaitReplicas: 1, MemoryShare: 80, Shards: c.Shards})
	elected(t, s)
	carriertest.Run(t, s, carrier.Options{Name: "standby"})
	conn, err := nats.Connect(string(c.NatsURL), nats.Timeout(storetest.Deadline))
	storetest.Must(t, err)
	t.Cleanup(conn.Close)

	storeAll(t, s)
	listenForEver(t, s)
	answers(t, conn)
	extendOne(t, conn, s)
	wantKeys(t, s)
}

// storeAll makes a message in each state, a waiting broadcast and a subscriber.
func storeAll(t *testing.T, s *notify.Store) {
	t.Helper()
	if err := s.Of("mail").OpenArchive(t.Context(), 100); err != nil { // which no daemon here empties
		t.Fatal(err)
	}
	storetest.Must(t, storetest.ErrOf(s.Of("mail").BeginRelay(t.Context(), store.Relay{Outbox: "shop", Token: "t"})))
	storetest.Publish(t, s, notify.Message{Topic: "mail", ID: "row", Group: "import", Delay: time.Hour})
	claimer := subscriberstest.Claimer(t, s)
	hand := func() *subscribers.Delivery {
		storetest.Publish(t, s, notify.Message{Topic: "mail", ID: notify.NewID(), Body: []byte("x"), TTL: time.Hour, UniqueFor: time.Hour})
		got, err := claimer.Claim(t.Context(), "mail", subscribers.ClaimOptions{Max: 1, Lease: time.Hour})
		if err != nil || len(got) != 1 {
			t.Fatalf("claimed %v, %v", got, err)
		}
		return &got[0]
	}
	_, buried := hand().Bury(t.Context(), "a test")
	_, nacked := hand().Nack(t.Context(), time.Hour, "a test")
	hand()
	acked := hand().Ack(t.Context()) // its id stays taken
	_, kept := hand().AckWith(t.Context(), notify.AckResult{Keep: time.Hour})
	storetest.Publish(
		t, s,
		notify.Message{Topic: "mail", Body: []byte("later"), Delay: time.Hour},
		notify.Message{Topic: "mail", Body: []byte("now")},
		notify.Message{Topic: "mail", Body: []byte("now"), Key: "customer-7"},
		notify.Message{Topic: "mail", Body: []byte("blocked"), Key: "customer-7"},
		notify.Message{Topic: "news", Body: []byte("later"), Delay: time.Hour, Broadcast: true},
	)
	paused, ended := storetest.Inspector(t, s).Pause(t.Context(), "mail"), s.Home().Logout(t.Context(), "somebody", time.Now().Add(time.Hour))
	pushed := s.Home().PutPush(t.Context(), store.Push{Name: "crm", Topics: []string{"pushed"}, URL: "https://crm.example", Secrets: []string{"whsec_" + strings.Repeat("A", 32)}})
	_, _, recurs := s.Of("mail").PutSchedule(t.Context(), &store.Schedule{Topic: "mail", Name: "daily", Spec: calendar.Spec{Cron: "@yearly"}}, store.AnyRevision)
	storetest.Must(t, errors.Join(buried, nacked, acked, kept, paused, ended, pushed, recurs))
	storetest.Set(t, s, "limited", notify.SettingsChange{Concurrency: new(5), Rate: new(record.PerHour)})
	storetest.Publish(t, s, notify.Message{Topic: "limited"}, notify.Message{Topic: "limited"})
	if got, err := claimer.Claim(t.Context(), "limited", subscribers.ClaimOptions{Max: 2, Lease: time.Hour}); err != nil || len(got) != 1 {
		t.Fatalf("claimed %v, %v", got, err)
	}
	sub, err := subscribers.NewSubscriber(s)
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle("idle", func(context.Context, *subscribers.Delivery) error { return nil }, subscribers.HandleOptions{}))
	storetest.Run(t, sub.Run)
}

// listenForEver runs a named listener that handles a broadcast for ever, in a second attempt after its first process died.
func listenForEver(t *testing.T, s *notify.Store) {
	t.Helper()
	listener := subscriberstest.Listener(t, s, subscribers.ListenerOptions{Grace: time.Nanosecond})
	listen := func(handle func(context.Context, *subscribers.Broadcast) error) (stop func()) {
		return storetest.Run(t, func(ctx context.Context) error {
			return listener.Listen(ctx, "news", handle, subscribers.ListenOptions{Name: "auditor", From: subscribers.FromBeginning()})
		})
	}
	received := make(chan notify.Position, 1)
	stop := listen(func(_ context.Context, b *subscribers.Broadcast) error {
		received <- b.Position
		return nil
	})
	storetest.Publish(t, s, notify.Message{Topic: "news", Body: []byte("x"), Broadcast: true})
	at := storetest.Receive(t, "it is received", received)
	stop()
	keys := s.KeysOf("news")
	for key, member := range map[string]string{keys.Held("auditor"): fmt.Sprintf("%d news", int64(at)), keys.Alarms(): "auditor"} {
		storetest.Must(t, s.Client().ZAdd(t.Context(), key, redis.Z{Score: 1, Member: member}).Err())
	}
	listen(func(ctx context.Context, _ *subscribers.Broadcast) error {
		<-ctx.Done()
		return nil
	})
	storetest.Run(t, func(ctx context.Context) error {
		return listener.Listen(ctx, "$dead.mail", func(context.Context, *subscribers.Broadcast) error { return nil }, subscribers.ListenOptions{Name: "deaths"})
	})
}

// extendOne claims a message over NATS, and extends its lease there.
func extendOne(t *testing.T, conn *nats.Conn, s *notify.Store) {
	t.Helper()
	storetest.Publish(t, s, notify.Message{Topic: "order", Body: []byte("x")})
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	storetest.Must(t, err)
	storetest.Must(t, conn.PublishRequest("bellhop.claim.order", inbox, nil))
	m, err := sub.NextMsg(storetest.Deadline)
	if err != nil || m.Reply == "" {
		t.Fatalf("claimed %+v, %v", m, err)
	}
	if reply, err := conn.Request(m.Reply, []byte("+WPI"), storetest.Deadline); err != nil || string(reply.Data) != "+OK" {
		t.Fatalf("the extension is answered %+v, %v", reply, err)
	}
}

// wantKeys waits until all keys of the table were seen, and fails if it sees another one.
func wantKeys(t *testing.T, s *notify.Store) {
	t.Helper()
	missing := make(map[string]bool)
	for line := range strings.Lines(script.KeyTable()) {
		if name, kind, _ := strings.Cut(line, " "); name != "" && !strings.HasPrefix(strings.TrimSpace(kind), "channel") {
			missing[family(name)] = true
		}
	}
	if storetest.Shards() == 1 {
		delete(missing, "standbys")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("there was no %v", slices.Sorted(maps.Keys(missing)))
		}
	})
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	storetest.Eventually(t, "all keys are there", func() bool {
		for _, shard := range shards {
			err := shard.Walk(t.Context(), func(keys []reach.Key) {
				for _, key := range keys {
					if delete(missing, family(key.Short)); !key.IsOurs() || !key.IsRight() {
						t.Errorf("%s is a %s", key.Short, key.Type)
					}
				}
			})
			storetest.Must(t, err)
		}
		return len(missing) == 0 || t.Failed()
	})
}

// family returns the name of a key without the topic, name or id that it ends with.
func family(name string) string {
	begin, _, many := strings.Cut(name, ":")
	if many {
		begin += ":"
	}
	return begin
}

package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

func TestMain(m *testing.M) { storetest.MainWaiting(m) }

// gates are a gateway of HTTP and one of NATS to a store, which share a service.
type gates struct {
	t     *testing.T
	store *notify.Store
	url   string
	conn  *nats.Conn
}

func open(t *testing.T, prepare ...func(*calls.Service)) *gates {
	t.Helper()
	store := storetest.Open(t)
	storetest.Beat(t, store)
	service, err := calls.NewService(store, nil, nil)
	storetest.Must(t, err)
	for _, f := range prepare {
		f(service)
	}
	http, err := httpapi.New(store, httpapi.Options{Service: service})
	storetest.Must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	storetest.Run(t, func(ctx context.Context) error { return http.Run(ctx, listener) })
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: storetest.Port(t), NoSigs: true, NoLog: true})
	storetest.Must(t, err)
	go n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(storetest.Deadline) {
		t.Fatal("nats-server does not start")
	}
	gate, err := natsgate.New(store, natsgate.Options{URL: n.ClientURL(), Service: service})
	storetest.Must(t, err)
	storetest.Run(t, gate.Run)
	storetest.Eventually(t, "the gate is connected", func() bool { return gate.Stats().Connected })
	storetest.Eventually(t, "both are among the workers", func() bool {
		all, err := storetest.Inspector(t, store).Workers(t.Context())
		return err == nil && len(all) == 2
	})
	conn, err := nats.Connect(n.ClientURL(), nats.Timeout(storetest.Deadline))
	storetest.Must(t, err)
	t.Cleanup(conn.Close)
	return &gates{t, store, "http://" + listener.Addr().String(), conn}
}

// http makes a call with values of its parameters, and returns the status and the answer.
func (g *gates) http(c calls.Call, values map[string]any) (int, []byte) {
	g.t.Helper()
	path, query, members := c.Path, make(url.Values), make(map[string]any)
	for name, value := range values {
		if in := "{" + name + "}"; strings.Contains(path, in) {
			path = strings.ReplaceAll(path, in, url.PathEscape(fmt.Sprint(value)))
		} else if c.Request != nil {
			members[name] = value
		} else {
			query.Set(name, fmt.Sprint(value))
		}
	}
	data := []byte{}
	if c.Request != nil {
		var err error
		if data, err = json.Marshal(members); err != nil {
			g.t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(g.t.Context(), c.Method, g.url+path+"?"+query.Encode(), bytes.NewReader(data))
	storetest.Must(g.t, err)
	if c.Request != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	reply, err := http.DefaultClient.Do(request)
	storetest.Must(g.t, err)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	storetest.Must(g.t, err)
	return reply.StatusCode, bytes.TrimSpace(body)
}

// nats makes a call with values of its parameters, and returns the status of an error, or 200, and the answer.
func (g *gates) nats(c calls.Call, values map[string]any) (string, []byte) {
	g.t.Helper()
	subject, members := "bellhop."+c.Subject(), make(map[string]any)
	for name, value := range values {
		if name == "topic" && c.NATS == calls.ByTopic {
			subject += "." + value.(string)
		} else {
			members[name] = value
		}
	}
	if c.NATS == calls.ByTopicOrAll {
		subject += "-all"
	}
	data, err := json.Marshal(members)
	storetest.Must(g.t, err)
	reply, err := g.conn.Request(subject, data, storetest.Deadline)
	if err != nil {
		g.t.Fatal(subject, err)
	}
	status := reply.Header.Get(micro.ErrorCodeHeader)
	if status == "" {
		status = "200"
	}
	return status, reply.Data
}

// offered returns the calls that NATS offers, too. Every other says why it does not.
func offered(t *testing.T) (all []calls.Call) {
	for _, c := range calls.Table() {
		if (c.NATS == calls.Nowhere) == (c.NoNATS == "") {
			t.Errorf("%s: offered over NATS %v, because %q", c.Name, c.NATS, c.NoNATS)
		}
		if c.NATS != calls.Nowhere {
			all = append(all, c)
		}
	}
	return all
}

// prepare gives a topic a message of each state.
func (g *gates) prepare(topic string) {
	g.t.Helper()
	due := time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC)
	storetest.Publish(g.t, g.store,
		notify.Message{Topic: topic, ID: "dead", Body: []byte("<no>"), Headers: map[string]string{"A": "&"}}, notify.Message{Topic: topic, ID: "dead-2"})
	daily := store.Schedule{Topic: topic, Name: "daily", Spec: calendar.Spec{At: []time.Time{due}}}
	if _, _, err := g.store.Of(topic).PutSchedule(g.t.Context(), &daily, 0); err != nil {
		g.t.Fatal(err)
	}
	claimer := subscriberstest.Claimer(g.t, g.store, subscribers.ClaimerOptions{})
	ds, err := claimer.Claim(g.t.Context(), topic, subscribers.ClaimOptions{Max: 2})
	if err != nil || len(ds) != 2 {
		g.t.Fatal(ds, err)
	}
	for i := range ds {
		storetest.Must(g.t, storetest.ErrOf(ds[i].Bury(g.t.Context(), "no")))
	}
	storetest.Publish(g.t, g.store, notify.Message{Topic: topic, ID: "leased"})
	if ds, err = claimer.Claim(g.t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: 24 * time.Hour}); err != nil || len(ds) != 1 {
		g.t.Fatal(ds, err)
	}
	storetest.Publish(g.t, g.store, notify.Message{Topic: topic, ID: "a", Due: due}, notify.Message{Topic: topic, ID: "b", Due: due, Body: []byte{0xff}},
		notify.Message{Topic: topic, ID: "c", Due: due, Body: bytes.Repeat([]byte("x"), 20_000)}, notify.Message{Topic: topic, ID: "r"})
}

// fails puts a push whose endpoint fails, and leases a message of its topic.
func (g *gates) fails(push store.Push) {
	g.t.Helper()
	home := g.store.Home()
	push.Failing = &store.PushFailure{Since: time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC), Answer: "EOF"}
	put := home.ChangePush(g.t.Context(), push.Name, func(*store.Push) (*store.Push, error) { return &push, nil })
	storetest.Must(g.t, errors.Join(put, home.PushTried(g.t.Context(), push.Name, time.Hour, "HTTP 502 Bad Gateway")))
	storetest.Publish(g.t, g.store, notify.Message{Topic: push.Topics[0], ID: "pushed"})
	storetest.Must(g.t, storetest.ErrOf(subscriberstest.Claimer(g.t, g.store).Claim(g.t.Context(), push.Topics[0], subscribers.ClaimOptions{Lease: time.Hour})))
}

// Each call answers over NATS as over HTTP, to the byte.
func TestCallsAreAlike(t *testing.T) {
	t.Parallel()
	g := open(t, func(s *calls.Service) {
		b, _ := refusing(t, s.Store, 4)
		s.Outboxes = []*outbox.Outbox{b}
	})
	for _, topic := range []string{"shop.read", "shop.http", "shop.nats"} {
		g.prepare(topic)
	}
	storetest.Publish(t, g.store, notify.Message{Topic: "shop.read", ID: "sale", Broadcast: true, Due: time.Date(2199, 1, 2, 3, 4, 5, 0, time.UTC)})
	for _, id := range []string{"tx-1", "tx-2", "tx-3"} {
		storetest.Publish(t, g.store, notify.Message{Topic: "shop.keyed", ID: id, Key: "acct-7"})
	}
	storetest.Publish(t, g.store, notify.Message{Topic: "shop.grouped", ID: "r-1", Group: "import-7"}, notify.Message{Topic: "shop.grouped", ID: "end", AfterGroup: "shop.grouped:import-7"})
	for _, topic := range []string{"shop.http", "shop.nats"} {
		storetest.Publish(t, g.store, notify.Message{Topic: topic, ID: "g", Group: "import-7"})
		storetest.Must(t, storetest.ErrOf(storetest.Publisher(t, g.store).Cancel(t.Context(), topic, "g")))
	}
	push := store.Push{Name: "crm", Topics: []string{"shop.pushed"}, URL: "https://crm.example/hook?token=7", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
	g.fails(push)
	tested, table := make(map[string]bool), calls.Table()
	for _, test := range []struct {
		call    string
		values  map[string]any
		changes bool // it is made in one topic over HTTP, and in another over NATS
		has     string
	}{
		{call: "list", values: map[string]any{"topic": "shop.read"}, has: `"body_base64":"/w=="`},
		{call: "list", values: map[string]any{"topic": "shop.read", "limit": 2}, has: `"cursor":"`},
		{call: "list", values: map[string]any{"topic": "shop.read", "cursor": "MQ"}, has: `"name":"cursor"`},
		{call: "list", values: map[string]any{"topic": "shop.read", "state": "broadcasts"}, has: `"mode":"broadcast"`},
		{call: "list", values: map[string]any{"topic": "shop.none"}, has: `{"messages":[]}`},
		{call: "listTopics", values: map[string]any{"limit": 1}, has: `"cursor":"`},
		{call: "countTopic", values: map[string]any{"topic": "shop.read"}, has: `"scheduled":3`},
		{call: "countTopic", values: map[string]any{"topic": "shop.keyed"}, has: `"blocked":2,"keys":1`},
		{call: "listKeys", values: map[string]any{"topic": "shop.keyed"}, has: `{"keys":[{"key":"acct-7","blocked":2,"oldest":"20`},
		{call: "listKeys", values: map[string]any{"topic": "shop.keyed", "sort": "oldest", "limit": 1}, has: `"behind":[{"id":"tx-1","state":"ready"}]}],"all":1}`},
		{call: "listKeys", values: map[string]any{"topic": "shop.none"}, has: `{"keys":[],"all":0}`},
		{call: "listGroups", values: map[string]any{"topic": "shop.grouped"}, has: `{"groups":[{"name":"import-7","state":"waiting","left":1,"dead":0,"acked":0,"dropped":0,"cancelled":0,"callback":"shop.grouped:end","opened":"20`},
		{call: "listGroups", values: map[string]any{"topic": "shop.none"}, has: `{"groups":[]}`},
		{call: "listGroups", values: map[string]any{"topic": "shop.none", "cursor": "x"}, has: "it is none of a list of groups"},
		{call: "getGroup", values: map[string]any{"topic": "shop.grouped", "name": "import-7"}, has: `"behind":[{"topic":"shop.grouped","id":"r-1","state":"ready"}]}`},
		{call: "getGroup", values: map[string]any{"topic": "shop.grouped", "name": "none"}, has: "no group of the topic has this name"},
		{call: "forgetGroup", values: map[string]any{"name": "import-7"}, changes: true, has: `{"left":0}`},
		{call: "listDead", values: map[string]any{"topic": "shop.read"}, has: `"body":"<no>"`},
		{call: "carrier", has: `"name":""`},
		{call: "clock", has: "urn:bellhop:no-clock"},
		{call: "advance", values: map[string]any{"next": true}, has: "run bellhop dev --clock manual"},
		{call: "advance", values: map[string]any{"advance": "0s", "wait": "-1s"}, has: "use 1ms to 87840h"},
		{call: "workers", has: `"workers":`},
		{call: "listeners", values: map[string]any{"topic": "prices.gold"}, has: `{"listeners":[]}`},
		{call: "receivers", values: map[string]any{"topic": "shop.read", "id": "sale"}, has: `"state":"scheduled"`},
		{call: "receivers", values: map[string]any{"topic": "shop.read", "id": "none"}, has: "urn:bellhop:not-found"},
		{call: "listSchedules", values: map[string]any{"topic": "shop.read"}, has: `{"schedules":[{"topic":"shop.read","name":"daily","at":["2199-01-02T03:04:05Z"]`},
		{call: "listSchedules", values: map[string]any{"topic": "shop.read", "cursor": "x"}, has: "it is none of a list of schedules"},
		{call: "listAllSchedules", values: map[string]any{"limit": 1}, has: `"name":"daily","at":["2199-01-02T03:04:05Z"]`},
		{call: "listAllSchedules", values: map[string]any{"cursor": "1s0"}, has: "it is none of a list of schedules"},
		{call: "showSchedule", values: map[string]any{"topic": "shop.read", "name": "daily"}, has: `"next":["2199-01-02T03:04:05Z"]`},
		{call: "showSchedule", values: map[string]any{"topic": "shop.read", "name": "none"}, has: "urn:bellhop:not-found"},
		{call: "nextOfSchedule", values: map[string]any{"topic": "shop.read", "name": "daily"}, has: `{"next":["2199-01-02T03:04:05Z"]}`},
		{call: "nextOfSchedule", values: map[string]any{"topic": "shop.read", "name": "none"}, has: "urn:bellhop:not-found"},
		{call: "nextOfSchedule", values: map[string]any{"topic": "shop.read", "name": "none", "cron": "30 2 1 1 *", "zone": "Europe/Berlin", "from": "2190-01-01T00:00:00Z", "n": 2}, has: `{"next":["2190-01-01T01:30:00Z","2191-01-01T01:30:00Z"]}`},
		{call: "nextOfSchedule", values: map[string]any{"topic": "shop.read", "name": "none", "every": "1h", "zone": "Mars", "n": 1001}, has: "from 1 to 1000"},
		{call: "applySchedules", values: map[string]any{"schedules": []any{map[string]any{"name": "new", "every": "1h", "body": "x"}}, "prune": true, "dry_run": true}, changes: true, has: `{"dry_run":true,"schedules":[{"topic":"shop.http","name":"new","outcome":"created"},{"topic":"shop.http","name":"daily","outcome":"deleted"}]}`},
		{call: "applySchedules", values: map[string]any{"schedules": []any{map[string]any{"name": "new", "every": "1h", "body": "x"}}}, changes: true, has: `{"dry_run":false,"schedules":[{"topic":"shop.http","name":"new","outcome":"created"}]}`},
		{call: "applySchedules", values: map[string]any{"schedules": []any{map[string]any{"name": "new", "every": "1h", "body": "x"}, map[string]any{"name": "past", "at": []any{"2020-01-01T00:00:00Z"}, "body": "x"}}}, changes: true, has: "none of its times is to come"},
		{call: "applySchedules", values: map[string]any{"schedules": []any{map[string]any{"name": "new", "every": "1x"}}, "prune": 7}, changes: true, has: "schedule 1: "},
		{call: "applySchedules", values: map[string]any{"schedules": []any{map[string]any{"name": "new", "every": "60m", "body": "x"}}, "dry_run": true}, changes: true, has: `"outcome":"kept"`},
		{call: "deleteSchedule", values: map[string]any{"name": "new"}, changes: true},
		{call: "runSchedule", values: map[string]any{"name": "none"}, changes: true, has: "no schedule of the topic has this name"},
		{call: "backfillSchedule", values: map[string]any{"name": "daily", "from": "2026-03-27T00:00:00Z", "to": "2026-03-28T00:00:00Z"}, changes: true, has: `{"made":0,"taken":0,"occurrences":[]}`},
		{call: "backfillSchedule", values: map[string]any{"name": "daily", "from": "2026-03-27T00:00:00Z", "to": "2199-03-28T00:00:00Z"}, changes: true, has: "it is not past"},
		{call: "pauseSchedule", values: map[string]any{"name": "daily"}, changes: true},
		{call: "resumeSchedule", values: map[string]any{"name": "daily"}, changes: true},
		{call: "deleteSchedule", values: map[string]any{"name": "daily"}, changes: true},
		{call: "deleteSchedule", values: map[string]any{"name": "daily"}, changes: true, has: "no schedule of the topic has this name"},
		{call: "listPushes", has: `{"pushes":[{"name":"crm","topics":["shop.pushed"],"url":"https://crm.example/hook?…","secrets":1,`},
		{call: "showPush", values: map[string]any{"name": "crm"}, has: `"in_flight":32,"timeout_ms":10000,"unsent":true,"leased":1,"failing":{"since":"2199-01-02T03:04:05Z","answer":"HTTP 502 Bad Gateway","next":"20`},
		{call: "showPush", values: map[string]any{"name": "none"}, has: "urn:bellhop:not-found"},
		{call: "pausePush", values: map[string]any{"name": "crm"}},
		{call: "listPushes", has: `"paused":"by `},
		{call: "resumePush", values: map[string]any{"name": "crm"}},
		{call: "testPush", values: map[string]any{"name": "crm"}, has: "BELLHOP_PUSH_ALLOW is empty"},
		{call: "deletePush", values: map[string]any{"name": "none"}, has: "no push has this name"},
		{call: "getOutbox", has: `"waiting":1,"oldest_ms":0,"refused":4,"relayed":0,"kept":0,"failures":0,"pooled":false}]}`},
		{call: "listRefused", values: map[string]any{"limit": 1}, has: `"seq":1,"topic":"shop","id":"r1","called":"20`},
		{call: "listRefused", values: map[string]any{"cursor": "0-3"}, has: `"reason":"no 4"}]}`},
		{call: "listRefused", values: map[string]any{"database": "postgres://other/shop"}, has: "no outbox is there; use postgres://"},
		{call: "retryRefused", values: map[string]any{"ids": "1,4711"}, has: "no row 4711 is refused, so nothing was changed"},
		{call: "retryRefused", values: map[string]any{"all": true, "limit": 1, "cursor": "0-4"}, has: `{"count":1,"cursor":"0-4"}`},
		{call: "purgeRefused", values: map[string]any{"ids": "4711"}, has: "urn:bellhop:not-found"},
		{call: "purgeRefused", values: map[string]any{"all": true, "limit": 1}, has: `{"count":1,"cursor":"0-`},
		{call: "purgeRefused", values: map[string]any{"waiting": true}, has: "give the time until which"},
		{call: "purgeRefused", values: map[string]any{"waiting": true, "before": "1h"}, has: `{"count":0}`},
		{call: "forecast", values: map[string]any{"topic": "shop.read", "bucket": "1d", "count": 2}, has: `"later":3,"recurring":[0,0]`},
		{call: "history", values: map[string]any{"from": "9d", "to": "192h"}, has: `"samples":[]`},
		{call: "history", values: map[string]any{"from": "2030-01-02T00:00:00Z", "to": "2030-01-02T01:00:00Z"}, has: `"samples":[]`},
		{call: "history", values: map[string]any{"from": "2030-01-02T00:00:00Z", "to": "2030-01-01T00:00:00Z"}, has: "use a time before to"},
		{call: "history", values: map[string]any{"from": "2020-01-02T00:00:00Z", "step": "1s"}, has: "more than 1000 samples"},
		{call: "history", values: map[string]any{"from": "today"}, has: "or how long ago, such as 24h"},
		{call: "find", values: map[string]any{"q": "topic:shop.read", "cursor": "x"}, has: `"name":"cursor"`},
		{call: "act", values: map[string]any{"act": "purge", "q": "topic:shop.read", "all": true, "delay": "0s"}, has: "use reschedule"},
		{call: "act", values: map[string]any{"act": "reschedule", "q": "topic:shop.read", "all": true}, has: "such as delay=0s for at once"},
		{call: "act", values: map[string]any{"act": "reschedule", "q": "topic:shop.read state:scheduled", "dry_run": true, "delay": "1h"}, has: `"done":0`},
		{call: "find", values: map[string]any{"q": "topic:shop.read id:a"}, has: `"looked":`},
		{call: "act", values: map[string]any{"act": "purge", "q": "topic:shop.read state:dead", "dry_run": true}, has: `"matched":2`},
		{call: "act", values: map[string]any{"act": "purge", "q": "topic:shop.read state:dead"}, has: "give all=true"},
		{call: "act", values: map[string]any{"act": "cancel", "stop": true, "q": "topic:shop.read state:leased", "dry_run": true}, has: `"matched":1`},
		{call: "act", values: map[string]any{"act": "cancel", "q": "topic:shop.read state:leased", "dry_run": true}, has: "cancel works on scheduled, ready and blocked messages"},
		{call: "act", values: map[string]any{"act": "requeue", "stop": true, "q": "topic:shop.read", "dry_run": true}, has: "requeue stops no worker"},
		{call: "reschedule", values: map[string]any{"id": "a", "due": "2190-01-02T03:04:05Z"}, changes: true, has: `"due":"2190-01-02T03:04:05Z"`},
		{call: "reschedule", values: map[string]any{"id": "a", "due": "2190-07-02T03:04", "zone": "Europe/Berlin"}, changes: true, has: `"due":"2190-07-02T01:04:00Z"`},
		{call: "reschedule", values: map[string]any{"id": "a", "due": "2190-07-02T03:04"}, changes: true, has: "it has no offset"},
		{call: "reschedule", values: map[string]any{"id": "a", "delay": "1m", "zone": "Europe/Berlin"}, changes: true, has: "it is given beside delay"},
		{call: "reschedule", values: map[string]any{"id": "none"}, changes: true, has: "urn:bellhop:not-found"},
		{call: "cancel", values: map[string]any{"id": "a"}, changes: true, has: `"was":"scheduled"`},
		{call: "cancel", values: map[string]any{"id": "a", "next": true}, changes: true, has: "urn:bellhop:not-found"},
		{call: "cancel", values: map[string]any{"id": "leased"}, changes: true, has: "urn:bellhop:leased"},
		{call: "cancel", values: map[string]any{"id": "leased", "stop": true}, changes: true, has: `{"cancelled":false,"was":"leased","stopping":true}`},
		{call: "cancel", values: map[string]any{"id": "leased", "stop": true, "next": true}, changes: true, has: `"name":"stop"`},
		{call: "pause", changes: true},
		{call: "countTopic", changes: true, has: `"paused":true`},
		{call: "pause", values: map[string]any{"until": "0s"}, changes: true, has: "or a time to come"},
		{call: "pause", values: map[string]any{"until": "60s"}, changes: true},
		{call: "countTopic", changes: true, has: `"paused":true,"paused_until":0`},
		{call: "resume", changes: true},
	} {
		i := slices.IndexFunc(table, func(c calls.Call) bool { return c.Name == test.call })
		if i < 0 {
			t.Fatalf("there is no %s", test.call)
		}
		c, values := table[i], func(topic string) map[string]any {
			all := map[string]any{}
			for name, value := range test.values {
				all[name] = value
			}
			if test.changes {
				all["topic"] = topic
			}
			return all
		}
		tested[c.Name] = true
		_, overHTTP := g.http(c, values("shop.http"))
		_, overNATS := g.nats(c, values("shop.nats"))
		one, other := plain(t, overHTTP), strings.ReplaceAll(plain(t, overNATS), "shop.nats", "shop.http")
		if one != other || !strings.Contains(one, test.has) {
			t.Errorf("%s %v:\n%s\n%s\nwant %s", test.call, test.values, one, other, test.has)
		}
	}
	for _, c := range offered(t) {
		if !tested[c.Name] {
			t.Errorf("%s is not tested", c.Name)
		}
	}
}

// plain returns JSON without what differs between two calls: times that go on, and where HTTP has a wrong parameter. Its members keep
// their order.
func plain(t *testing.T, data []byte) string {
	t.Helper()
	if len(data) == 0 {
		return ""
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, data)
	text := escaped.String()
	text = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `"in":"query",`, "", `"in":"body",`, "").Replace(text)
	text = parameter.ReplaceAllString(text, "$1")
	for _, name := range []string{"overdue_ms", "behind_ms", "oldest_ms", "oldest_blocked_ms", "oldest_lease_ms", "lateness_ms", "paused_until", "seen", "lease_ms"} {
		text = without(text, `"`+name+`":`)
	}
	return text
}

// parameter matches how HTTP names a parameter.
var parameter = regexp.MustCompile(`parameter \\"([a-z_]+)\\"`)

// without replaces each value behind a text by 0.
func without(text, before string) string {
	parts := strings.Split(text, before)
	for i, part := range parts[1:] {
		parts[i+1] = "0" + strings.TrimLeft(part, `0123456789"-:.TZ`)
	}
	return strings.Join(parts, before)
}

// Each wrong parameter is refused by its name over both, with the same words.
func TestCallsRefuseAlike(t *testing.T) {
	t.Parallel()
	g := open(t)
	tried := 0
	for _, c := range offered(t) {
		usual := usualOf(c)
		for _, p := range append(c.Params(), calls.Param{In: "query"}) {
			if p.Name == "topic" && p.In == "path" {
				continue // no subject but a topic's
			}
			values := map[string]any{}
			for name, value := range usual {
				values[name] = value
			}
			wrong := p.Name
			if wrong == "" {
				wrong = "unknown"
			}
			values[wrong] = wrongFor(p)
			tried++
			status, overHTTP := g.http(c, values)
			other, overNATS := g.nats(c, values)
			one, two := problem(t, overHTTP), problem(t, overNATS)
			if status != 422 || other != "422" || len(one.Errors) == 0 || len(two.Errors) == 0 {
				t.Errorf("%s with %v: %d %s, %s %s", c.Name, values, status, overHTTP, other, overNATS)
				continue
			}
			for _, errors := range [][]api.ProblemFault{one.Errors, two.Errors} {
				if !slices.ContainsFunc(errors, func(f api.ProblemFault) bool { return f.Name == wrong }) {
					t.Errorf("%s with %v: the faults are %+v", c.Name, values, errors)
				}
			}
			if _, flag := values[wrong].(string); wrong != "unknown" && (flag || p.IsNumber()) && kindOf(c, p) != reflect.Bool && one.Errors[0].Detail != two.Errors[0].Detail {
				t.Errorf("%s with %v: %q over HTTP, %q over NATS", c.Name, values, one.Errors[0].Detail, two.Errors[0].Detail)
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d were tried", tried)
	}
}

func kindOf(c calls.Call, p calls.Param) reflect.Kind {
	if p.Name == "" {
		return reflect.Invalid
	}
	return c.Input.FieldByIndex(p.Index).Type.Kind()
}

// usualOf returns values of the parameters that a call needs.
func usualOf(c calls.Call) map[string]any {
	values := make(map[string]any)
	for _, p := range c.Params() {
		switch {
		case p.Name == "act":
			values["act"], values["dry_run"] = "purge", true
		case p.Required:
			values[p.Name] = p.Example
		}
	}
	return values
}

// wrongFor returns a value that a parameter cannot have.
func wrongFor(p calls.Param) any {
	switch {
	case p.IsNumber():
		return 0
	case p.Name == "q":
		return "stat:dead"
	}
	return "a!b"
}

func problem(t *testing.T, data []byte) (p api.Problem) {
	t.Helper()
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return p
}

// An act on the subject of a topic is on that topic alone, whatever it asks for.
func TestActOfOneTopic(t *testing.T) {
	t.Parallel()
	g := open(t)
	for _, topic := range []string{"shop.a", "shop.b"} {
		storetest.Publish(t, g.store, notify.Message{Topic: topic, ID: "m", Delay: time.Hour})
	}
	for cursor := ""; ; {
		reply, err := g.conn.Request("bellhop.act.shop.a", fmt.Appendf(nil, `{"act":"cancel","q":"id:*","all":true,"cursor":%q}`, cursor), storetest.Deadline)
		storetest.Must(t, err)
		var acted calls.Acted
		if err := json.Unmarshal(reply.Data, &acted); err != nil || reply.Header.Get(micro.ErrorCodeHeader) != "" {
			t.Fatalf("%v in %s", err, reply.Data)
		}
		if cursor = acted.Cursor; cursor == "" {
			break
		}
	}
	inspector := storetest.Inspector(t, g.store)
	if _, err := inspector.Inspect(t.Context(), "shop.a", "m"); err == nil {
		t.Error("shop.a has its message still")
	}
	if _, err := inspector.Inspect(t.Context(), "shop.b", "m"); err != nil {
		t.Error("shop.b", err)
	}
}

package calls_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// Topics come a page at a time, and only those that the client may use count.
func TestTopicsInPages(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	for _, topic := range []string{"mail", "order.1", "order.2", "order.3", "payments"} {
		storetest.Publish(t, all.service.Store, notify.Message{Topic: topic, Body: []byte("x")})
	}
	for topics, pages := range map[string][]string{">": {"mail order.1", "order.2 order.3", "payments"}, "order.*": {"order.1 order.2", "order.3"}} {
		cursor := ""
		for _, want := range pages {
			var page calls.Topics
			got := all.of(topics).do("listTopics", fmt.Sprintf(`{"limit":2,"cursor":%q}`, cursor), "")
			if err := json.Unmarshal([]byte(got), &page); err != nil {
				t.Fatal(got)
			}
			var names []string
			for _, topic := range page.Topics {
				names = append(names, topic.Topic)
			}
			if strings.Join(names, " ") != want {
				t.Errorf("to a client of %s a page has %q, want %s", topics, names, want)
			}
			cursor = page.Cursor
		}
		if cursor != "" {
			t.Errorf("the last page of %s has the cursor %s", topics, cursor)
		}
	}
}

// A client gets the named listeners whose patterns it may use whole, a page at a time, or those of a topic.
func TestListeners(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	for name, pattern := range map[string]string{"audit": ">", "billing.eu": "prices.*", "orders": "orders.new", "stock": "orders.*"} {
		if _, _, err := all.service.Store.Home().Register(t.Context(), name, store.Registration{Pattern: pattern, From: "now"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ topics, params, want string }{
		{">", ``, "audit billing.eu orders stock"},
		{"orders.>,prices.*", ``, "billing.eu orders stock"},
		{">", `"limit":2`, "audit billing.eu, then billing.eu"},
		{">", `"limit":2,"cursor":"billing.eu"`, "orders stock"},
		{"orders.>,prices.*", `"limit":1,"cursor":"billing.eu"`, "orders, then orders"},
		{">", `"cursor":"zzz"`, ""},
		{">", `"topic":"orders.new"`, "audit orders stock"},
		{"orders.>,prices.*", `"topic":"orders.new"`, "orders stock"},
		{">", `"topic":"orders.old","limit":1`, "audit, then audit"},
	} {
		var page calls.Listeners
		got := all.of(test.topics).do("listeners", "{"+test.params+"}", "")
		if err := json.Unmarshal([]byte(got), &page); err != nil || page.Listeners == nil {
			t.Fatal(got)
		}
		var names []string
		for _, one := range page.Listeners {
			names = append(names, one.Name)
		}
		seen := strings.Join(names, " ")
		if page.Cursor != "" {
			seen += ", then " + page.Cursor
		}
		if seen != test.want {
			t.Errorf("a client of %s with %s sees %q, want %q", test.topics, test.params, seen, test.want)
		}
	}
	all.of("orders.>").says("listeners", `{"topic":"mail"}`, "", "may not use the topic mail")
}

// A client gets the workers that are there for its topics, with those alone, and what they have of them.
func TestWorkers(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	db := all.service.Store
	storetest.Beat(t, db)
	worker, err := subscribers.NewSubscriber(db, subscribers.SubscriberOptions{Name: "shop-1", Version: "4.5"})
	storetest.Must(t, err)
	for _, topic := range []string{"orders", "mail"} {
		storetest.Must(t, worker.Handle(topic, func(context.Context, *subscribers.Delivery) error { return nil }))
	}
	storetest.Run(t, worker.Run)
	claimer := subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Name: "shop-1"})
	for _, topic := range []string{"prices.eu", "notes"} {
		storetest.Publish(t, db, notify.Message{Topic: topic, Body: []byte("x")})
		storetest.Must(t, storetest.ErrOf(claimer.Claim(t.Context(), topic)))
	}
	for topics, want := range map[string]string{">": "mail,orders 2", "orders,prices.>": "orders 1", "other": ""} {
		storetest.Eventually(t, "a client of "+topics+" sees "+want, func() bool {
			var list calls.Workers
			if got := all.of(topics).do("workers", "", ""); json.Unmarshal([]byte(got), &list) != nil {
				t.Fatal(got)
			}
			seen := ""
			for _, one := range list.Workers {
				if one.Name == "shop-1" && one.Kind == "worker" && one.Version == "4.5" && one.Host != "" {
					seen += fmt.Sprintf("%s %d", strings.Join(slices.Sorted(slices.Values(one.Topics)), ","), *one.Leased)
				}
			}
			return seen == want
		})
	}
}

// A forecast counts what the client may use, by topic, pattern or in all; broadcasts count where all topics do.
func TestForecast(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		all := newCaller(t, storetest.Sharded(t, shards))
		for i, topic := range []string{"order.a", "order.b", "order.b", "mail", "mail", "mail", "mail"} {
			storetest.Publish(t, all.service.Store, notify.Message{Topic: topic, Delay: 48 * time.Hour},
				notify.Message{Topic: topic, Delay: time.Hour * 24 * 365}, notify.Message{Topic: fmt.Sprint("x", i), Broadcast: true, Delay: 48 * time.Hour})
		}
		for _, test := range []struct {
			topics, topic string
			want          int64
		}{
			{">", "", 7},
			{">", ">", 7},
			{">", "order.*", 3},
			{">", "order.b", 2},
			{">", "none", 0},
			{"order.*", "", 3},
			{"order.*", "order.a", 1},
			{"order.a,mail", "", 5},
			{"order.a,mail", "mail", 4},
		} {
			var f calls.Forecast
			got := all.of(test.topics).do("forecast", fmt.Sprintf(`{"bucket":"1d","count":4,"topic":%q}`, test.topic), "")
			if err := json.Unmarshal([]byte(got), &f); err != nil || len(f.Counts) != 4 || f.Counts[1]+f.Counts[2] != test.want || f.Later != test.want || f.BucketMs != 24*3600*1000 {
				t.Errorf("a client of %s gets of %q: %s", test.topics, test.topic, got)
			}
			whole := test.topics == ">" && (test.topic == "" || test.topic == ">")
			if sum := f.Broadcasts; whole && sum[1]+sum[2] != 7 || !whole && sum != nil {
				t.Errorf("a client of %s gets of %q the broadcasts %v", test.topics, test.topic, sum)
			}
		}
		for _, topic := range []string{"order.c", "order.*", ">", "mail.x"} {
			all.of("order.a,mail").says("forecast", fmt.Sprintf(`{"topic":%q}`, topic), "", "urn:bellhop:forbidden")
		}
	}
}

// A client finds messages of its topics alone, is told nothing of others, and acts on no others. A search of bodies is logged.
func TestFindRights(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	var log strings.Builder
	all.service.Logger = slog.New(slog.NewTextHandler(&log, nil))
	storetest.Publish(t, all.service.Store, notify.Message{Topic: "order.a", ID: "1", Delay: time.Hour}, notify.Message{Topic: "pay", ID: "1", Delay: time.Hour},
		notify.Message{Topic: "order.b", ID: "1", Delay: time.Hour, Body: []byte("4711")}, notify.Message{Topic: "pay", ID: "2", Broadcast: true, Delay: time.Hour})
	some := all.of("order.>")
	pages := func(c caller, call, params string) (found, done int) { // to the last, which says what was looked at
		t.Helper()
		for cursor := ""; ; {
			var page struct {
				calls.Found
				Done int
			}
			got := c.do(call, fmt.Sprintf(`{%s,"cursor":%q}`, params, cursor), "")
			if err := json.Unmarshal([]byte(got), &page); err != nil || c.Name != "all" && (page.Looked.Looked > 2 || page.Of > 2) {
				t.Fatalf("%s answers %s", params, got)
			}
			found, done = found+len(page.Messages), done+page.Done
			if cursor = page.Cursor; cursor == "" {
				return found, done
			}
		}
	}
	for question, want := range map[string]int{"topic:>": 2, "topic:pay": 0, "body~4711": 1, "state:scheduled": 2} {
		if found, _ := pages(some, "find", fmt.Sprintf(`"q":%q`, question)); found != want {
			t.Errorf("%s: %d messages", question, found)
		}
	}
	if !strings.Contains(log.String(), `msg="search of bodies" token=order.> question=body~4711`) {
		t.Errorf("the log is %s", &log)
	}
	if _, done := pages(some, "act", `"act":"cancel","q":"id:*","all":true`); done != 2 {
		t.Errorf("%d are cancelled", done)
	}
	if found, _ := pages(all, "find", `"q":"id:*"`); found != 2 {
		t.Errorf("%d are left", found)
	}
}

// What is of the whole store needs a client that may use all topics.
func TestCallsOfTheWholeStore(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	secret := func() string {
		t.Helper()
		text, _, err := all.service.Store.Home().Secret(t.Context())
		storetest.Must(t, err)
		return text
	}
	before := secret()
	for _, call := range []string{"history", "rotateSecret", "upgrade"} {
		all.of("order.>,*").says(call, "", "", "urn:bellhop:forbidden")
	}
	if secret() != before {
		t.Error("the secret changed")
	}
	all.Client = calls.Client{Name: "root", Rights: []calls.Right{calls.MayAdmin}, Patterns: all.Patterns}
	all.says("history", `{"from":"2d","to":"0s"}`, "", `"step_ms":`)
	all.says("upgrade", "", "", fmt.Sprintf(`{"from":%d,"to":%[1]d}`, reach.Newest().Number))
	all.says("rotateSecret", "", "", "null")
	if secret() == before {
		t.Error("the secret is the same")
	}
}

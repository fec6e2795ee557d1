package console_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// hostile are texts that a page must show as they are.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'"--></style></script><svg onload=alert(1)>`, `{{.}}`, `javascript:alert(1)`, "\x00\x1b[31m\u202e\xff", `</textarea><b>`, `${7*7}`,
}

// carry runs a carrier on a store until the test ends or stop is called, and waits until it is elected for all shards:
// until then pages say first that there is none.
func carry(t testing.TB, store *notify.Store) (stop func()) {
	t.Helper()
	return carryWith(t, store, nil)
}

// carryWith is carry with what a daemon does while it carries.
func carryWith(t testing.TB, store *notify.Store, onTerm func(context.Context, carrier.Term)) (stop func()) {
	t.Helper()
	c, err := carrier.New(store, carrier.Options{Lease: carrier.MaxLease, OnTerm: onTerm, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	stop = storetest.Run(t, c.Run)
	storetest.Eventually(t, "the carrier is elected", func() bool {
		states := c.States()
		return len(states) > 0 && !slices.ContainsFunc(states, func(s carrier.State) bool { return !s.Carrying })
	})
	return stop
}

// buryAll claims messages of a topic and gives them up, each for a reason.
func buryAll(t testing.TB, store *notify.Store, topic string, reasons ...string) {
	t.Helper()
	claimer, err := subscribers.NewClaimer(store, subscribers.ClaimerOptions{Kind: "worker", Version: "v0.9", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range reasons {
		claimed, err := claimer.Claim(t.Context(), topic)
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d of %s: %v", len(claimed), topic, err)
		}
		if _, err := claimed[0].Bury(t.Context(), reason); err != nil {
			t.Fatal(err)
		}
	}
}

// listen runs a named listener that hears nothing any more after its first broadcast.
func listen(t testing.TB, store *notify.Store, name, pattern string) {
	t.Helper()
	listener, err := subscribers.NewListener(store, subscribers.ListenerOptions{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	storetest.Run(t, func(ctx context.Context) error {
		return listener.Listen(ctx, pattern, func(context.Context, *subscribers.Broadcast) error {
			<-t.Context().Done() // that of the handler ends much later than the test
			return errors.New("stopped")
		}, subscribers.ListenOptions{Name: name, OnStart: func(subscribers.Bookmark) { close(began) }})
	})
	storetest.Receive(t, "the listener began", began)
}

// populated is open with a store that has something to show on each page.
func populated(t testing.TB) *site {
	t.Helper()
	store := storetest.Open(t)
	s := withOutboxes(t, store, httpapi.Options{}, refusing(t, store, databasetest.Database(t), len(hostile)))
	carry(t, s.store)
	worker, err := subscribers.NewSubscriber(s.store, subscribers.SubscriberOptions{Name: "mailer-1", Version: "v4.2.0", Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Handle("mail.welcome", func(context.Context, *subscribers.Delivery) error { return nil }); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, worker.Run)
	listen(t, s.store, "warehouse", "stock.>")
	pub := storetest.Publisher(t, s.store)
	for i := range 5 {
		if _, err := pub.Broadcast(t.Context(), notify.Message{Topic: "stock.changed", Body: fmt.Appendf(nil, "article %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pub.Broadcast(t.Context(), notify.Message{Topic: "shop.closes", Delay: time.Hour, Body: []byte("good night")}); err != nil {
		t.Fatal(err)
	}
	var messages []notify.Message
	for i := range 20 {
		messages = append(messages,
			notify.Message{
				Topic: "order.timeout", ID: fmt.Sprint("order-", 4711+i), Group: "nightly", Delay: time.Duration(i+1) * 7 * time.Minute, ContentType: "application/json",
				Headers: map[string]string{"tenant": "acme", "note": hostile[0]}, Body: fmt.Appendf(nil, `{"order":%d,"note":%q}`, 4711+i, hostile[i%len(hostile)]),
			},
			notify.Message{Topic: "order.slow", Body: []byte(hostile[i%len(hostile)])},
			notify.Message{Topic: "mail.welcome", Body: []byte("welcome")},
			notify.Message{Topic: "order.refused", Body: []byte(hostile[i%len(hostile)])},
			notify.Message{Topic: "report.nightly", Delay: time.Duration(i+1) * time.Hour},
			notify.Message{Topic: "invoice.held", Body: []byte("held")},
		)
	}
	storetest.Publish(t, s.store, append(messages, notify.Message{Topic: "order.timeout", ID: "all-done", AfterGroup: "order.timeout:nightly"},
		message("river", "x"), message("live", "x"))...) // ids of pages are called so, too
	scheduleSome(t, s.store)
	pushSome(t, s.store)
	buryAll(t, s.store, "order.refused", append([]string{"no such customer 4711", "connection refused"}, hostile...)...)
	if err := storetest.Inspector(t, s.store).Pause(t.Context(), "invoice.held"); err != nil {
		t.Fatal(err)
	}
	return s
}

// looksAtAll are the tests that look at the same populated site, and change nothing there.
var looksAtAll = map[string]func(t *testing.T, s *site){
	"overview": testOverview, "river": testRiver, "river is drawn": testRiverIsDrawn, "river of all magnitudes": testRiverOfAllMagnitudes,
	"river that fails": testRiverThatFails, "river has a past": testRiverHasAPast, "narrow pages": testNarrowPages, "cards": testCards,
	"pages stay below the path": testPagesStayBelowThePath,
}

func TestPopulated(t *testing.T) {
	t.Parallel()
	s := populated(t)
	for name, look := range looksAtAll {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *s
			own.t = t
			look(t, &own)
		})
	}
}

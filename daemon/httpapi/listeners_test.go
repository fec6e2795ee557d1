package httpapi_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A token sees the named listeners whose patterns it permits, a page at a time, and with metrics the workers that hold what.
func TestListeners(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "all "+tokenOf("all")+" metrics >\nsome "+tokenOf("some")+" metrics orders.>,prices.*\nblind "+tokenOf("blind")+" consume >\n")})
	carry(t, s.store)
	l := subscriberstest.Listener(t, s.store, subscribers.ListenerOptions{Name: "desk-1", Grace: time.Millisecond})
	for name, pattern := range map[string]string{"audit": ">", "billing.eu": "prices.*", "orders": "orders.new", "stock": "orders.*"} {
		storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, pattern, func(ctx context.Context, _ *subscribers.Broadcast) error {
				<-ctx.Done()
				return ctx.Err()
			}, subscribers.ListenOptions{Name: name, From: subscribers.FromBeginning()})
		})
	}
	storetest.Publish(t, s.store, notify.Message{Topic: "prices.gold", ID: "a", Body: []byte("x"), Broadcast: true})
	get := func(token, query string) api.Listeners {
		return read[api.Listeners](s.call("GET", "/v1/listeners"+query, "", "Authorization: Bearer "+tokenOf(token)).is(200))
	}
	names := func(l api.Listeners) (names []string) {
		for _, one := range l.Listeners {
			names = append(names, one.Name)
		}
		return names
	}
	storetest.Eventually(t, "all listen, and two hold it", func() bool {
		all := get("all", "").Listeners
		return len(all) == 4 && len(all[0].HeldBy) == 1 && len(all[1].HeldBy) == 1 && len(all[3].By) == 1
	})
	if one := get("all", "").Listeners[1]; one.Held != 1 || one.HeldBy[0].Worker != "desk-1" || one.HeldBy[0].Held != 1 || one.HeldBy[0].Topic != "prices.gold" || one.HeldBy[0].Sent.IsZero() {
		t.Errorf("got %+v", one)
	}
	for _, test := range []struct{ token, query, want, cursor string }{
		{"all", "", "audit billing.eu orders stock", ""},
		{"some", "", "billing.eu orders stock", ""},
		{"all", "?limit=2", "audit billing.eu", "billing.eu"},
		{"all", "?limit=2&cursor=billing.eu", "orders stock", ""},
		{"some", "?limit=1&cursor=billing.eu", "orders", "orders"},
		{"all", "?cursor=zzz", "", ""},
		{"all", "?topic=orders.new", "audit orders stock", ""},
		{"some", "?topic=orders.new", "orders stock", ""},
		{"all", "?topic=orders.old&limit=1", "audit", "audit"},
	} {
		got := get(test.token, test.query)
		if !slices.Equal(names(got), strings.Fields(test.want)) || got.Cursor != test.cursor || got.Listeners == nil {
			t.Errorf("%s, %s: got %q and the cursor %q, want %q and %q", test.token, test.query, names(got), got.Cursor, test.want, test.cursor)
		}
	}
	for _, one := range get("blind", "").Listeners {
		if one.By != nil || one.HeldBy != nil {
			t.Errorf("a token without metrics sees %+v", one)
		}
	}
	s.call("GET", "/v1/listeners?topic=mail", "", "Authorization: Bearer "+tokenOf("some")).is(403).says("mail")
	for query, want := range map[string]string{"?topic=prices.*": "topic", "?limit=501": "limit", "?cursor=a%20b": "cursor", "?limit=x": "limit"} {
		s.call("GET", "/v1/listeners"+query, "", "Authorization: Bearer "+tokenOf("all")).is(422).says(want)
	}
}

package calls_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// refusing returns an outbox and the URL of its database, which is of its own and which nobody relays: with rows r1, r2 and so on that were refused, and one, w, that waits.
func refusing(t *testing.T, store *notify.Store, n int) (b *outbox.Outbox, url string) {
	t.Helper()
	at := database.Address{URL: databasetest.Database(t)}
	_, err := outbox.Install(t.Context(), at, outbox.InstallOptions{})
	storetest.Must(t, err)
	b, err = outbox.New(store, outbox.Options{Address: at})
	storetest.Must(t, err)
	t.Cleanup(b.Close)
	for i := range n {
		databasetest.Exec(t, at.URL, fmt.Sprintf("SELECT bellhop.publish('shop', 'secret', id => 'r%d')", i+1))
	}
	databasetest.Exec(t, at.URL, "UPDATE bellhop.outbox SET refused = 'no ' || seq; SELECT bellhop.publish('shop', 'secret', id => 'w')")
	return b, at.URL
}

// refusedBy returns the ids of all that the outboxes refuse, as pages list them.
func refusedBy(c caller, limit int) (ids string) {
	c.t.Helper()
	for cursor := ""; ; {
		var page calls.RefusedRows
		got := c.do("listRefused", fmt.Sprintf(`{"limit":%d,"cursor":%q}`, limit, cursor), "")
		if err := json.Unmarshal([]byte(got), &page); err != nil || page.Refused == nil || strings.Contains(got, "secret") {
			c.t.Fatal(got)
		}
		for _, row := range page.Refused {
			ids += row.ID + " "
		}
		if cursor = page.Cursor; cursor == "" {
			return strings.TrimSpace(ids)
		}
	}
}

// What several outboxes refuse is listed and changed in pages, and rows of one by their numbers with its database.
func TestSeveralOutboxes(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	all.says("getOutbox", "", "", "urn:bellhop:no-outbox")
	store := all.service.Store
	one, _ := refusing(t, store, 3)
	other, url := refusing(t, store, 2)
	all.service.Outboxes = []*outbox.Outbox{one, other}
	first, second := one.Address(), other.Address()
	all.says("getOutbox", "", "", fmt.Sprintf(`"database":%q,"waiting":1,`, first), fmt.Sprintf(`"database":%q,"waiting":1,`, second), `"refused":3,`, `"refused":2,`)
	for _, limit := range []int{1, 2, 3, 100} {
		if got := refusedBy(all, limit); got != "r1 r2 r3 r1 r2" {
			t.Errorf("pages of %d list %s", limit, got)
		}
	}
	all.says("retryRefused", `{"ids":"1"}`, "", "database: it is missing, and there are several outboxes", first+" or "+second)
	all.says("retryRefused", fmt.Sprintf(`{"ids":"2,9","database":%q}`, second), "", "no row 9 is refused, so nothing was changed")
	all.says("purgeRefused", fmt.Sprintf(`{"ids":"2,2","database":%q}`, second), "", `{"count":1}`)
	all.says("purgeRefused", `{"all":true,"limit":3}`, "", `{"count":3,"cursor":"0-`)
	all.says("purgeRefused", `{"all":true,"cursor":"1-0"}`, "", `{"count":1}`)
	all.says("listRefused", "", "", `{"refused":[]}`)
	all.says("purgeRefused", `{"waiting":true,"before":"1h"}`, "", `{"count":0}`)
	all.says("purgeRefused", `{"waiting":true,"before":"0s"}`, "", `{"count":2}`)
	some := all.of("shop")
	for name, params := range map[string]string{"listRefused": "", "retryRefused": `{"all":true}`, "purgeRefused": `{"all":true}`} {
		some.says(name, params, "", "urn:bellhop:forbidden")
	}
	databasetest.Exec(t, url, "DROP SCHEMA bellhop CASCADE")
	all.says("getOutbox", "", "", `"fault":"outbox at postgres://`, `"waiting":0`)
	all.says("listRefused", "", "", "urn:bellhop:outbox", "bellhop outbox install")
}

// What is retried goes behind what was called since, and is relayed.
func TestRetriedIsRelayed(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	store := all.service.Store
	b, url := refusing(t, store, 3)
	all.service.Outboxes = []*outbox.Outbox{b}
	all.says("retryRefused", `{"ids":"3,1"}`, "", `{"count":2}`)
	if order := databasetest.Ask(t, url, "SELECT string_agg(id, ' ' ORDER BY seq) FROM bellhop.outbox")[0]; order != "r2 w r1 r3" {
		t.Errorf("the order is %s", order)
	}
	carriertest.Run(t, store, carrier.Options{Name: "bell-1", OnTerm: b.Term})
	storetest.Eventually(t, "it is relayed", func() bool { return b.Stats().Relayed == 3 })
	all.says("retryRefused", `{"all":true}`, "", `{"count":1}`)
	storetest.Eventually(t, "the last one is relayed, too", func() bool { return b.Stats().Relayed == 4 })
	all.says("getOutbox", "", "", `"waiting":0,"oldest_ms":0,"refused":0,"relayed_by":"bell-1","since":"20`, `"relayed":4,`)
	if counts, err := all.service.Inspector.Count(t.Context(), "shop"); err != nil || counts[0].Ready != 4 {
		t.Errorf("the store has %+v, %v", counts, err)
	}
	other, err := outbox.New(store, outbox.Options{Address: database.Address{URL: url}})
	storetest.Must(t, err)
	t.Cleanup(other.Close)
	if is, since, err := other.Relay(t.Context()); err != nil || !is || since.IsZero() {
		t.Errorf("another process sees %v since %v, %v", is, since, err)
	}
}

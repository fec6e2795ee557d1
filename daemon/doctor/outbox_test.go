package doctor_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// outboxes returns the findings about outboxes.
func (w *ward) outboxes(urls ...string) (found []string) {
	w.t.Helper()
	o := doctor.Options{Quick: true}
	for _, url := range urls {
		o.Outboxes = append(o.Outboxes, outbox.Options{Address: database.Address{URL: url}, MaxBody: notify.DefaultMaxBody})
	}
	_, err := doctor.Run(w.t.Context(), w.config, o, func(f doctor.Finding) {
		if f.Check == "outbox" {
			found = append(found, strings.Join([]string{f.Verdict.String(), f.Found, f.Remedy}, " | "))
		}
	})
	storetest.Must(w.t, err)
	return found
}

// wantOutbox compares the findings about one outbox; HERE is its database.
func (w *ward) wantOutbox(url string, want ...string) {
	w.t.Helper()
	got := w.outboxes(url)
	for i := range got {
		got[i] = seconds.ReplaceAllString(strings.ReplaceAll(got[i], database.Redact(url), "HERE"), "<1m")
	}
	storetest.Same(w.t, "the outbox", want, got)
}

const noRelay = "start a daemon with BELLHOP_OUTBOX_URL: bellhop serve. Its log says what hinders it"

func TestOutbox(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	server, root := databasetest.Server(t)
	databasetest.Exec(t, root, "CREATE ROLE relay LOGIN PASSWORD 'secret'")
	u, err := url.Parse(root)
	storetest.Must(t, err)
	u.User = url.UserPassword("relay", "secret")
	relay := u.String()
	const install = "bellhop outbox install --url HERE --relay relay"
	w.wantOutbox(relay, "fail | HERE has no outbox | "+install)
	of := func(o outbox.InstallOptions) {
		t.Helper()
		_, err := outbox.Install(t.Context(), database.Address{URL: root}, o)
		storetest.Must(t, err)
	}
	of(outbox.InstallOptions{})
	w.wantOutbox(relay, "fail | HERE: the relay lacks USAGE on the schema bellhop | "+install)
	of(outbox.InstallOptions{Relay: []string{"relay"}})
	databasetest.Exec(t, root, "REVOKE DELETE ON bellhop.outbox FROM relay; REVOKE UPDATE (seq) ON bellhop.outbox FROM relay; REVOKE SELECT ON bellhop.outbox_about, bellhop.outbox_seq FROM relay")
	w.wantOutbox(relay, "fail | HERE: the relay lacks DELETE on bellhop.outbox, UPDATE (refused, seq) on bellhop.outbox, SELECT on bellhop.outbox_about, SELECT on bellhop.outbox_seq | "+install)
	of(outbox.InstallOptions{Relay: []string{"relay"}})
	w.wantOutbox(relay, "warn | HERE has no relay: 0 wait | "+noRelay)
	databasetest.Exec(t, root, "SELECT bellhop.publish('orders', 'x'); UPDATE bellhop.outbox SET called = now() - interval '3 min'; INSERT INTO bellhop.outbox (topic, id, body) VALUES ('a topic', 'x', '')")
	w.wantOutbox(relay, "warn | HERE has no relay: 2 wait, the oldest for 3m | "+noRelay)

	b, err := outbox.New(w.store, outbox.Options{Address: database.Address{URL: relay}})
	storetest.Must(t, err)
	defer b.Close()
	stop := storetest.Run(t, func(ctx context.Context) error {
		b.Term(ctx, carrier.Term{Shard: w.store.Home()})
		return nil
	})
	storetest.Eventually(t, "it is relayed", func() bool {
		l, err := b.Backlog(t.Context())
		return err == nil && l == outbox.Backlog{Refused: 1}
	})
	const refused = "see why, and then publish it again or delete it: bellhop outbox refused"
	w.wantOutbox(relay, "warn | HERE holds what cannot be published: 0 wait; 1 refused | "+refused)
	databasetest.Exec(t, root, "DELETE FROM bellhop.outbox")
	w.wantOutbox(relay, "ok | HERE is relayed: 0 wait | ")

	of(outbox.InstallOptions{MaxBody: 300000})
	databasetest.Exec(t, root, "UPDATE bellhop.outbox_about SET version = 0")
	w.wantOutbox(relay, "warn | HERE has an outbox of an older version, 0 | "+install,
		"warn | HERE takes bodies of up to 300000 bytes, and the relay refuses those above 262144 | set BELLHOP_MAX_BODY=300000, or have it take less: "+install+" --max-body 262144")
	stop()
	databasetest.Exec(t, root, "UPDATE bellhop.outbox_about SET version = 2, max_body = 1000")
	w.wantOutbox(relay, "fail | HERE has an outbox of a newer version, 2, of which nothing is relayed; this program has 1 | update the daemons")
	databasetest.Exec(t, root, "UPDATE bellhop.outbox_about SET version = 1")
	pooled := databasetest.Bouncer(t, server, "archive")
	w.wantOutbox(pooled, "warn | HERE is behind a pool of connections, so the relay looks into it again and again | name the server itself in BELLHOP_OUTBOX_URL")
	if got := w.outboxes(relay, root); len(got) != 2 || !strings.HasPrefix(got[1], "warn | "+database.Redact(root)+" has no relay") {
		t.Errorf("two outboxes: %q", got)
	}

	server.Stop()
	got := w.outboxes(relay)[0]
	if !strings.HasPrefix(got, "fail | away: outbox at "+database.Redact(relay)+": ") || !strings.HasSuffix(got, "or name another in its URL: what is published there waits in it") {
		t.Errorf("a database that is away: %s", got)
	}
	if got := w.outboxes("mysql://u:secret@h")[0]; !strings.HasPrefix(got, "fail | invalid url: ") || strings.Contains(got, "secret") {
		t.Errorf("a wrong URL: %s", got)
	}
	if got := w.outboxes(); got != nil {
		t.Errorf("no outbox: %q", got)
	}
}

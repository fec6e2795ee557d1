package natsgate_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A user with the least rights in Redis may push to NATS, also what patterns find, and test such a push.
func TestPushWithLeastRights(t *testing.T) {
	t.Parallel()
	n, server := startNATS(t, nil), storetest.Server(t)
	operator := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	if _, err := operator.LoadFunctions(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := operator.Client()
	rule := []any{"ACL", "SETUSER", "bellhop", "reset", "on", ">secret"}
	for _, word := range strings.Fields(reach.Rights(script.DefaultPrefix, storetest.Shards())) {
		rule = append(rule, word)
	}
	if err := admin.Do(t.Context(), rule...).Err(); err != nil {
		t.Fatal(err)
	}
	db := storetest.Unhurried(storetest.At(t, "redis://bellhop:secret@"+server.Addr(), ""))
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{})
	connected(t, d.Gate)
	conn := n.connect()
	got := make(chan string, 100)
	if _, err := conn.Subscribe("jobs.>", func(m *nats.Msg) {
		got <- m.Subject
		if err := m.Respond([]byte(`+ACK {"keep":"1h","result":1}`)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	p := store.Push{Name: "jobs", Topics: []string{"order.*", "mail"}, To: "nats:jobs.>"}
	if err := db.Home().PutPush(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"order.paid", "mail"} {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: "a"})
		if subject := storetest.Receive(t, "a message of "+topic, got); subject != "jobs."+topic {
			t.Errorf("%s was pushed to %s", topic, subject)
		}
		storetest.Eventually(t, "it is done", func() bool {
			i, err := storetest.Inspector(t, db).Inspect(t.Context(), topic, "a")
			return err == nil && i.State == notify.Done
		})
	}
	p, err := db.Home().Push(t.Context(), p.Name)
	if err != nil {
		t.Fatal(err)
	}
	if tested := d.pusher.Test(t.Context(), p); !tested.OK {
		t.Errorf("got %+v", tested)
	}
	if err := db.Home().PausePush(t.Context(), p.Name, "by hand"); err != nil {
		t.Fatal(err)
	}
	if err := db.Home().RemovePush(t.Context(), p.Name); err != nil {
		t.Fatal(err)
	}
	denied, err := admin.ACLLog(t.Context(), 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range denied {
		t.Errorf("denied: %s %s (%s)", entry.Reason, entry.Object, entry.Context)
	}
}

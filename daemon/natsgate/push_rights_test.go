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
	storetest.Must(t, storetest.ErrOf(operator.LoadFunctions(t.Context())))
	admin := operator.Client()
	rule := []any{"ACL", "SETUSER", "bellhop", "reset", "on", ">secret"}
	for _, word := range strings.Fields(reach.Rights(script.DefaultPrefix, storetest.Shards())) {
		rule = append(rule, word)
	}
	storetest.Must(t, admin.Do(t.Context(), rule...).Err())
	db := storetest.Unhurried(storetest.At(t, "redis://bellhop:secret@"+server.Addr(), ""))
	d := startDaemon(t, db, natsgate.Options{URL: n.ClientURL()}, carrier.Options{})
	connected(t, d.Gate)
	conn := n.connect()
	got := make(chan string, 100)
	storetest.Must(t, storetest.ErrOf(conn.Subscribe("jobs.>", func(m *nats.Msg) {
		got <- m.Subject
		if err := m.Respond([]byte(`+ACK {"keep":"1h","result":1}`)); err != nil {
			t.Error(err)
		}
	})))
	storetest.Must(t, conn.Flush())
	p := store.Push{Name: "jobs", Topics: []string{"order.*", "mail"}, To: "nats:jobs.>"}
	storetest.Must(t, db.Home().PutPush(t.Context(), p))
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
	storetest.Must(t, err)
	if tested := d.pusher.Test(t.Context(), p); !tested.OK {
		t.Errorf("got %+v", tested)
	}
	storetest.Must(t, db.Home().PausePush(t.Context(), p.Name, "by hand"))
	storetest.Must(t, db.Home().RemovePush(t.Context(), p.Name))
	denied, err := admin.ACLLog(t.Context(), 100).Result()
	storetest.Must(t, err)
	for _, entry := range denied {
		t.Errorf("denied: %s %s (%s)", entry.Reason, entry.Object, entry.Context)
	}
}

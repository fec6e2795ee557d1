package subscribers_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// die buries messages of a topic.
func die(t *testing.T, db *notify.Store, topic string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: id})
		ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1})
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
		storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "of "+id)))
	}
}

func wantDeaths(t *testing.T, h *received, want ...string) {
	t.Helper()
	storetest.Eventually(t, fmt.Sprintf("%d deaths", len(want)), func() bool { return h.size() >= len(want) })
	got := h.died(t)
	slices.Sort(got)
	slices.Sort(want)
	storetest.Same(t, "deaths", want, got)
}

// A named listener to deaths gets each, also those while none of its processes was there.
func TestDeaths(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	die(t, db, "orders", "before")
	l := newListener(t, db)
	o := subscribers.ListenOptions{Name: "undertaker"}
	h, stop := listen(t, l, "$dead.orders", o)
	die(t, db, "orders", "a", "b")
	die(t, db, "orders.eu", "other")
	wantDeaths(t, h, "orders:a 1 of a", "orders:b 1 of b")
	stop()
	die(t, db, "orders", "c", "d")
	inspector := storetest.Inspector(t, db)
	if n, err := inspector.Requeue(t.Context(), "orders", "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	ds, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "orders", subscribers.ClaimOptions{Max: 1})
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "again")))
	h, stop = listen(t, newListener(t, db), "$dead.orders", o)
	wantDeaths(t, h, "orders:c 1 of c", "orders:d 1 of d", "orders:a 1 again")
	nothingHeld(t, db, "undertaker")
	stop()
	storetest.Must(t, inspector.RemoveListener(t.Context(), "undertaker"))
	if n := db.Client().Exists(t.Context(), db.KeysOf(topic).Hooks()).Val(); n != 0 {
		t.Error("there is a hook without a listener")
	}
	die(t, db, "orders", "after")
	if n, err := db.Client().ZCard(t.Context(), db.KeysOf(topic).Broadcasts()).Result(); n != 0 || err != nil {
		t.Errorf("%d broadcasts wait, %v", n, err)
	}
}

// Whatever a message dies of, its named listener hears of it.
func TestDeathsOfAllKinds(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	client, keys := db.Client(), db.KeysOf("t")
	h, _ := listen(t, newListener(t, db), "$dead.>", subscribers.ListenOptions{Name: "all"})
	claimer := subscriberstest.Claimer(t, db)
	claim := func(max int) []subscribers.Delivery {
		t.Helper()
		ds, err := claimer.Claim(t.Context(), "t", subscribers.ClaimOptions{Max: max, Lease: time.Hour})
		storetest.Must(t, err)
		return ds
	}
	die(t, db, "t", "buried")
	storetest.Publish(t, db, notify.Message{Topic: "t", ID: "failed", MaxAttempts: 1})
	if out, err := claim(1)[0].Nack(t.Context(), 0, "no"); err != nil || out.State != notify.Dead {
		t.Fatal(out, err)
	}
	storetest.Publish(t, db, notify.Message{Topic: "t", ID: "late", LateAfter: time.Second, Late: notify.LateBury})
	client.HSet(t.Context(), keys.Messages(), "t:late", `+1000,{"late_after":1000,"late":"bury"}`+"\n")
	if ds := claim(1); len(ds) != 0 {
		t.Fatal(ds)
	}
	storetest.Publish(t, db, notify.Message{Topic: "t", ID: "followed"})
	d := claim(1)[0]
	storetest.Publish(t, db, notify.Message{Topic: "t", ID: "followed", Then: notify.After, Delay: time.Hour})
	if out, err := d.Bury(t.Context(), "followed"); err != nil {
		t.Fatal(out, err)
	}
	storetest.Publish(t, db, notify.Message{Topic: "t", ID: "expired", Due: time.Now().Add(-time.Hour), TTL: time.Second},
		notify.Message{Topic: "t", ID: "leased", MaxAttempts: 1})
	client.ZRem(t.Context(), keys.Ready("t"), "t:leased")
	client.ZAdd(t.Context(), keys.Leased(), redis.Z{Score: 10, Member: "t:leased"})
	client.ZAdd(t.Context(), keys.Scheduled("u"), redis.Z{Score: 1, Member: "t:stray"})
	client.ZAdd(t.Context(), keys.ScheduledTopics(), redis.Z{Score: 1, Member: "u"})
	carry(t, db)
	wantDeaths(t, h, "t:buried 1 of buried", "t:failed 1 no", "t:late 0 late", "t:followed 1 followed", "t:expired 0 expired",
		"t:leased 1 lease expired, out of attempts", "t:stray 0 member of another topic")
}

// Names that begin with $ are the system's.
func TestSystemTopics(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	inspector := storetest.Inspector(t, db)
	everything, _ := listen(t, newListener(t, db), ">", subscribers.ListenOptions{Name: "everything"})
	one, _ := listen(t, newListener(t, db), "*.*")
	plain, _ := listen(t, newListener(t, db), "$dead.*")
	named, _ := listen(t, newListener(t, db), "$dead.*", subscribers.ListenOptions{Name: "n"})
	die(t, db, "t", "a")
	die(t, db, "t.u", "other")
	wantDeaths(t, named, "t:a 1 of a")
	wantDeaths(t, plain, "t:a 1 of a")
	broadcast(t, db, "x.y", "b") // what is sent behind a death comes behind it
	wantIDs(t, everything, "b")
	wantIDs(t, one, "b")
	all, err := storetest.Collect(inspector.Topics(t.Context()))
	if err != nil || slices.ContainsFunc(all, func(c notify.Counts) bool { return strings.HasPrefix(c.Topic, "$") }) {
		t.Error(all, err)
	}
	deaths, err := notify.ParsePattern("$dead.>")
	storetest.Must(t, err)
	all, err = storetest.Collect(inspector.Topics(t.Context(), deaths))
	if err != nil || len(all) != 1 || all[0].Topic != "$dead.t" || all[0].Sent != 1 || all[0].Log != 1 {
		t.Error(all, err)
	}
	for name, call := range map[string]func() error{
		"publish": func() error {
			_, err := storetest.Publisher(t, db).Publish(t.Context(), notify.Message{Topic: "$dead.t"})
			return err
		},
		"claim": func() error {
			_, err := subscriberstest.Claimer(t, db).Claim(t.Context(), "$dead.t")
			return err
		},
		"set": func() error {
			_, err := inspector.Set(t.Context(), "$dead.t", notify.SettingsChange{Attempts: new(1)})
			return err
		},
		"pause":  func() error { return inspector.Pause(t.Context(), "$dead.t") },
		"cancel": func() error { _, err := storetest.Publisher(t, db).Cancel(t.Context(), "$dead.t", "a"); return err },
		"listen": func() error {
			return newListener(t, db).Listen(t.Context(), "$other.t", hears)
		},
	} {
		if err := call(); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "names that begin with $ are the system's") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

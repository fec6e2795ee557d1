package subscribers_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// wantWorkers waits until these are there, and returns them: one whose subscription is made anew is not there for a moment.
func wantWorkers(t *testing.T, db *notify.Store, want ...string) (found []notify.Worker) {
	t.Helper()
	var diff string
	if !storetest.Poll(5*time.Millisecond, storetest.Deadline, func() bool {
		var all []string
		found, all = workers(t, db)
		diff = cmp.Diff(want, all)
		return diff == ""
	}) {
		t.Fatalf("workers (-want +got):\n%s", diff)
	}
	return found
}

// everyWorker runs a worker, a claimer and a listener.
func everyWorker(t *testing.T, db *notify.Store) (stop func()) {
	t.Helper()
	stops := []func(){
		handleAs(t, db, subscribers.SubscriberOptions{Name: "b-worker", Version: "2"}, succeeds),
		storetest.Run(t, subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Name: "a-daemon", Kind: "daemon"}).Run),
	}
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Name: "c-listener"})
	for _, o := range []subscribers.ListenOptions{{}, {Name: "n"}} {
		pattern := "plain.>"
		if o.Name != "" {
			pattern = "named"
		}
		stops = append(stops, storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, pattern, hears, o)
		}))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

var everyWorkers = []string{"a-daemon  daemon ", "b-worker 2 worker " + topic, "c-listener  listener named,plain.>"}

// Who runs is noted, and forgotten when it stops. A name that is not given is that of the host and the process.
func TestWorkers(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	stop := everyWorker(t, db)
	before := wantWorkers(t, db, everyWorkers...)
	if host, _ := os.Hostname(); host != "" && before[0].Host != host {
		t.Errorf("the host is %q, want %q", before[0].Host, host)
	}
	stop()
	if left := db.Client().HLen(t.Context(), db.Keys().Workers()).Val(); left != 0 {
		t.Errorf("%d are left", left)
	}
	storetest.Run(t, subscriberstest.Claimer(t, db).Run)
	var names []string
	storetest.Eventually(t, "it is there", func() bool {
		_, names = workers(t, db)
		return len(names) == 1
	})
	if !strings.Contains(names[0], "-"+strconv.Itoa(os.Getpid())+" ") {
		t.Errorf("it is called %s", names[0])
	}
}

// Workers that claim through a daemon under names of their own are there, each once, and those that name none are not. A claim
// costs nothing more.
func TestWorkersThatClaimByName(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	var daemons []*subscribers.Claimer
	for _, name := range []string{"d-1", "d-2"} {
		c := subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Name: name, Kind: "daemon"})
		storetest.Run(t, c.Run)
		daemons = append(daemons, c)
	}
	wantWorkers(t, db, "d-1  daemon ", "d-2  daemon ")
	began := time.Now()
	for i, topic := range []string{"orders", "mail", "orders"} {
		for _, name := range []string{"shop-1", ""} {
			storetest.Must(t, storetest.ErrOf(daemons[i%2].Claim(t.Context(), topic, subscribers.ClaimOptions{Worker: name})))
		}
	}
	if _, err := daemons[1].Claim(t.Context(), "a b", subscribers.ClaimOptions{Worker: "refused"}); err == nil {
		t.Error("a claim from no topic is taken")
	}
	all := wantWorkers(t, db, "d-1  daemon ", "d-2  daemon ", "shop-1  worker mail,orders")
	if w := all[2]; strings.Join(w.Via, " ") != "d-1 d-2" || w.Host != "" || w.Since.Before(began.Add(-time.Minute)) || w.ID != min(all[0].ID, all[1].ID)+"/shop-1" {
		t.Errorf("got %+v", w)
	}
}

// The topics of a listener are those that it listens to now.
func TestTopicsOfAListener(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Name: "l"})
	listen := func(pattern string) (stop func()) {
		return storetest.Run(t, func(ctx context.Context) error {
			return l.Listen(ctx, pattern, hears)
		})
	}
	listen("all.>")
	wantWorkers(t, db, "l  listener all.>")
	stop := listen("b.>")
	wantWorkers(t, db, "l  listener all.>,b.>")
	stop()
	wantWorkers(t, db, "l  listener all.>")
}

// A named listener has the names of the workers that listen under it, for as long as they do.
func TestWhoListens(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		db := storetest.Sharded(t, shards)
		carry(t, db)
		listen := func(worker string, names ...string) (stop func()) {
			l := subscriberstest.Listener(t, db, subscribers.ListenerOptions{Name: worker})
			var stops []func()
			for _, name := range names {
				stops = append(stops, storetest.Run(t, func(ctx context.Context) error {
					return l.Listen(ctx, "t.>", hears, subscribers.ListenOptions{Name: name})
				}))
			}
			return func() {
				for _, stop := range stops {
					stop()
				}
			}
		}
		want := func(names ...string) {
			t.Helper()
			var got []string
			if !storetest.Poll(5*time.Millisecond, storetest.Deadline, func() bool {
				got = nil
				all, err := storetest.Inspector(t, db).Listeners(t.Context())
				for _, one := range all {
					got = append(got, one.Name+": "+strings.Join(one.By, " "))
				}
				return err == nil && cmp.Equal(names, got)
			}) {
				t.Fatalf("got %q, want %q", got, names)
			}
		}
		listen("desk-1", "billing", "mail", "")
		stop := listen("desk-2", "billing")
		want("billing: desk-1 desk-2", "mail: desk-1")
		stop()
		want("billing: desk-1", "mail: desk-1")
	}
}

// One that died without a word is not shown, and the housekeeping forgets it. Foreign entries are not shown.
func TestWorkersThatDied(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	if _, _, err := db.Home().Arrive(t.Context(), store.Worker{ID: "died", Name: "died"}); err != nil {
		t.Fatal(err)
	}
	db.Client().HSet(t.Context(), db.Keys().Workers(), "foreign", "x")
	storetest.Run(t, subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Name: "a"}).Run)
	wantWorkers(t, db, "a  worker ")
	carry(t, db, carrier.Options{Lease: carrier.MinLease, Sweep: carrier.MinSweep})
	storetest.Eventually(t, "it is forgotten", func() bool {
		return db.Client().HLen(t.Context(), db.Keys().Workers()).Val() == 1
	})
	wantWorkers(t, db, "a  worker ")
}

// Where Redis loses all that it held, and where connections break, those that are there are noted again.
func TestWorkersComeBack(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, db *notify.Store) error{
		"its data": func(t *testing.T, db *notify.Store) error { return db.Client().FlushAll(t.Context()).Err() },
		"connections": func(t *testing.T, db *notify.Store) error {
			if err := db.Client().Del(t.Context(), db.Keys().Workers()).Err(); err != nil {
				return err
			}
			return db.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := alone(t)
			carry(t, db)
			everyWorker(t, db)
			wantWorkers(t, db, everyWorkers...)
			storetest.Must(t, lose(t, db))
			wantWorkers(t, db, everyWorkers...)
		})
	}
}

package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// stops asks for a leased message to be cancelled.
func (l limited) stops(id string) {
	l.t.Helper()
	state, err := l.shard.Stop(l.t.Context(), l.topic, record.Member(l.topic, id))
	if l.must(err); state != record.Leased {
		l.t.Fatalf("%s was %v, want leased", id, state)
	}
}

// state returns the state of a message; 0: there is none.
func (l limited) state(id string) record.State {
	l.t.Helper()
	all, err := l.shard.Inspect(l.t.Context(), l.topic, []string{record.Member(l.topic, id)})
	l.must(err)
	return all[0].State
}

// settles are the ways in which a lease ends.
var settles = map[string]func(ctx context.Context, l limited, lease store.Lease) error{
	"released": func(ctx context.Context, l limited, lease store.Lease) error {
		lost, err := l.shard.Release(ctx, l.topic, reach.Inbox{}, 0, []store.Return{{Lease: lease}})
		return unlost(err, len(lost) > 0)
	},
	"rejected": func(ctx context.Context, l limited, lease store.Lease) error {
		return l.nacks(ctx, store.Nack{Lease: lease})
	},
	"put off": func(ctx context.Context, l limited, lease store.Lease) error {
		return l.nacks(ctx, store.Nack{Lease: lease, Keep: true})
	},
	"buried": func(ctx context.Context, l limited, lease store.Lease) error {
		return l.nacks(ctx, store.Nack{Lease: lease, Bury: true})
	},
	"lease over": func(_ context.Context, l limited, lease store.Lease) error { l.endLease(lease); return nil },
	"acknowledged": func(ctx context.Context, l limited, lease store.Lease) error {
		lost, err := l.shard.Ack(ctx, l.topic, []store.Lease{lease})
		return unlost(err, len(lost) > 0)
	},
	"acknowledged with a result": func(ctx context.Context, l limited, lease store.Lease) error {
		lost, _, err := l.shard.AckWith(ctx, l.topic, lease, store.Result{})
		return unlost(err, lost)
	},
}

func unlost(err error, lost bool) error {
	if err == nil && lost {
		err = notify.ErrLeaseLost
	}
	return err
}

// nacks rejects a message that is to be cancelled, which it is instead.
func (l limited) nacks(ctx context.Context, n store.Nack) error {
	out, err := l.shard.Nack(ctx, l.topic, n)
	if err == nil && !out.Cancelled {
		l.t.Errorf("it is %+v, want cancelled", out)
	}
	return unlost(err, out.Lost)
}

// endLease lets a lease end, and the carrier find that.
func (l limited) endLease(lease store.Lease) {
	l.t.Helper()
	over := time.Now().Add(-time.Second).UnixMicro()
	l.must(l.db.Client().ZAdd(l.t.Context(), l.db.KeysOf(l.topic).Leased(), redis.Z{Score: float64(over), Member: lease.Member}).Err())
	l.carry(false)
}

// A leased message that is to be cancelled stays leased, and its worker's, until the lease ends: then it is gone, with what follows it, unless
// it is acknowledged. The next one of its key, and of the topic's limit, goes then and not before.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, end := range settles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acked := name == "acknowledged" || name == "acknowledged with a result"
			l := openLimited(t, store.SettingsChange{Concurrency: new(1)}, 0)
			storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: "b", Key: "k", TTL: time.Hour, UniqueFor: time.Hour})
			lease := l.claims("", 2, 1)[0].Lease
			storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: "a", Key: "k"}, notify.Message{Topic: l.topic, ID: "b", Key: "k", Body: []byte("next"), Then: notify.After})
			l.claims("desk-1", 1, 0)
			l.stops("b")
			l.stops("b")
			l.claims("desk-1", 1, 0)
			l.rung()
			if all, err := l.shard.Inspect(t.Context(), l.topic, []string{lease.Member}); err != nil || all[0].State != record.Leased || all[0].Stop.IsZero() {
				t.Fatalf("it is %v, to be cancelled since %v, %v", all[0].State, all[0].Stop, err)
			}
			l.must(end(t.Context(), l, lease))
			want := record.State(0)
			if acked { // what follows it is there
				want = record.Blocked
			}
			if got := l.state("b"); got != want {
				t.Errorf("it is %v, want %v", got, want)
			}
			l.rung("desk-1")
			if next := l.claims("desk-1", 1, 1)[0]; next.Member != l.topic+":a" {
				t.Errorf("%s is next", next.Member)
			}
			if lost, err := l.shard.Ack(t.Context(), l.topic, []store.Lease{lease}); err != nil || len(lost) != 1 {
				t.Errorf("it is acknowledged afterwards: %v, %v", lost, err)
			}
			keys := l.db.KeysOf(l.topic)
			if n := l.db.Client().Exists(t.Context(), keys.Extras(), keys.Expiries(), keys.Attempts()).Val(); n > 0 {
				t.Error("something is noted still")
			}
			if n := l.db.Client().HGet(t.Context(), keys.Topics(), l.topic+":leased").Val(); n != "1" {
				t.Errorf("leased are %s, want 1", n)
			}
			if wrong := slotsOf(l.read(), l.read(), 1); len(wrong) > 0 {
				t.Error(wrong)
			}
		})
	}
}

// What is to be cancelled is not followed by what is published after that was asked for: that is refused, whatever follows already, and can
// be published once the lease has ended.
func TestStoppedIsNotFollowed(t *testing.T) {
	t.Parallel()
	for name, end := range settles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openLimited(t, store.SettingsChange{}, 0)
			storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: "a"}, notify.Message{Topic: l.topic, ID: "b"})
			leases := map[string]store.Lease{}
			for _, m := range l.claims("", 2, 2) {
				leases[m.Member] = m.Lease
			}
			storetest.Publish(t, l.db, notify.Message{Topic: l.topic, ID: "b", Body: []byte("before"), Then: notify.After})
			publisher := storetest.Publisher(t, l.db)
			for _, id := range []string{"a", "b"} {
				l.stops(id)
				for mode, delay := range map[notify.IfExists]time.Duration{"": 0, notify.Keep: 0, notify.Replace: 0, notify.Debounce: time.Hour} {
					p, err := publisher.Publish(t.Context(), notify.Message{Topic: l.topic, ID: id, Then: notify.After, IfExists: mode, Delay: delay})
					if !errors.Is(err, notify.ErrLeased) || !strings.Contains(err.Error(), "to be cancelled") {
						t.Errorf("%s is followed, with the mode %q: %+v, %v", id, mode, p, err)
					}
				}
			}
			l.must(end(t.Context(), l, leases[l.topic+":a"]))
			p, err := publisher.Publish(t.Context(), notify.Message{Topic: l.topic, ID: "a", Then: notify.After})
			if l.must(err); p.Outcome != notify.Created || l.state("a") != record.Ready {
				t.Errorf("once the lease has ended it is %+v, and %v", p, l.state("a"))
			}
			l.must(settles["acknowledged"](t.Context(), l, leases[l.topic+":b"]))
			if got := l.state("b"); got != record.Ready {
				t.Errorf("what was published before is %v", got)
			}
		})
	}
}

// An extension says that the message is to be cancelled, and leaves its lease as it is; those beside it are extended.
func TestExtensionOfStopped(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 3)
	var leases []store.Lease
	for _, m := range l.claims("", 3, 3) {
		leases = append(leases, m.Lease)
	}
	l.stops("1")
	ctx := store.WithProgress(t.Context(), store.Progress{Percent: 9})
	e, err := l.shard.ExtendByClaim(ctx, l.topic, "w", leases[1:2], 2*time.Hour)
	if l.must(err); len(e.Stopped) != 1 || len(e.Lost) > 0 || e.Receipts[0] != leases[1].Receipt {
		t.Errorf("alone it is %+v", e)
	}
	e, err = l.shard.Extend(t.Context(), l.topic, "w", leases, 2*time.Hour)
	l.must(err)
	if len(e.Stopped) != 1 || e.Stopped[0] != 1 || len(e.Lost) > 0 || e.Receipts[1] != leases[1].Receipt || e.Receipts[0] < leases[0].Receipt+time.Minute.Microseconds() || e.Receipts[0] != e.Receipts[2] {
		t.Errorf("beside others it is %+v, of %+v", e, leases)
	}
	for i := range leases {
		leases[i].Receipt = e.Receipts[i]
	}
	lost, err := l.shard.Release(t.Context(), l.topic, reach.Inbox{}, 0, []store.Return{{Lease: leases[0]}, {Lease: leases[1]}, {Lease: leases[2]}})
	if l.must(err); len(lost) > 0 || l.state("0") != record.Ready || l.state("1") != 0 || l.state("2") != record.Ready {
		t.Errorf("lost are %v; they are %v, %v and %v", lost, l.state("0"), l.state("1"), l.state("2"))
	}
}

// A message that no worker has is cancelled at once, as without a stop; and where what is noted beside messages is foreign, nothing changes.
func TestStopOfWhatIsNotLeased(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 2)
	for _, want := range []record.State{record.Ready, 0} {
		if state, err := l.shard.Stop(t.Context(), l.topic, l.topic+":0"); err != nil || state != want {
			t.Errorf("it was %v, %v; want %v", state, err, want)
		}
	}
	lease := l.claims("", 1, 1)[0].Lease
	extras := l.db.KeysOf(l.topic).Extras()
	l.must(l.db.Client().Set(t.Context(), extras, "foreign", 0).Err())
	if _, err := l.shard.Stop(t.Context(), l.topic, lease.Member); err == nil {
		t.Error("it was marked in a foreign key")
	}
	e, err := l.shard.Extend(t.Context(), l.topic, "", []store.Lease{lease}, time.Hour)
	if l.must(err); len(e.Stopped)+len(e.Lost) > 0 {
		t.Errorf("it is %+v", e)
	}
	lease.Receipt = e.Receipts[0]
	l.endLease(lease)
	if got := l.state("1"); got != record.Ready {
		t.Errorf("it is %v, want ready", got)
	}
}

// Whoever awaits a message that is cancelled so is told.
func TestStopIsAwaited(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 1)
	lease := l.claims("", 1, 1)[0].Lease
	ended := make(chan error, 1)
	go func() {
		_, err := storetest.Inspector(t, l.db).Await(t.Context(), l.topic, "0")
		ended <- err
	}()
	storetest.Awaited(t, l.db, l.topic, "0")
	l.stops("0")
	l.must(settles["released"](t.Context(), l, lease))
	if err := storetest.Receive(t, "the end of the message", ended); !errors.Is(err, notify.ErrGone) {
		t.Errorf("it ended as %v", err)
	}
}

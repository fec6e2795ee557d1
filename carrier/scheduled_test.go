package carrier_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// The index of scheduled sets has each topic by its first due time, whatever is done to their messages, at random,
// while a carrier moves what is due.
func TestSchedulesAreIndexedByTheirFirst(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &randomly{t: t, store: store, pub: storetest.Publisher(t, store), claimer: subscriberstest.Claimer(t, store), Rand: rand.New(rand.NewPCG(seed, 0))}
	for range 15 {
		stop := run(t, store, carrier.Options{Batch: 1 + r.IntN(20)})
		for range 150 {
			r.act()
		}
		stop()
		storetest.Heads(t, store)
	}
	if r.done < 15*150/4 {
		t.Errorf("only %d things were done", r.done)
	}
}

// randomly does things to messages of a few topics.
type randomly struct {
	*rand.Rand
	t       *testing.T
	store   *notify.Store
	pub     *notify.Publisher
	claimer *subscribers.Claimer
	done    int // things that were not refused
}

func (r *randomly) topic() string { return fmt.Sprintf("t.%d", r.IntN(4)) }

func (r *randomly) id() string { return fmt.Sprint(r.IntN(40)) }

// delay is one that is over soon, or not while the test runs.
func (r *randomly) delay() time.Duration {
	if r.IntN(3) == 0 {
		return time.Hour + time.Duration(r.IntN(1000))*time.Millisecond
	}
	return time.Duration(r.IntN(20)) * time.Millisecond
}

func (r *randomly) act() {
	ctx, name, id := r.t.Context(), r.topic(), r.id()
	var err error
	switch r.IntN(5) {
	case 0:
		var some []notify.Message
		for range 1 + r.IntN(8) {
			m := notify.Message{Topic: r.topic(), ID: r.id(), Body: []byte("x"), Delay: r.delay(), Broadcast: r.IntN(8) == 0}
			if r.IntN(4) == 0 && !m.Broadcast {
				m.TTL = 2 * time.Millisecond
			}
			some = append(some, m)
		}
		for _, result := range r.pub.PublishMany(ctx, some) {
			err = errors.Join(err, result.Err)
		}
	case 1:
		_, err = r.pub.Publish(ctx, notify.Message{Topic: name, ID: id, Body: []byte("x"), Delay: r.delay()})
	case 2:
		_, err = r.pub.Cancel(ctx, name, id)
	case 3:
		_, err = r.pub.RescheduleIn(ctx, name, id, r.delay())
	case 4:
		err = r.handle(name)
	}
	for _, expected := range []error{notify.ErrExists, notify.ErrNotFound, notify.ErrLeased, notify.ErrDead, notify.ErrLeaseLost} {
		if errors.Is(err, expected) {
			return
		}
	}
	storetest.Must(r.t, err)
	r.done++
}

// handle claims a message and settles it in a random way.
func (r *randomly) handle(name string) error {
	ctx := r.t.Context()
	ds, err := r.claimer.Claim(ctx, name, subscribers.ClaimOptions{Max: 1, Lease: 100 * time.Millisecond})
	if err != nil || len(ds) == 0 {
		return err
	}
	switch r.IntN(4) {
	case 0:
		return ds[0].Ack(ctx)
	case 1:
		_, err = ds[0].Nack(ctx, r.delay(), "again")
	case 2:
		_, err = r.claimer.ReleaseMany(ctx, name, ds)
	}
	return err // else its lease ends
}

// A foreign scheduled set, and one that the index of scheduled sets has wrong, holds up no other.
func TestForeignSchedules(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	client, keys := store.Client(), store.KeysOf(topic)
	storetest.Publish(t, store, later("good", 50*time.Millisecond))
	client.Set(t.Context(), keys.Scheduled("taken"), "a string", 0)
	client.Do(t.Context(), "ZADD", keys.ScheduledTopics(), 1, "taken", 2, "empty", 3, "no topic")
	client.Do(t.Context(), "ZADD", keys.Scheduled(topic), 4, "no topic", 5, "other:foreign")
	deaths := make(deaths, 10)
	stop := run(t, store, carrier.Options{Logger: deaths.logger()})
	storetest.Eventually(t, "the good one is ready", func() bool { return counts(t, store, topic).Ready == 1 })
	for range 3 {
		switch d := storetest.Receive(t, "the foreign ones die", deaths); {
		case d.ID == "no topic" && d.Topic == "":
		case d.Topic == "other" && d.Reason == "member of another topic":
		default:
			t.Errorf("got %+v", d)
		}
	}
	stop()
	heads, err := client.ZRangeWithScores(t.Context(), keys.ScheduledTopics(), 0, -1).Result()
	if err != nil || len(heads) != 1 || heads[0].Member != "taken" || heads[0].Score < float64(time.Now().UnixMilli()) {
		t.Errorf("%+v, %v; want the one that is taken, later", heads, err)
	}
	if c := counts(t, store, topic); c.Scheduled != 0 {
		t.Errorf("got %+v", c)
	}
}

package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A message waits for a group of its topic until the last of that has ended, however it ends, and says how many are left.
func TestAfterGroup(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a b c d e f group=g
	publish plain
	publish done after_group=orders:g = scheduled
	has done left=6 due=none state=scheduled
	has a left=none group=g
	claim 9 = a b c d e f plain
	ack plain
	ack a
	ack b keep=1h
	has done left=4
	nack c delay=1h
	nack d
	release e
	extend f
	carry
	has done left=4
	claim 1 = e
	ack e
	ack f
	cancel c = scheduled
	carry
	has done left=1 due=none
	is done=scheduled
	cancel d = scheduled
	carry
	has done left=none due=now acked=4 died=0 dropped=0 cancelled=2
	carry
	is done=ready
	claim 2 = done
	publish g group=g = complete
	publish another after_group=orders:g = complete
	publish another after_group=orders:h = scheduled
	carry
	carry
	claim 2 = another
	ack done
	ack another
	`)
}

// With on_dead=stop a dead letter holds back what waits for its group, until it is requeued or purged; with go it counts as an end.
func TestDeadOfGroup(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a b group=g attempts=1
	claim 2 = a b
== stop
	publish done after_group=orders:g = scheduled
	nack a = dead
	ack b
	has done left=1
	carry
	is done=scheduled
	requeue a
	claim 1 = a
	ack a
	carry
	has done left=none acked=2 died=0
== purge
	publish done after_group=orders:g on_dead=stop = scheduled
	nack a = dead
	bury b
	has done left=2
	purge a b
	has done left=0
	carry
	has done left=none acked=0 died=2
== go
	publish done after_group=orders:g on_dead=go = scheduled
	nack a = dead
	has done left=1
	requeue a
	has done left=2
	claim 1 = a
	nack a = dead
	ack b
	has done left=0
	carry
	has done left=none acked=1 died=1
== dead before
	nack a = dead
	bury b
	publish done after_group=orders:g on_dead=go = scheduled
	has done left=0
	carry
	has done left=none acked=0 died=2
== a dead one is replaced
	nack a = dead
	ack b
	publish done after_group=orders:g on_dead=go = scheduled
	publish a group=g if_exists=replace = replaced:ready
	has done left=1
	carry
	is done=scheduled
	claim 1 = a
	ack a
	carry
	has done left=none acked=2 died=0
	`)
}

// What is put in the place of a message stays in its group, leaves it, or joins another.
func TestReplacedInGroup(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a group=g delay=1h
	publish done after_group=orders:g = scheduled
== by one of the group
	publish a group=g delay=2h if_exists=replace = replaced:scheduled
	has done left=1
	publish a group=g delay=2h if_exists=debounce = moved:scheduled
	has done left=1
	carry
	is done=scheduled
== by one of none
	publish a delay=2h if_exists=replace = replaced:scheduled
	has done left=0
	carry
	has done left=none cancelled=1
== by one of another
	publish later after_group=orders:h = scheduled
	publish a group=h delay=2h if_exists=replace = replaced:scheduled
	has done left=0
	has later left=1
	carry
	has done left=none cancelled=1
	cancel a = scheduled
	carry
	has later left=none cancelled=1
== kept
	publish a group=h if_exists=keep = kept:scheduled
	has a group=g
	has done left=1
== followed
	reschedule a delay=0s = ready
	claim 1 = a
	publish a then=after delay=1h = leased
	ack a
	has a group=
	has done left=0
	carry
	has done left=none acked=1
== whose id stays taken
	reschedule a delay=0s = ready
	claim 1 = a
	publish b group=g unique_for=1h
	claim 1 = b
	ack a b
	is b=done
	carry
	has done left=none acked=2
	`)
}

// One message waits for a group; another may take its place, and one that is cancelled makes room.
func TestCallbackOfGroup(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a group=g delay=1h
	publish done after_group=orders:g = scheduled
== taken
	publish other after_group=orders:g = taken
	publish done after_group=orders:g = refused:exists
	publish done after_group=orders:g if_exists=keep = kept:scheduled
	publish done after_group=orders:g if_exists=replace body=new = replaced:scheduled
	has done body=new left=1
	cancel done = scheduled
	publish other after_group=orders:g = scheduled
	has other left=1
== replaced by one that waits for nothing
	publish done delay=1h if_exists=replace = replaced:scheduled
	has done left=none
	publish other after_group=orders:g = scheduled
	cancel a = scheduled
	carry
	has other left=none cancelled=1
	is done=scheduled
== replaced by one that waits for another group
	publish done after_group=orders:h if_exists=replace = replaced:scheduled
	has done left=0
	carry
	carry
	is done=ready
	publish other after_group=orders:g = scheduled
	has other left=1
== at the latest
	reschedule done delay=1h = scheduled
	has done left=1 due=now+1h
	cancel a = scheduled
	carry
	has done left=none due=now cancelled=1
== before
	reschedule done delay=0s = ready
	has done left=none cancelled=
	cancel a = scheduled
	carry
	carry
	claim 2 = done
	has done cancelled=
	publish b group=g = complete
	ack done
== before, and gone
	reschedule done delay=0s = ready
	claim 1 = done
	ack done
	cancel a = scheduled
	carry
	publish b group=g = complete
	publish done after_group=orders:g = complete
== put off by its handler
	reschedule done delay=0s = ready
	claim 1 = done
	defer done delay=1h
	note done
	cancel a = scheduled
	carry
	has done due=noted cancelled=
	`)
}

// A time to live, and lateness, count from when the last of the group has ended.
func TestTimesOfCallback(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a group=g
	publish done after_group=orders:g ttl=1h late_after=1h = scheduled
	has done expires=none
	claim 1 = a
	ack a
	carry
	has done due=now first_due=now expires=now+1h
	`)
}

// Whoever publishes what waits for a group at the same moment, one message does.
func TestCallbacksAtOnce(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	pub := clientOf(t, db)
	var created, taken atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: strconv.Itoa(i), AfterGroup: topic + ":g"})
			switch {
			case err == nil:
				created.Add(1)
			case errors.Is(err, store.ErrGroupTaken) && strings.Contains(err.Error(), "cancel that, or use if_exists=replace with its id"):
				taken.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if created.Load() != 1 || taken.Load() != 15 {
		t.Errorf("%d were created, and %d refused", created.Load(), taken.Load())
	}
}

// A store of an older format takes no groups until it is upgraded, and all else.
func TestGroupsNeedTheirFormat(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	pub := clientOf(t, db)
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "before"})
	format := db.KeysOf(topic).Format()
	text, err := db.Client().Get(t.Context(), format).Result()
	storetest.Must(t, err)
	storetest.Must(t, db.Client().Set(t.Context(), format, "9"+strings.TrimPrefix(text, "10"), 0).Err())
	old := storetest.At(t, db.Address(), db.Keys().Prefix())
	results := storetest.Publisher(t, old).PublishMany(t.Context(), []notify.Message{
		{Topic: topic, ID: "a", Group: "g"}, {Topic: topic, ID: "b"}, {Topic: topic, ID: "c", AfterGroup: topic + ":g"},
	})
	for i, r := range results {
		if want := i != 1; errors.Is(r.Err, store.ErrFormat) != want || !want && r.Err != nil {
			t.Errorf("%s: %v", r.ID, r.Err)
		}
	}
	storetest.Must(t, storetest.ErrOf(old.Upgrade(context.WithoutCancel(t.Context()), true)))
	storetest.Must(t, storetest.ErrOf(pub.Publish(t.Context(), notify.Message{Topic: topic, ID: "d", Group: "g"})))
}

// A message does not wait for itself, be it over other groups.
func TestCircleOfGroups(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	pub := clientOf(t, db)
	other := storetest.Beside(db, topic, "circle")
	publish := func(m notify.Message) error {
		_, err := pub.Publish(t.Context(), m)
		return err
	}
	storetest.Must(t, publish(notify.Message{Topic: other, ID: "1", AfterGroup: topic + ":a", Group: "b"}))
	storetest.Must(t, publish(notify.Message{Topic: topic, ID: "2", AfterGroup: other + ":b", Group: "c"}))
	storetest.Must(t, publish(notify.Message{Topic: topic + "@mail", ID: "4", AfterGroup: topic + ":y", Group: "z"}))
	for _, m := range []notify.Message{
		{Topic: topic, ID: "3", AfterGroup: topic + ":c", Group: "a"},
		{Topic: topic, ID: "3", AfterGroup: topic + ":c", Group: "c"},
		{Topic: topic, ID: "2", AfterGroup: other + ":b", Group: "a", IfExists: notify.Replace},
		{Topic: topic + "@mail", ID: "3", AfterGroup: topic + ":c", Group: "c"},
		{Topic: topic, ID: "3", AfterGroup: topic + ":z", Group: "y"},
	} {
		was := dump(t, db)
		if err := publish(m); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "would wait for itself") {
			t.Errorf("%s: %v", m.ID, err)
		}
		storetest.Same(t, "what was refused", was, dump(t, db))
	}
	storetest.Must(t, publish(notify.Message{Topic: topic, ID: "3", AfterGroup: topic + ":c", Group: "d"}))
	for i := range 20 {
		err := publish(notify.Message{Topic: topic, ID: fmt.Sprint("c", i), AfterGroup: fmt.Sprint(topic, ":n", i), Group: fmt.Sprint("n", i+1)})
		storetest.Must(t, err)
	}
	if err := publish(notify.Message{Topic: topic, ID: "far", AfterGroup: topic + ":x", Group: "n1"}); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("over 20 groups: %v", err)
	}
}

// A callback lies in the shard of its group.
func TestGroupOfAnotherShard(t *testing.T) {
	t.Parallel()
	db := storetest.Sharded(t, 4)
	topics := make(map[int]string)
	for i := 0; len(topics) < 2; i++ {
		topics[db.Of(fmt.Sprint("t", i)).Number()] = fmt.Sprint("t", i)
	}
	var names []string
	for _, name := range topics {
		names = append(names, name)
	}
	_, err := clientOf(t, db).Publish(t.Context(), notify.Message{Topic: names[0], ID: "done", AfterGroup: names[1] + ":g"})
	if want := fmt.Sprintf("publish this one to %s, or to a topic of shard %d (bellhop topics --shard TOPIC)", names[1], db.Of(names[1]).Number()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// Messages of a group come from a relay, too.
func TestRelayedGroup(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	pub := clientOf(t, db)
	r, _ := newRelay(t, pub, db)
	storetest.Is(t, "relayed", r.outcomes(rowOf(1, notify.Message{ID: "a", Group: "g"}), rowOf(2, notify.Message{ID: "done", AfterGroup: topic + ":g"})), "created created")
	info, err := pub.Inspect(t.Context(), topic, "done")
	if err != nil || info.Left == nil || *info.Left != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	storetest.Is(t, "relayed", r.outcomes(rowOf(3, notify.Message{ID: "other", AfterGroup: topic + ":g"}), rowOf(4, notify.Message{ID: "done", AfterGroup: topic + ":g"})), "refused kept")
}

// What joins a group while the last of it ends is waited for, or refused, and never forgotten.
func TestJoinAtTheEnd(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	pub := clientOf(t, db)
	carry(t, db)
	work := subscriberstest.Claimer(t, db)
	for round := range 40 {
		group := fmt.Sprint("g", round)
		storetest.Publish(t, db, notify.Message{Topic: topic, ID: group, Group: group}, notify.Message{Topic: topic, ID: group + "-done", AfterGroup: topic + ":" + group})
		var joined atomic.Int64
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for n := range 20 {
					_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: fmt.Sprint(group, "-", i, "-", n), Group: group})
					if errors.Is(err, store.ErrGroupComplete) {
						return
					}
					storetest.Must(t, err)
					joined.Add(1)
				}
			})
		}
		after := ""
		storetest.Eventually(t, "the callback comes", func() bool {
			ds, err := work.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: time.Minute})
			storetest.Must(t, err)
			for _, d := range ds {
				after = d.Headers[store.HeaderAfterAcked]
				storetest.Must(t, d.Ack(t.Context()))
			}
			return after != ""
		})
		all.Wait()
		storetest.Is(t, "it came after", after, fmt.Sprint(joined.Load()+1))
	}
}

// A header that has the name of the group puts a message into none.
func TestHeaderOfAGroup(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	storetest.Publish(t, db, notify.Message{Topic: "orders", ID: "a", Group: "g", Delay: time.Hour}, notify.Message{Topic: "orders", ID: "done", AfterGroup: "orders:g"})
	storetest.Publish(t, db, notify.Message{Topic: "orders", ID: "a", Delay: time.Hour, IfExists: notify.Replace, Headers: map[string]string{"group": "g"}})
	i, err := storetest.Inspector(t, db).Inspect(t.Context(), "orders", "done")
	if err != nil || i.Left == nil || *i.Left != 0 {
		t.Errorf("%v are left, %v", i.Left, err)
	}
}

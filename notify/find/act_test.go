package find_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// act acts on all that a question asks for, and returns the sum.
func act(t testing.TB, db *notify.Store, question string, a find.Act, o find.Options, dryRun bool) (sum find.Acted) {
	t.Helper()
	q, err := find.Parse(question)
	storetest.Must(t, err)
	for f := finder(t, db); ; {
		done, err := f.Act(t.Context(), q, a, o, dryRun)
		storetest.Must(t, err)
		done.Matched, done.Done = done.Matched+sum.Matched, done.Done+sum.Done
		if sum, o.Cursor = done, done.Cursor; o.Cursor == "" {
			return sum
		}
	}
}

func want(t testing.TB, of string, sum find.Acted, matched, done int) {
	t.Helper()
	if sum.Matched != matched || sum.Done != done {
		t.Errorf("%s: %d matched, %d done, want %d and %d", of, sum.Matched, sum.Done, matched, done)
	}
}

func TestRequeueAndPurge(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		for i := range 60 {
			storetest.Publish(t, db, dead("a", fmt.Sprint(i), "timeout"), dead("b", fmt.Sprint(i), "timeout"), dead("b", fmt.Sprint("x", i), "refused"))
		}
		storetest.Publish(t, db, dead("b", "lost", "timeout"), notify.Message{Topic: "a", ID: "later", Delay: time.Hour})
		db.Client().HDel(t.Context(), db.KeysOf("b").Messages(), "b:lost")
		want(t, "dry run", act(t, db, "reason~timeout", find.Act{Kind: find.Requeue}, find.Options{}, true), 121, 0)
		want(t, "requeue", act(t, db, "reason~timeout topic:b", find.Act{Kind: find.Requeue}, find.Options{Limit: 7}, false), 61, 60)
		want(t, "again", act(t, db, "reason~timeout topic:b", find.Act{Kind: find.Requeue}, find.Options{}, false), 1, 0)
		want(t, "purge", act(t, db, "topic:*", find.Act{Kind: find.Purge}, find.Options{}, false), 121, 121)
		found, _ := all(t, db, "topic:*", find.Options{})
		if len(found) != 61 {
			t.Errorf("%d are left", len(found))
		}
	})
}

// A dead letter without a record is found, unless something of its record is asked for, and purged.
func TestDeadWithoutRecord(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		for question, want := range map[string]int{
			"topic:b": 1, "state:dead": 1, "reason~timeout": 1, "id:lost": 1, "id:lo*": 1, "topic:b id:lost state:dead": 1,
			"body~x": 0, "header.a=b": 0, "due<+1d": 0, "key:k": 0, "id:lost body~x": 0, "id:lost state:ready": 0, "reason~refused": 0,
		} {
			storetest.Publish(t, db, dead("b", "lost", "timeout"))
			db.Client().HDel(t.Context(), db.KeysOf("b").Messages(), "b:lost")
			if found, _ := all(t, db, question, find.Options{}); len(found) != want {
				t.Errorf("%s finds %d, want %d", question, len(found), want)
			}
			if strings.Contains(question, "state:ready") {
				continue // which a purge refuses
			}
			if sum := act(t, db, question, find.Act{Kind: find.Purge}, find.Options{}, false); sum.Done != want {
				t.Errorf("%s purges %d, want %d", question, sum.Done, want)
			}
		}
	})
}

// All dead letters are those that there were when the act began, also where others take some of them away meanwhile.
func TestActOnDeadLettersOfThen(t *testing.T) {
	t.Parallel()
	for _, kind := range []find.Kind{find.Requeue, find.Purge} {
		onEach(t, func(t *testing.T, db *notify.Store) {
			var letters, others []string
			for i := range 120 {
				letters = append(letters, fmt.Sprintf("%03d", i))
				storetest.Publish(t, db, dead("t", letters[i], "x"))
			}
			others = letters[60:]
			f, q := finder(t, db), parse(t, "topic:t state:dead")
			first, err := f.Act(t.Context(), q, find.Act{Kind: kind}, find.Options{Limit: 50}, false)
			if err != nil || first.Done != 50 {
				t.Fatal(first, err)
			}
			if n, err := storetest.Inspector(t, db).Purge(t.Context(), "t", others...); n != len(others) || err != nil {
				t.Fatal(n, err)
			}
			storetest.Publish(t, db, notify.Message{Topic: "t", ID: "new", Restore: &notify.Restore{Died: clock(t, db), Reason: "x"}})
			want(t, string(kind), act(t, db, q.String(), find.Act{Kind: kind}, find.Options{Cursor: first.Cursor}, false), 10, 10)
			if left := storetest.Dead(t, db, "t"); len(left) != 1 || left[0] != "new" {
				t.Errorf("%s leaves %v", kind, left)
			}
		})
	}
}

// All messages of a key are acted on: the next one, which is called up as the one before goes, too.
func TestActOnAKey(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]find.Act{"cancel": {Kind: find.Cancel}, "reschedule": {Kind: find.Reschedule, Delay: new(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			for i := range 5 {
				storetest.Publish(t, db, notify.Message{Topic: "ledger", ID: fmt.Sprint("tx-", i), Key: "acct-7", Body: []byte("x")})
			}
			want(t, name, act(t, db, "key:acct-7", a, find.Options{}, false), 5, 5)
			if c, err := storetest.Count(db, "ledger"); err != nil || c.Ready+c.Blocked != 0 {
				t.Errorf("there is %+v, %v", c, err)
			}
		})
	}
}

func TestCancelAndReschedule(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		for i := range 90 {
			storetest.Publish(t, db, notify.Message{Topic: fmt.Sprint("t", i%3), ID: fmt.Sprint(i), Delay: time.Duration(1+i) * time.Hour},
				notify.Message{Topic: fmt.Sprint("r", i%3), ID: fmt.Sprint(i)})
		}
		storetest.Publish(t, db, notify.Message{Topic: "all", ID: "b", Broadcast: true, Delay: time.Hour}, dead("t0", "d", "x"))
		for _, to := range []time.Duration{50 * time.Hour, 200 * time.Hour, time.Hour} {
			want(t, to.String(), act(t, db, "topic:*", find.Act{Kind: find.Reschedule, Delay: &to}, find.Options{Limit: 40}, false), 181, 181)
		}
		at := time.Now().Add(30 * time.Hour).Truncate(time.Millisecond)
		want(t, "at", act(t, db, "topic:*", find.Act{Kind: find.Reschedule, Due: at}, find.Options{}, false), 181, 181)
		want(t, "at again", act(t, db, "topic:*", find.Act{Kind: find.Reschedule, Due: at}, find.Options{}, false), 0, 0)
		found, _ := all(t, db, "state:scheduled due>+29h due<+31h", find.Options{})
		if len(found) != 181 || slices.ContainsFunc(found, func(i notify.Info) bool { return !i.Due.Equal(at) }) {
			t.Errorf("%d are due then", len(found))
		}
		want(t, "at once", act(t, db, "topic:*", find.Act{Kind: find.Reschedule, Delay: new(time.Duration)}, find.Options{Limit: 13}, false), 181, 181)
	})
}

// What workers have is cancelled with a stop alone, and dead letters are not.
func TestCancelWithStop(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		c := subscriberstest.Claimer(t, db)
		for i := range 60 {
			topic := fmt.Sprint("t", i%3)
			storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint(i)})
			if ds, err := c.Claim(t.Context(), topic, subscribers.ClaimOptions{Lease: time.Hour}); err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
			storetest.Publish(t, db, notify.Message{Topic: topic, ID: fmt.Sprint("w", i), Delay: time.Hour})
		}
		storetest.Publish(t, db, dead("t0", "d", "x"))
		want(t, "dry run", act(t, db, "topic:*", find.Act{Kind: find.Cancel, Stop: true}, find.Options{}, true), 120, 0)
		want(t, "without a stop", act(t, db, "topic:t0", find.Act{Kind: find.Cancel}, find.Options{}, false), 20, 20)
		want(t, "the leased", act(t, db, "topic:t1 state:leased", find.Act{Kind: find.Cancel, Stop: true}, find.Options{Limit: 7}, false), 20, 20)
		want(t, "all", act(t, db, "topic:*", find.Act{Kind: find.Cancel, Stop: true}, find.Options{}, false), 100, 100)
		found, _ := all(t, db, "topic:*", find.Options{})
		stopped := slices.DeleteFunc(slices.Clone(found), func(i notify.Info) bool { return i.Stop.IsZero() })
		if len(found) != 61 || len(stopped) != 60 {
			t.Errorf("%d are left, and %d of them are to be cancelled", len(found), len(stopped))
		}
		storetest.Fails(t, "a purge with a stop", storetest.ErrOf(finder(t, db).Act(t.Context(), parse(t, "topic:*"), find.Act{Kind: find.Purge, Stop: true}, find.Options{}, false)), notify.ErrInvalid)
	})
}

// clock returns the time of Redis.
func clock(t *testing.T, db *notify.Store) time.Time {
	t.Helper()
	now, err := db.Client().Time(t.Context()).Result()
	storetest.Must(t, err)
	return now
}

// What is rescheduled to now moves on to the end of the ready set, and is met there again.
func TestRescheduleToNow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		for i := range 100 {
			storetest.Publish(t, db, notify.Message{Topic: fmt.Sprint("t", i%3), ID: fmt.Sprint(i), Delay: time.Hour * time.Duration(i%2)})
		}
		for _, a := range []find.Act{{Kind: find.Reschedule, Delay: new(time.Duration)}, {Kind: find.Reschedule, Due: time.Now().Add(-time.Hour)}} {
			begun := clock(t, db) // what is due in the millisecond in which the act begins is at the new time already
			storetest.Eventually(t, "the next millisecond", func() bool { return clock(t, db).UnixMilli() > begun.UnixMilli() })
			want(t, "now", act(t, db, "topic:*", a, find.Options{Limit: 9}, false), 100, 100)
		}
		if found, _ := all(t, db, "state:ready", find.Options{}); len(found) != 100 {
			t.Errorf("%d are ready", len(found))
		}
	})
}

// A message that was requeued and died again is not requeued again, nor is one that came back after
// its time passed in the middle of an act that was stopped.
func TestActIsForWhatWasThere(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		for i := range 20 {
			storetest.Publish(t, db, dead("t", fmt.Sprint(10+i), "x"))
		}
		f, q := finder(t, db), parse(t, "state:dead,ready,scheduled")
		first, err := f.Act(t.Context(), q, find.Act{Kind: find.Requeue}, find.Options{Limit: 10}, false)
		if err != nil || first.Done != 10 || first.Cursor == "" {
			t.Fatal(first, err)
		}
		for _, d := range claim(t, db, "t", 10) {
			storetest.Must(t, storetest.ErrOf(d.Bury(t.Context(), "again")))
		}
		want(t, "the rest", act(t, db, q.String(), find.Act{Kind: find.Requeue}, find.Options{Cursor: first.Cursor}, false), 10, 10)

		re := find.Act{Kind: find.Reschedule, Delay: new(time.Duration)}
		first, err = f.Act(t.Context(), q, re, find.Options{Limit: 4}, false)
		if err != nil || first.Done != 4 {
			t.Fatal(first, err)
		}
		for _, d := range claim(t, db, "t", 10) { // of which 4 were moved behind these
			storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), time.Hour, "later")))
		}
		storetest.Publish(t, db, notify.Message{Topic: "t", ID: "new", Delay: time.Hour})
		want(t, "nothing new", act(t, db, q.String(), re, find.Options{Cursor: first.Cursor}, false), 0, 0)
	})
}

// A message that had failed before, and that a worker put off after the act moved it, is met again, and not moved again.
func TestRescheduleOnce(t *testing.T) {
	t.Parallel()
	putOff := map[string]func(d *subscribers.Delivery) error{
		"snoozed":                  func(d *subscribers.Delivery) error { return storetest.ErrOf(d.Snooze(t.Context(), 2*time.Hour)) },
		"failed without a history": func(d *subscribers.Delivery) error { return storetest.ErrOf(d.Nack(t.Context(), 2*time.Hour, "again")) },
	}
	for name, how := range putOff {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, db *notify.Store) {
				storetest.Must(t, storetest.ErrOf(storetest.Inspector(t, db).Set(t.Context(), "t", notify.SettingsChange{History: new(false)})))
				for i := range 20 {
					storetest.Publish(t, db, notify.Message{Topic: "t", ID: fmt.Sprint(10 + i)})
				}
				for _, d := range claim(t, db, "t", 20) {
					storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), time.Hour, "first")))
				}
				f, q, re := finder(t, db), parse(t, "topic:t"), find.Act{Kind: find.Reschedule, Delay: new(time.Duration)}
				first, err := f.Act(t.Context(), q, re, find.Options{Limit: 10}, false)
				if err != nil || first.Done != 10 || first.Cursor == "" {
					t.Fatal(first, err)
				}
				for _, d := range claim(t, db, "t", 10) {
					storetest.Must(t, how(&d))
				}
				want(t, "the rest", act(t, db, q.String(), re, find.Options{Cursor: first.Cursor}, false), 10, 10)
				want(t, "another act", act(t, db, q.String(), re, find.Options{}, false), 20, 20)
			})
		})
	}
}

// Acts while others act, publish and claim change each message once.
func TestActsAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		const n = 400
		for i := range n {
			storetest.Publish(t, db, notify.Message{Topic: fmt.Sprint("t", i%5), ID: fmt.Sprint(i), Delay: time.Hour * time.Duration(i%2)})
		}
		results := make(chan find.Acted, 2)
		for range 2 {
			f, err := find.New(db)
			storetest.Must(t, err)
			q := parse(t, "topic:*")
			go func() {
				sum := find.Acted{}
				for o := (find.Options{}); ; {
					done, err := f.Act(context.WithoutCancel(t.Context()), q, find.Act{Kind: find.Cancel}, o, false)
					storetest.Should(t, err)
					sum.Matched, sum.Done = sum.Matched+done.Matched, sum.Done+done.Done
					if o.Cursor = done.Cursor; o.Cursor == "" {
						results <- sum
						return
					}
				}
			}()
		}
		a, b := storetest.Receive(t, "one", results), storetest.Receive(t, "other", results)
		if a.Done+b.Done != n || a.Matched+b.Matched < n {
			t.Errorf("%+v and %+v", a, b)
		}
		storetest.Empty(t, db)
	})
}

// A between does something once, right before a script is called.
type between struct {
	script string
	do     func()
	once   sync.Once
}

func (*between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "fcall" && strings.HasSuffix(fmt.Sprint(cmd.Args()[1]), "_"+b.script) {
			b.once.Do(b.do)
		}
		return next(ctx, cmd)
	}
}

// A message that took the id of one that matched, and does not match itself, is left alone.
func TestActLeavesNamesakesAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		shards, err := db.Shards(t.Context())
		storetest.Must(t, err)
		for _, test := range []struct {
			act    find.Act
			script string
		}{
			{find.Act{Kind: find.Cancel}, "cancel"},
			{find.Act{Kind: find.Cancel, Stop: true}, "cancel"},
			{find.Act{Kind: find.Reschedule, Delay: new(time.Duration)}, "reschedule"},
			{find.Act{Kind: find.Requeue}, "requeue"},
			{find.Act{Kind: find.Purge}, "purge"},
		} {
			topic, question := storetest.Beside(db, "t", test.script), "due>+2h"
			matches, other := notify.Message{Topic: topic, ID: "a", Delay: 3 * time.Hour}, notify.Message{Topic: topic, ID: "a", Delay: time.Hour}
			if test.act.Kind == find.Requeue || test.act.Kind == find.Purge {
				matches, question = dead(topic, "a", "timeout"), "reason~timeout"
			}
			acting := storetest.With(t, notify.Config{URL: storetest.URL(), Prefix: db.Home().Keys().Prefix(), Shards: len(shards)})
			storetest.Publish(t, db, matches)
			acting.Client().AddHook(&between{script: test.script, do: func() {
				if test.act.Kind == find.Requeue || test.act.Kind == find.Purge {
					requeued(t, db, topic)
					return
				}
				passes(t, db) // or both would be published in the same ms
				storetest.Should(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), topic, "a")))
				storetest.Publish(t, db, other)
			}})
			want(t, string(test.act.Kind), act(t, acting, question+" topic:"+topic, test.act, find.Options{}, false), 1, 0)
			found, _ := all(t, db, "topic:"+topic, find.Options{})
			if len(found) != 1 || found[0].State == notify.Ready || found[0].Reason == "timeout" {
				t.Errorf("%s: there is %+v", test.act.Kind, found)
			}
			storetest.Should(t, storetest.ErrOf(storetest.Publisher(t, db).Cancel(t.Context(), topic, "a")))
		}
	})
}

// requeued has the dead letter of a topic die again, for another reason.
func requeued(t *testing.T, db *notify.Store, topic string) {
	t.Helper()
	if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, "a"); n != 1 || err != nil {
		t.Error(n, err)
	}
	storetest.Should(t, storetest.ErrOf(claim(t, db, topic, 1)[0].Bury(t.Context(), "refused")))
}

// An act that is stopped goes on where it was, with other processes.
func TestActStopped(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		const n = 300
		for i := range n {
			storetest.Publish(t, db, dead(fmt.Sprint("t", i%7), fmt.Sprint(i), "x"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		q, calls := parse(t, "state:dead"), 0
		db.Observe(func(script string, _ time.Duration, _ error) {
			if calls++; script == "purge" && calls > 3 {
				cancel()
			}
		})
		done, err := finder(t, db).Act(ctx, q, find.Act{Kind: find.Purge}, find.Options{}, false)
		if !errors.Is(err, context.Canceled) || done.Cursor == "" {
			t.Fatal(done, err)
		}
		db.Observe(nil)
		rest := act(t, db, "state:dead", find.Act{Kind: find.Purge}, find.Options{Cursor: done.Cursor}, false)
		if left, _ := all(t, db, "topic:*", find.Options{}); len(left) != 0 || rest.Done == 0 {
			t.Errorf("%+v, then %+v: %d left", done, rest, len(left))
		}
	})
}

// An act that is stopped in the middle of a page counts none of its messages twice when it goes on.
func TestStoppedActCounts(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		const n = 60
		for i := range n {
			storetest.Publish(t, db, notify.Message{Topic: "t", ID: fmt.Sprint(i), Delay: time.Hour})
		}
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		db.Observe(func(script string, _ time.Duration, _ error) {
			if script == "cancel" {
				if calls++; calls == 3 {
					cancel()
				}
			}
		})
		done, err := finder(t, db).Act(ctx, parse(t, "topic:t"), find.Act{Kind: find.Cancel}, find.Options{}, false)
		if !errors.Is(err, context.Canceled) || done.Cursor == "" {
			t.Fatal(done, err)
		}
		db.Observe(nil)
		want(t, "stopped", done, 3, 3)
		want(t, "the rest", act(t, db, "topic:t", find.Act{Kind: find.Cancel}, find.Options{Cursor: done.Cursor}, false), n-3, n-3)
	})
}

// An act that Redis refuses in the middle goes on where it was, once Redis works again, and neither changes nor counts a message twice.
func TestRefusedActGoesOn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		u := storetest.UserOf(t, db)
		goesOn(t, u.Store, func() { u.ACL(t, "-@all") }, func() { u.ACL(t, "+@all") })
	})
}

// So does one whose Redis goes away.
func TestActGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always") // everysec may lose what was answered
			db := storetest.Following(storetest.With(t, notify.Config{URL: server.URL(), Prefix: "p", Shards: shards}))
			goesOn(t, db, server.Kill, func() {
				storetest.Restart(t, server)
			})
		})
	}
}

// goesOn checks an act that fails behind some messages, in the first shard that has any, and goes on.
func goesOn(t *testing.T, db *notify.Store, fails, works func()) {
	t.Helper()
	const n = 60
	for i := range n {
		storetest.Publish(t, db, notify.Message{Topic: fmt.Sprint("t", i), ID: "m", Delay: time.Hour})
	}
	calls := 0
	db.Observe(func(script string, _ time.Duration, _ error) {
		if script == "reschedule" {
			if calls++; calls == 3 {
				fails()
			}
		}
	})
	f, q, delay := finder(t, db), parse(t, "state:scheduled"), 2*time.Hour
	failed, sum := 0, find.Acted{}
	for o := (find.Options{}); ; {
		done, err := f.Act(t.Context(), q, find.Act{Kind: find.Reschedule, Delay: &delay}, o, false)
		sum.Matched, sum.Done = sum.Matched+done.Matched, sum.Done+done.Done
		if err != nil {
			failed++
			works()
		}
		if o.Cursor = done.Cursor; o.Cursor == "" {
			break
		}
	}
	if failed != 1 {
		t.Errorf("it failed %d times", failed)
	}
	want(t, "in all", sum, n, n)
}

// Acts leave alone what a token does not permit.
func TestActMay(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *notify.Store) {
		fill(t, db)
		o := find.Options{May: func(topic string) bool { return topic == "order.c.d" }}
		want(t, "purge", act(t, db, "topic:>", find.Act{Kind: find.Purge}, o, false), 1, 1)
		want(t, "cancel", act(t, db, "topic:>", find.Act{Kind: find.Cancel}, o, false), 0, 0)
		found, _ := all(t, db, "topic:>", find.Options{})
		storetest.Same(t, "found", 7, len(found))
	})
}

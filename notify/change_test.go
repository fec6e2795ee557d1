package notify_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// full returns a message with all that leaves traces in Redis.
func full(id string) notify.Message {
	m := message(id, time.Time{})
	m.TTL, m.MaxAttempts = anHour, 5
	return m
}

// scenario has verbs beside those of all: freeze notes what Redis holds, but counters, and frozen fails unless it holds that again.
func scenario() storetest.Scenario {
	var frozen sync.Map // what the store of each player held
	look := func(p *storetest.Player) map[string]any {
		all := dump(p, p.Store)
		for _, key := range []string{"topics", "topics-seen", "topics-names", "deaths-oldest", "deaths-newest"} { // at which the housekeeping looks some time
			delete(all, key)
		}
		return all
	}
	return storetest.Scenario{Topic: topic, Verbs: map[string]func(*storetest.Player, []string) string{
		"freeze": func(p *storetest.Player, _ []string) string { frozen.Store(p, look(p)); return "ok" },
		"frozen": func(p *storetest.Player, _ []string) string {
			before, _ := frozen.Load(p)
			if diff := cmp.Diff(before, look(p)); diff != "" {
				return "-before +after:\n" + diff
			}
			return "ok"
		},
		"work": func(p *storetest.Player, _ []string) string { // claims as workers do, which bury what they cannot read, and returns how many there are
			ds, err := subscriberstest.Claimer(p, p.Store).Claim(p.Context(), topic, subscribers.ClaimOptions{Max: 10, Lease: anHour})
			return fmt.Sprint(len(ds), err)
		},
		"sweep": func(p *storetest.Player, words []string) string { // a step of the housekeeping; topics keep some that succeeded
			keeps, _ := strconv.Atoi(words[0])
			swept := p.Sweep(store.Sweep{KeepDoneCount: keeps, KeepDoneAge: anHour})
			return fmt.Sprintf("too many %d, forgotten %d", swept.TooMany, swept.Forgotten)
		},
	}}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a ttl=1h attempts=5
	claim 1 = a
	nack a delay=1h
== scheduled
	cancel a = scheduled
	counts published=1
== ready
	reschedule a delay=0s = ready
	cancel a = ready
	counts published=1
== leased
	reschedule a delay=0s = ready
	claim 1 = a:1
	freeze
	cancel a = refused:leased
	frozen
	counts leased=1 published=1
	ack a
== dead
	reschedule a delay=0s = ready
	claim 1 = a:1
	bury a
	cancel a = dead
	counts published=1 died=1
==
	cancel a = none
	empty
	`, scenario())
}

func TestCancelLeavesTheOthers(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
== scheduled
	publish a ttl=1h attempts=5 due=future
	freeze
	publish b ttl=1h attempts=5 due=future
	cancel b = scheduled
	frozen
	counts scheduled=1 published=2
== ready
	publish a ttl=1h attempts=5
	freeze
	publish b ttl=1h attempts=5
	cancel b = ready
	frozen
	counts ready=1 published=2
== dead
	publish a ttl=1h attempts=5
	claim 1 = a
	bury a
	freeze
	publish b ttl=1h attempts=5
	claim 1 = b
	bury b
	cancel b = dead
	frozen
	counts dead=1 published=2 died=2
	`, scenario())
}

func TestNothingToChange(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	freeze
	cancel b = none
	reschedule b delay=1h = none
	is b=none
	frozen
	counts ready=1 published=1
	`, scenario())
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a ttl=1h attempts=5
	claim 1 = a
	note a
	nack a delay=1h
== scheduled, to a time
	reschedule a due=2199-01-02T04:04:05.678Z = scheduled
	has a due=future+1h expires=due+1h moved=now
	counts scheduled=1 published=1
== scheduled, by a delay
	reschedule a delay=3h = scheduled
	has a due=now+3h expires=due+1h moved=now
	counts scheduled=1 published=1
== scheduled, to now
	reschedule a delay=0s = ready
	has a due=now expires=due+1h moved=now
	counts ready=1 published=1
== scheduled, to the past
	reschedule a due=past = ready
	has a due=now expires=past+1h moved=now
	counts ready=1 published=1
== ready, to a time
	reschedule a delay=0s = ready
	reschedule a due=future = scheduled
	has a due=future expires=due+1h moved=now
	counts scheduled=1 published=1
== ready, by a delay
	reschedule a delay=0s = ready
	reschedule a delay=1h = scheduled
	has a due=now+1h expires=due+1h moved=now
	counts scheduled=1 published=1
== ready, to now
	reschedule a delay=0s = ready
	reschedule a delay=0s = ready
	has a due=now expires=due+1h moved=now
	counts ready=1 published=1
== ready, to the past
	reschedule a delay=0s = ready
	reschedule a due=past = ready
	has a due=now expires=past+1h moved=now
	counts ready=1 published=1
== one whose key is busy
	publish b key=x
	publish c key=x delay=1h
	reschedule c delay=0s = blocked
	is b=ready c=blocked
	reschedule c due=past = blocked
	reschedule c delay=1h = scheduled
	reschedule b delay=1h = scheduled
	reschedule c delay=0s = ready
== refused, while it is leased
	reschedule a delay=0s = ready
	claim 1 = a:1
	freeze
	reschedule a delay=1h = refused:leased
	frozen
== refused, once it is dead
	reschedule a delay=0s = ready
	claim 1 = a:1
	bury a
	freeze
	reschedule a delay=1h = refused:dead
	frozen
==
	has a published=noted first_due=noted limit=5 body="body of a"
	`, scenario())
}

func TestRescheduleReadyLaterAndReadyAgain(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	reschedule a due=future = scheduled
	redis EXISTS ready = 0
	redis EXISTS ready:order.timeout = 0
	reschedule a due=past = ready
	has a first_due=due due=now
	redis EXISTS scheduled = 0
	redis EXISTS scheduled:order.timeout = 0
	redis ZCARD ready = 1
	counts ready=1 published=1
	claim 2 = a
	`, scenario())
}

// The carrier is nudged when a message becomes the first that is due, and only then.
func TestNudge(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	nudges := recording(t, db, db.KeysOf(topic).Nudge())
	at := func(minutes int) time.Time { return future.Add(time.Duration(minutes) * time.Minute) }
	publishAt := func(id string, minutes int) func() error {
		return func() error { return storetest.ErrOf(pub.Publish(t.Context(), message(id, at(minutes)))) }
	}
	rescheduleTo := func(id string, minutes int) func() error {
		return func() error { return storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, id, at(minutes))) }
	}
	steps := []struct {
		name string
		do   func() error
		due  int // minutes of the nudge; 0: none
	}{
		{"the first", publishAt("a", 50), 50},
		{"a later one", publishAt("b", 60), 0},
		{"one at the same time", publishAt("c", 50), 0},
		{"an earlier one", publishAt("d", 40), 40},
		{"one that is refused", publishAt("b", 10), 0},
		{"many, of which the third is earlier", func() error {
			return pub.PublishMany(t.Context(), []notify.Message{message("e", at(70)), message("f", at(35)), message("g", at(30)), message("h", at(80))})[2].Err
		}, 30},
		{"one that is due at once", func() error { return storetest.ErrOf(pub.Publish(t.Context(), message("i", past))) }, 0},
		{"rescheduled, but not to be the first", rescheduleTo("b", 45), 0},
		{"rescheduled to be the first", rescheduleTo("b", 20), 20},
		{"the first, to be earlier", rescheduleTo("b", 19), 19},
		{"the first, to be later", rescheduleTo("b", 90), 0},
		{"a ready one, to be the first", rescheduleTo("i", 5), 5},
		{"cancelled", func() error { return storetest.ErrOf(pub.Cancel(t.Context(), topic, "i")) }, 0},
	}
	for _, step := range steps {
		if err := step.do(); err != nil && !errors.Is(err, notify.ErrExists) {
			t.Fatal(err)
		}
		var want []string
		if step.due > 0 {
			want = []string{fmt.Sprintf("nudge %d", at(step.due).UnixMilli())}
		}
		storetest.Same(t, fmt.Sprintf("%s: nudges", step.name), want, nudges.recorded())
	}
}

// wait puts inboxes into the topic's waiting list, the first waiting longest.
func wait(t *testing.T, db *notify.Store, inboxes ...string) {
	t.Helper()
	for i, inbox := range inboxes {
		z := redis.Z{Score: float64(1000 + i), Member: db.KeysOf(topic).Inbox(inbox)}
		storetest.Must(t, db.Client().ZAdd(t.Context(), db.KeysOf(topic).Waiting(topic), z).Err())
	}
}

// waiting returns the topic's waiting list.
func waiting(t *testing.T, db *notify.Store) []string {
	t.Helper()
	list, err := db.Client().ZRange(t.Context(), db.KeysOf(topic).Waiting(topic), 0, -1).Result()
	storetest.Must(t, err)
	for i := range list {
		list[i] = list[i][len(db.KeysOf(topic).Inbox("")):]
	}
	return list
}

func TestRing(t *testing.T) {
	t.Parallel()
	dead := make([]string, 450)
	for i := range dead {
		dead[i] = fmt.Sprintf("dead-%03d", i)
	}
	alive := []string{"a", "b", "c", "d"}
	tests := []struct {
		name     string
		waiting  []string
		messages int
		rung     []string
		left     []string
	}{
		{"nobody waits", nil, 2, nil, []string{}},
		{"one message, one of many", []string{"c", "a", "b"}, 1, []string{"c"}, []string{"a", "b", "c"}},
		{"fewer messages than inboxes", []string{"d", "b", "c", "a"}, 3, []string{"d", "b", "c"}, []string{"a", "b", "c", "d"}},
		{"as many", []string{"b", "a"}, 2, []string{"b", "a"}, []string{"a", "b"}},
		{"more messages than inboxes", []string{"b", "a"}, 7, []string{"b", "a"}, []string{"a", "b"}},
		{"a dead inbox", []string{"x", "a", "b"}, 1, []string{"a"}, []string{"b", "a"}},
		{"dead inboxes between", []string{"x", "a", "y", "b", "c"}, 2, []string{"a", "b"}, []string{"c", "a", "b"}},
		{"a dead inbox and few", []string{"x", "a", "b"}, 3, []string{"a", "b"}, []string{"a", "b"}},
		{"many dead inboxes, and one", append(slices.Clone(dead), "a"), 1, []string{"a"}, []string{"a"}},
		{"many dead inboxes between", slices.Concat([]string{"a"}, dead, []string{"b", "c"}), 2, []string{"a", "b"}, []string{"c", "a", "b"}},
		{"only dead inboxes", []string{"x", "y", "z"}, 2, nil, []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, db := open(t)
			wait(t, db, test.waiting...)
			channels := []string{wakes(db, topic)}
			for _, inbox := range alive {
				channels = append(channels, db.KeysOf(topic).Inbox(inbox))
			}
			bells := recording(t, db, channels...)
			messages := make([]notify.Message, test.messages)
			for i := range messages {
				messages[i] = message(fmt.Sprint(i), time.Time{})
			}
			storetest.Publish(t, db, messages...)
			want := []string{wake(db, topic, test.messages)}
			for _, inbox := range test.rung {
				want = append(want, "inbox:"+inbox+" "+topic)
			}
			storetest.Same(t, "rings", want, bells.recorded())
			storetest.Same(t, "who waits now", test.left, waiting(t, db))
		})
	}
}

// Where a call may drop no more dead inboxes, the carrier goes on until one that lives is rung.
func TestRingPastVeryManyDead(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	dead := make([]string, 1200)
	for i := range dead {
		dead[i] = fmt.Sprintf("dead-%04d", i)
	}
	wait(t, db, append(dead, "a")...)
	keys := db.KeysOf(topic)
	bells := recording(t, db, keys.Inbox("a"))
	storetest.Must(t, storetest.ErrOf(pub.Publish(t.Context(), message("m", time.Time{}))))
	if got := bells.recorded(); len(got) > 0 {
		t.Errorf("it rang %v", got)
	}
	if at := db.Client().ZScore(t.Context(), keys.Alarms(), "/"+topic).Val(); at == 0 {
		t.Error("the carrier does not go on")
	}
	bells = recording(t, db, keys.Inbox("a"))
	carry(t, db)
	storetest.Eventually(t, "none is left that is dead", func() bool { return slices.Equal(waiting(t, db), []string{"a"}) })
	if got, want := bells.recorded(), "inbox:a "+topic; len(got) == 0 || got[0] != want {
		t.Errorf("it rang %v, want %s", got, want)
	}
}

func TestOnlyWhatIsDueRings(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	wait(t, db, "a", "b")
	bells := recording(t, db, wakes(db, topic), db.KeysOf(topic).Inbox("a"), db.KeysOf(topic).Inbox("b"))
	publish(t, pub, message("m", future))
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "m", anHour)))
	if got := bells.recorded(); len(got) > 0 {
		t.Errorf("published was %q for what is due later", got)
	}
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, "m", 0)))
	want := []string{wake(db, topic, 1), "inbox:a " + topic}
	storetest.Same(t, "rings", want, bells.recorded())
}

// A topic whose ready set is foreign accepts nothing that is due already, and holds up
// neither later messages nor other topics.
func TestForeignReadySet(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	db.Client().Set(t.Context(), db.KeysOf(topic).Ready(topic), "foreign", 0)
	other := full("other")
	other.Topic = "another"
	refused := []notify.Message{full("a"), full("b")}
	unchanged(t, db, func() {
		for _, r := range pub.PublishMany(t.Context(), refused) {
			if r.Err == nil || !strings.Contains(r.Err.Error(), "foreign") {
				t.Errorf("%v; want an error that tells of what is foreign", r.Err)
			}
		}
	})
	r := pub.PublishMany(t.Context(), []notify.Message{refused[0], message("later", future), other})
	if r[0].Err == nil || r[1].Err != nil || r[2].Err != nil {
		t.Errorf("%v, %v, %v; want only the first refused", r[0].Err, r[1].Err, r[2].Err)
	}
	want := []redis.Z{{Score: float64(r[2].Due.Add(anHour).UnixMilli()), Member: "another:other"}}
	storetest.Same(t, "expiries", want, dumpOf(t, db, db.KeysOf(other.Topic))["expiries"])
}

// Foreign text in place of numbers in a record stops no script half way.
func TestForeignNumbersInARecord(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`1,{"ttl":null,"attempts":null}`, `1,{"ttl":"1h","attempts":"many"}`, `1,2,{"ttl":{},"attempts":[]}`,
		`1,{"ttl":0,"attempts":0}`, `1,{"ttl":-5,"attempts":-5}`, `1,{"ttl":NaN,"attempts":NaN}`, `[1]`, `null`, ``,
		`1,{`, `1,{]`, `1,`, `1,2,`, `1,null`, `1,2,3`, `99999999999999999999`, `x1`, `{"attempts":1}`,
	} {
		t.Run(line, func(t *testing.T) {
			pub, db := open(t)
			publish(t, pub, message("a", future))
			db.Client().HSet(t.Context(), db.KeysOf(topic).Messages(), topic+":a", line+"\nbody")
			storetest.Must(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", past)))
			unreadable(t, pub, db)
			if n, err := storetest.Inspector(t, db).Requeue(t.Context(), topic, "a"); err != nil || n != 1 {
				t.Errorf("requeued %d, %v", n, err)
			}
			storetest.Is(t, "it is", stateOf(t, pub, "a"), notify.Ready)
		})
	}
}

// unreadable claims the message a, and rejects it if it could be read; either way it is
// dead at the end.
func unreadable(t *testing.T, pub client, db *notify.Store) {
	t.Helper()
	claimer := subscriberstest.Claimer(t, db)
	ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 1, Lease: anHour})
	storetest.Must(t, err)
	for _, d := range ds {
		if out, err := d.Nack(t.Context(), anHour, "not now"); err != nil || out.State != notify.Scheduled {
			t.Errorf("nack: %+v, %v; want scheduled", out, err)
		}
		storetest.Must(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", past)))
		bury(t, db, 1)
	}
	wantCounts(t, pub, notify.Counts{Dead: 1, Published: 1, Died: 1})
}

package notify_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
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

// usedUp publishes a message in a state, with one attempt used up.
func usedUp(t *testing.T, pub client, db *notify.Store, m notify.Message, state notify.State) {
	t.Helper()
	inState(t, db, m, notify.Leased)
	leased, err := db.Client().ZScore(t.Context(), db.KeysOf(topic).Leased(), topic+":"+m.ID).Result()
	storetest.Must(t, err)
	d := subscriberstest.Claimer(t, db).Delivery(topic, m.ID, subscribers.Receipt(leased))
	storetest.Must(t, storetest.ErrOf(d.Nack(t.Context(), anHour, "not now")))
	if state == notify.Scheduled {
		return
	}
	storetest.Must(t, storetest.ErrOf(pub.RescheduleIn(t.Context(), topic, m.ID, 0)))
	switch state {
	case notify.Leased:
		claim(t, db, 1)
	case notify.Dead:
		bury(t, db, 1)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			usedUp(t, pub, db, full("a"), state)
			if state == notify.Leased {
				unchanged(t, db, func() {
					if was, err := pub.Cancel(t.Context(), topic, "a"); !errors.Is(err, notify.ErrLeased) || was != notify.Leased {
						t.Errorf("it was %v, %v; want ErrLeased", was, err)
					}
				})
				return
			}
			if was, err := pub.Cancel(t.Context(), topic, "a"); err != nil || was != state {
				t.Errorf("it was %v, %v; want %v", was, err, state)
			}
			counters, died := map[string]string{topic + ":published": "1"}, int64(0)
			if state == notify.Dead {
				died = 1
				counters[topic+":died"] = "1"
			}
			wantCounts(t, pub, notify.Counts{Published: 1, Died: died})
			left := map[string]any{"topics": counters}
			now := dump(t, db)
			for _, looked := range []string{"topics-seen", "topics-names", "deaths-oldest", "deaths-newest"} { // at which the housekeeping looks some time
				delete(now, looked)
			}
			if diff := cmp.Diff(left, now); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			if _, err := pub.Cancel(t.Context(), topic, "a"); !errors.Is(err, notify.ErrNotFound) {
				t.Errorf("cancel again: %v, want ErrNotFound", err)
			}
		})
	}
}

func TestCancelLeavesTheOthers(t *testing.T) {
	t.Parallel()
	for _, state := range []notify.State{notify.Scheduled, notify.Ready, notify.Dead} {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			inState(t, db, full("a"), state)
			before := dump(t, db)
			inState(t, db, full("b"), state)
			if was, err := pub.Cancel(t.Context(), topic, "b"); err != nil || was != state {
				t.Errorf("it was %v, %v; want %v", was, err, state)
			}
			after := dump(t, db)
			counters := before["topics"].(map[string]string)
			counters[topic+":published"] = "2"
			if state == notify.Dead {
				counters[topic+":died"] = "2"
				before["deaths-newest"] = after["deaths-newest"] // which stays later than the truth
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("what the other one left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingToChange(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	inState(t, db, message("a", time.Time{}), notify.Ready)
	unchanged(t, db, func() {
		if was, err := pub.Cancel(t.Context(), topic, "b"); !errors.Is(err, notify.ErrNotFound) || was != 0 {
			t.Errorf("cancel: it was %v, %v; want ErrNotFound", was, err)
		}
		if _, err := pub.RescheduleIn(t.Context(), topic, "b", anHour); !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("reschedule: %v; want ErrNotFound", err)
		}
		if _, err := pub.Inspect(t.Context(), topic, "b"); !errors.Is(err, notify.ErrNotFound) {
			t.Errorf("inspect: %v; want ErrNotFound", err)
		}
	})
}

func TestRescheduleIsRefused(t *testing.T) {
	t.Parallel()
	for state, want := range map[notify.State]error{notify.Leased: notify.ErrLeased, notify.Dead: notify.ErrDead} {
		t.Run(state.String(), func(t *testing.T) {
			pub, db := open(t)
			usedUp(t, pub, db, full("a"), state)
			unchanged(t, db, func() {
				if _, err := pub.RescheduleIn(t.Context(), topic, "a", anHour); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			})
		})
	}
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		from  notify.State
		delay time.Duration
		due   time.Time
		to    notify.State
	}{
		{"scheduled, to a time", notify.Scheduled, 0, future.Add(anHour), notify.Scheduled},
		{"scheduled, by a delay", notify.Scheduled, 3 * anHour, time.Time{}, notify.Scheduled},
		{"scheduled, to now", notify.Scheduled, 0, time.Time{}, notify.Ready},
		{"scheduled, to the past", notify.Scheduled, 0, past, notify.Ready},
		{"ready, to a time", notify.Ready, 0, future, notify.Scheduled},
		{"ready, by a delay", notify.Ready, anHour, time.Time{}, notify.Scheduled},
		{"ready, to now", notify.Ready, 0, time.Time{}, notify.Ready},
		{"ready, to the past", notify.Ready, 0, past.Add(anHour), notify.Ready},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pub, db := open(t)
			usedUp(t, pub, db, full("a"), test.from)
			first := firstDue(t, pub, "a")
			before := redisTime(t, db).Truncate(time.Millisecond)
			p, err := pub.reschedule(t.Context(), topic, "a", test.delay, test.due)
			storetest.Must(t, err)
			after := redisTime(t, db)
			earliest, latest := test.due, test.due
			if test.due.Before(before) { // in the past, or not given
				earliest, latest = before.Add(test.delay), after.Add(test.delay).Add(2*time.Millisecond)
			}
			if p.State != test.to || p.Due.Before(earliest) || p.Due.After(latest) {
				t.Errorf("%v due %v, want %v from %v to %v", p.State, p.Due, test.to, earliest, latest)
			}
			expires := p.Due.Add(anHour)
			if test.due.Before(before) && !test.due.IsZero() {
				expires = test.due.Add(anHour).Local()
			}
			wantRescheduled(t, pub, p, expires, first)
			if info, err := pub.Inspect(t.Context(), topic, p.ID); err != nil || info.Moved.Before(before) || info.Moved.After(after) {
				t.Errorf("moved at %v, %v; want from %v to %v", info.Moved, err, before, after)
			}
		})
	}
}

// wantRescheduled checks that the message is where it was rescheduled to, with all it
// had.
func wantRescheduled(t *testing.T, pub client, p notify.Publication, expires, first time.Time) {
	t.Helper()
	info, err := pub.Inspect(t.Context(), topic, p.ID)
	storetest.Must(t, err)
	want := notify.Info{
		Topic: topic, ID: p.ID, State: p.State, Due: p.Due, Attempts: 1, Expires: expires, History: info.History, Moved: info.Moved,
		Record: notify.Record{Published: info.Published, FirstDue: first, TTL: anHour, MaxAttempts: 5, Body: []byte("body of " + p.ID)},
	}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	counts := notify.Counts{Published: 1}
	if p.State == notify.Ready {
		counts.Ready = 1
	} else {
		counts.Scheduled = 1
	}
	wantCounts(t, pub, counts)
}

func TestRescheduleReadyLaterAndReadyAgain(t *testing.T) {
	t.Parallel()
	pub, db := open(t)
	publish(t, pub, message("a", time.Time{}))
	before := dump(t, db)
	storetest.Must(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", future)))
	if left := dump(t, db); left["ready"] != nil || left["ready:"+topic] != nil {
		t.Errorf("it is still ready: %v", left)
	}
	storetest.Must(t, storetest.ErrOf(pub.RescheduleAt(t.Context(), topic, "a", past)))
	due := float64(score(t, db, "ready:"+topic, topic+":a").UnixMilli())
	before["ready"] = []redis.Z{{Score: due, Member: topic}}
	before["ready:"+topic] = []redis.Z{{Score: due, Member: topic + ":a"}}
	record, err := record.Decode(before["messages"].(map[string]string)[topic+":a"])
	storetest.Must(t, err)
	before["messages"] = map[string]string{topic + ":a": notify.EncodeTimes(record.Published, time.UnixMilli(int64(due))) + "\nbody of a"}
	if diff := cmp.Diff(before, dump(t, db)); diff != "" {
		t.Errorf("what Redis holds (-want +got):\n%s", diff)
	}
	if ds := claim(t, db, 2); len(ds) != 1 || ds[0].Attempt != 1 {
		t.Errorf("claimed %+v", ds)
	}
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
		if diff := cmp.Diff(want, nudges.recorded()); diff != "" {
			t.Errorf("%s: nudges (-want +got):\n%s", step.name, diff)
		}
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
			pub, db := open(t)
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
			for _, r := range pub.PublishMany(t.Context(), messages) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			want := []string{wake(db, topic, test.messages)}
			for _, inbox := range test.rung {
				want = append(want, "inbox:"+inbox+" "+topic)
			}
			if diff := cmp.Diff(want, bells.recorded()); diff != "" {
				t.Errorf("rings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.left, waiting(t, db)); diff != "" {
				t.Errorf("who waits now (-want +got):\n%s", diff)
			}
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
	if diff := cmp.Diff(want, bells.recorded()); diff != "" {
		t.Errorf("rings (-want +got):\n%s", diff)
	}
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
	if diff := cmp.Diff(want, dumpOf(t, db, db.KeysOf(other.Topic))["expiries"]); diff != "" {
		t.Errorf("expiries (-want +got):\n%s", diff)
	}
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
			if got := stateOf(t, pub, "a"); got != notify.Ready {
				t.Errorf("it is %v, want ready", got)
			}
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

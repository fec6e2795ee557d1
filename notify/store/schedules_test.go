package store_test

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
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A recurring is a topic with schedules, whose elected carrier a test plays.
type recurring struct {
	t     *testing.T
	db    *notify.Store
	shard store.Shard
	topic string
	token string
	base  time.Time // of the times of occurrences: far off, so that none is due
}

func openRecurring(t *testing.T) *recurring {
	t.Helper()
	return recurringIn(t, storetest.Open(t))
}

func recurringIn(t *testing.T, db *notify.Store) *recurring {
	t.Helper()
	e, err := db.Of("bills").Elect(t.Context(), "me", store.MaxCarrierLease, 0)
	if err != nil || !e.Won {
		t.Fatal(e, err)
	}
	return &recurring{t: t, db: db, shard: db.Of("bills"), topic: "bills", token: e.Token, base: time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (r *recurring) must(err error) {
	r.t.Helper()
	storetest.Must(r.t, err)
}

// renew has all schedules made anew that rules of zones before a version made.
func (r *recurring) renew(version string) {
	r.t.Helper()
	for cursor, begun := "", false; !begun || cursor != ""; begun = true {
		next, err := r.shard.RenewZones(r.t.Context(), r.token, version, cursor)
		r.must(err)
		cursor = next
	}
}

// daily is a schedule that has all fields.
func (r *recurring) daily() *store.Schedule {
	return &store.Schedule{
		Topic: r.topic, Name: "daily", Spec: calendar.Spec{Cron: "30 2 1 * *", Zone: "Europe/Berlin", From: r.base, Until: r.base.AddDate(5, 0, 0)},
		Jitter: time.Minute, Count: 7, Missed: store.MissedAll, Grace: time.Hour, Catchup: 2 * time.Hour,
		Message: record.Record{
			Key: "acct-7", IfBusy: "drop", ContentType: "text/plain", Headers: map[string]string{"a": "b"}, TTL: time.Hour, MaxAttempts: 3,
			Lease: time.Minute, TryTimeout: time.Hour, Fail: record.FailDrop, LateAfter: time.Hour, Late: record.LateDrop, Body: []byte("pay\nnow"),
		},
	}
}

func (r *recurring) put(s *store.Schedule) (store.Outcome, int64) {
	r.t.Helper()
	outcome, revision, err := r.shard.PutSchedule(r.t.Context(), s, store.AnyRevision)
	r.must(err)
	return outcome, revision
}

func (r *recurring) state(name string) store.ScheduleState {
	r.t.Helper()
	_, state, _, err := r.shard.Schedule(r.t.Context(), r.topic, name)
	r.must(err)
	return state
}

// due returns what the carrier is to look at, having filled some.
func (r *recurring) due(fills ...store.Fill) store.Filled {
	r.t.Helper()
	f, err := r.shard.FillSchedules(r.t.Context(), r.token, true, fills)
	r.must(err)
	return f
}

// only returns the one schedule that the carrier is to look at.
func (r *recurring) only() store.DueSchedule {
	r.t.Helper()
	f := r.due()
	if len(f.Due) != 1 || f.Due[0].Err != nil {
		r.t.Fatalf("got %+v", f)
	}
	return f.Due[0]
}

// fills makes occurrences at so many hours after base, and returns what became of that.
func (r *recurring) fills(of store.DueSchedule, hours ...int) string {
	r.t.Helper()
	f := store.Fill{Of: of, Cursor: of.State.Cursor, Next: r.base}
	for _, hour := range hours {
		o := store.Occurrence{At: r.at(hour)}
		f.Occurrences, f.Cursor = append(f.Occurrences, o), o.At
	}
	return r.due(f).Made[0]
}

func (r *recurring) at(hour int) time.Time { return r.base.Add(time.Duration(hour) * time.Hour) }

func (r *recurring) id(name string, hour int) string {
	return name + "~" + r.at(hour).Format(time.RFC3339)
}

// hours returns at which hours the schedule is noted to have made something.
func (r *recurring) hours(name string) (all []int) {
	r.t.Helper()
	for _, made := range r.state(name).Occurrences {
		all = append(all, int(made.At.Sub(r.base)/time.Hour))
	}
	return all
}

// scheduled returns the ids that are scheduled in the topic.
func (r *recurring) scheduled() (all []string) {
	r.t.Helper()
	members, err := r.db.Client().ZRange(r.t.Context(), r.db.KeysOf(r.topic).Scheduled(r.topic), 0, -1).Result()
	r.must(err)
	for _, member := range members {
		all = append(all, strings.TrimPrefix(member, r.topic+":"))
	}
	return all
}

func hourly(r *recurring, name string) *store.Schedule {
	return &store.Schedule{Topic: r.topic, Name: name, Spec: calendar.Spec{Every: time.Hour}, Message: record.Record{Body: []byte("x")}}
}

// What would never fire again is refused, and nothing changes. One that has served is kept as it is put, and changed but for its times.
func TestPutOver(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	past, future := time.Now().Add(-time.Minute).Truncate(time.Second).UTC(), time.Now().AddDate(1, 0, 0).Truncate(time.Second).UTC()
	for says, spec := range map[string]calendar.Spec{
		"invalid until " + past.Format(time.RFC3339) + ": there is no occurrence between now and then, so it never fires; name a later time, or leave it out": {Every: time.Second, Until: past},
		"invalid until " + future.Format(time.RFC3339) + ": there is no occurrence between now and then":                                                      {Every: calendar.MaxEvery, From: past, Until: future},
		"invalid until " + past.Format(time.RFC3339) + ": there is no":                                                                                        {At: []time.Time{past, future}, Until: past},
		"invalid at: none of its times is to come, so it never fires; give one that is, or publish a message":                                                 {At: []time.Time{past, past.Add(-time.Hour)}},
	} {
		s := store.Schedule{Topic: r.topic, Name: "over", Spec: spec}
		if outcome, is, err := r.shard.PutSchedule(t.Context(), &s, store.AnyRevision); outcome != store.OutcomeRefused || is != 0 || !errors.Is(err, fault.ErrInvalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%+v: %s, %d, %v", spec, outcome, is, err)
		}
		if err := s.CheckOver(time.Now()); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%+v: %v", spec, err)
		}
		if _, _, _, err := r.shard.Schedule(t.Context(), r.topic, "over"); !errors.Is(err, store.ErrNoSchedule) {
			t.Errorf("%+v: it is there: %v", spec, err)
		}
		storetest.Must(t, storetest.ErrOf(r.shard.RestoreSchedule(t.Context(), &s, &store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: past}})))
		if outcome, _ := r.put(&s); outcome != store.OutcomeKept {
			t.Errorf("%+v: a put of what is there is %s", spec, outcome)
		}
		s.Message.Body, s.Jitter = []byte("other"), time.Millisecond
		if outcome, _ := r.put(&s); outcome != store.OutcomeReplaced {
			t.Errorf("%+v: a change of its message is %s", spec, outcome)
		}
		if f := r.due(); len(f.Due) != 1 {
			t.Errorf("%+v: the carrier looks at %+v", spec, f)
		}
		s.Spec.From = s.Spec.From.Add(time.Second)
		if s.Spec.From.Before(time.Unix(0, 0)) {
			s.Spec.From = time.Unix(1, 0)
		}
		if _, _, err := r.shard.PutSchedule(t.Context(), &s, store.AnyRevision); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%+v: a change of its times is %v", spec, err)
		}
		r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "over", store.AnyRevision))
	}
	for _, spec := range []calendar.Spec{{At: []time.Time{past, future}}, {Every: time.Hour, From: past, Until: future}} {
		if outcome, _ := r.put(&store.Schedule{Topic: r.topic, Name: "goes-on", Spec: spec}); outcome == store.OutcomeRefused {
			t.Errorf("%+v is refused", spec)
		}
	}
}

// A schedule is read as it was put. One that is put again as it is stays as it is; a change needs the revision that it was read with, if it
// names one; and no revision comes twice.
func TestPutSchedule(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	seen := make(map[int64]bool)
	put := func(want store.Outcome, s *store.Schedule) int64 {
		t.Helper()
		outcome, revision := r.put(s)
		if outcome != want || (want != store.OutcomeKept) == seen[revision] {
			t.Fatalf("got %s of revision %d, want %s", outcome, revision, want)
		}
		seen[revision] = true
		return revision
	}
	first := put(store.OutcomeCreated, r.daily())
	before := r.state("daily")
	put(store.OutcomeKept, r.daily())
	got, state, next, err := r.shard.Schedule(t.Context(), r.topic, "daily")
	if r.must(err); !cmp.Equal(&got, r.daily()) || !cmp.Equal(state, before) || state.Cursor.IsZero() || next.IsZero() {
		t.Errorf("%v, %+v, looked at %s: (- put, + got)\n%s", state, before, next, cmp.Diff(r.daily(), &got))
	}
	changed := r.daily()
	changed.Message.Body = []byte("pay later")
	second := put(store.OutcomeReplaced, changed)
	if outcome, is, err := r.shard.PutSchedule(t.Context(), r.daily(), first); outcome != store.OutcomeRefused || is != second || !errors.Is(err, store.ErrScheduleChanged) {
		t.Errorf("got %s, %d, %v", outcome, is, err)
	}
	if _, _, err := r.shard.PutSchedule(t.Context(), r.daily(), 0); !errors.Is(err, store.ErrScheduleChanged) {
		t.Errorf("a put of a new one: got %v", err)
	}
	storetest.Fails(t, "a delete", r.shard.DeleteSchedule(t.Context(), r.topic, "daily", first), store.ErrScheduleChanged)
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "daily", second))
	if state := r.state("daily"); state.Paused.IsZero() || seen[state.Revision] {
		t.Errorf("got %+v", state)
	}
	r.must(r.shard.ResumeSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	seen[r.state("daily").Revision] = true
	r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if _, _, _, err := r.shard.Schedule(t.Context(), r.topic, "daily"); !errors.Is(err, store.ErrNoSchedule) {
		t.Errorf("got %v", err)
	}
	storetest.Fails(t, "it", r.shard.PauseSchedule(t.Context(), r.topic, "daily", store.AnyRevision), store.ErrNoSchedule)
	put(store.OutcomeCreated, r.daily())
	r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if f := r.due(); !f.Whole {
		t.Errorf("the carrier looks at %+v", f.Due)
	}
	storetest.Empty(t, r.db)
}

// What was cancelled or moved, or whose id was in use, is not among the times that follow: of a schedule, and of those in pages.
func TestFollowing(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	sent := hourly(r, "sent")
	sent.Message.Broadcast = true
	pub := storetest.Publisher(t, r.db)
	storetest.Publish(t, r.db, notify.Message{Topic: r.topic, ID: r.id("x", 4), Due: r.at(5)})
	for _, s := range []*store.Schedule{hourly(r, "x"), sent} {
		s.Spec.From = r.at(0)
		r.put(s)
		r.fills(r.only(), 0, 1, 2, 3, 4)
		_, err := pub.Cancel(t.Context(), r.topic, r.id(s.Name, 0))
		r.must(err)
		_, err = pub.RescheduleAt(t.Context(), r.topic, r.id(s.Name, 2), r.at(9))
		r.must(err)
	}
	follow := func(l store.Listed, n int) (hours []int) {
		for _, at := range l.Schedule.Following(&l.State, time.Now(), n) {
			hours = append(hours, int(at.Sub(r.base)/time.Hour))
		}
		return hours
	}
	for name, want := range map[string][]int{"x": {1, 3, 5, 6}, "sent": {1, 3, 4, 5}} {
		schedule, state, _, err := r.shard.Schedule(t.Context(), r.topic, name)
		r.must(err)
		page, _, err := r.shard.Schedules(t.Context(), r.topic, "")
		r.must(err)
		all, err := r.shard.AllSchedules(t.Context(), 9, store.Mark{})
		r.must(err)
		is := func(l store.Listed) bool { return l.Schedule.Name == name }
		listed := page[slices.IndexFunc(page, is)]
		dated := all.Schedules[slices.IndexFunc(all.Schedules, func(d store.DatedSchedule) bool { return is(d.Listed) })].Listed
		if got := follow(store.Listed{Schedule: schedule, State: state}, 4); !slices.Equal(got, want) {
			t.Errorf("%s fires at %v, want %v", name, got, want)
		}
		if got := follow(listed, 4); !slices.Equal(got, want) {
			t.Errorf("%s in a page fires at %v, want %v", name, got, want)
		}
		if got := follow(dated, 1); !slices.Equal(got, want[:1]) {
			t.Errorf("%s of all fires at %v, want %v", name, got, want[:1])
		}
	}
}

// Pages of schedules have each of a topic.
func TestSchedules(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	want := make(map[string]bool)
	for i := range 70 {
		name := strings.Repeat("n", i+1)
		r.put(hourly(r, name))
		want[name] = true
	}
	for cursor := ""; ; {
		page, next, err := r.shard.Schedules(t.Context(), r.topic, cursor)
		r.must(err)
		for _, one := range page {
			if one.Err != nil || one.State.Revision == 0 || one.Schedule.Spec.Every != time.Hour {
				t.Errorf("got %+v", one)
			}
			delete(want, one.Schedule.Name)
		}
		if cursor = next; next == "" {
			break
		}
	}
	if len(want) > 0 {
		t.Errorf("%d are missing", len(want))
	}
}

// Where a page ends is known to the process of Redis alone that read it: after a restart a list begins anew, so that it lacks none.
func TestSchedulesOverARestart(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	r := recurringIn(t, storetest.Unhurried(storetest.With(t, notify.Config{URL: server.URL(), Prefix: "test"})))
	const n = 300
	for i := range n {
		r.put(hourly(r, fmt.Sprint("n", i)))
	}
	names := make(map[string]bool)
	for cursor, restarted := "", false; ; {
		page, next, err := r.shard.Schedules(t.Context(), r.topic, cursor)
		r.must(err)
		for _, one := range page {
			names[one.Schedule.Name] = true
		}
		if cursor = next; next == "" {
			break
		}
		if !restarted {
			restarted = true
			server.Kill()
			storetest.Restart(t, server)
		}
	}
	if len(names) != n {
		t.Errorf("%d of %d are listed", len(names), n)
	}
}

// An occurrence is a message with the id, the time, and all that the schedule says. What it is made of moves the cursor.
func TestFillSchedules(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	r.put(r.daily())
	of := r.only()
	f := store.Fill{Of: of, Cursor: r.at(2), Missed: 3, Next: r.at(1), Occurrences: []store.Occurrence{{At: r.at(1), Missed: 3}, {At: r.at(2), Previous: r.at(1)}}}
	if got := r.due(f); !slices.Equal(got.Made, []string{"made"}) || !got.Whole {
		t.Fatalf("got %+v", got)
	}
	state := r.state("daily")
	if !state.Cursor.Equal(r.at(2)) || state.Made != 2 || state.Missed != 3 || state.Taken != 0 || len(state.Occurrences) != 2 {
		t.Errorf("got %+v", state)
	}
	for i, hour := range []int{1, 2} {
		info, err := storetest.Inspector(t, r.db).Inspect(t.Context(), r.topic, r.id("daily", hour))
		r.must(err)
		want := of.Schedule.Message
		want.Headers = map[string]string{"a": "b", "Bellhop-Schedule": "daily", "Bellhop-Scheduled": r.at(hour).Format(time.RFC3339)}
		if hour == 1 {
			want.Headers["Bellhop-Missed"] = "3"
		} else {
			want.Headers["Bellhop-Previous"] = r.at(1).Format(time.RFC3339)
		}
		got := info.Record
		want.Published, want.FirstDue = got.Published, got.FirstDue
		due := of.Schedule.DueOf(r.at(hour))
		if !cmp.Equal(got, want) || !info.Due.Equal(due) || !state.Occurrences[i].Due.Equal(due) || due.Before(r.at(hour)) || due.After(r.at(hour).Add(time.Minute)) {
			t.Errorf("due %s, %+v: (- wanted, + got)\n%s", due, state.Occurrences[i], cmp.Diff(want, got))
		}
	}
	storetest.Is(t, "a second carrier of this cursor: got", r.fills(of, 3), "stale")
	if _, err := r.shard.FillSchedules(t.Context(), "another", false, []store.Fill{f}); !errors.As(err, new(*store.DeposedError)) {
		t.Errorf("a carrier without the lease: got %v", err)
	}
	if got := r.hours("daily"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v", got)
	}
}

// What is to be made of a broadcast, beside an id in use, and in a topic that is foreign.
func TestFillOddly(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	shout := hourly(r, "shout")
	shout.Message.Broadcast = true
	r.put(shout)
	storetest.Is(t, "it", r.fills(r.only(), 1), "made")
	storetest.Is(t, "broadcasts wait", r.db.Client().ZCard(t.Context(), r.db.KeysOf(r.topic).Broadcasts()).Val(), 1)
	r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "shout", store.AnyRevision))
	storetest.Is(t, "broadcasts wait", r.db.Client().ZCard(t.Context(), r.db.KeysOf(r.topic).Broadcasts()).Val(), 0)

	storetest.Publish(t, r.db, notify.Message{Topic: r.topic, ID: r.id("daily", 1), Body: []byte("mine"), Due: r.at(1)})
	r.put(hourly(r, "daily"))
	storetest.Is(t, "it", r.fills(r.only(), 1, 2), "made")
	if s := r.state("daily"); s.Made != 1 || s.Taken != 1 || !s.Occurrences[0].Taken || s.Occurrences[1].Taken {
		t.Errorf("got %+v", s)
	}
	r.must(r.shard.DeleteSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if got := r.scheduled(); !slices.Equal(got, []string{r.id("daily", 1)}) {
		t.Errorf("a message of somebody else is withdrawn: left %v", got)
	}

	r.put(hourly(r, "daily"))
	of := r.only()
	r.must(r.db.Client().Set(t.Context(), r.db.KeysOf(r.topic).Scheduled(r.topic), "a string", 0).Err())
	storetest.Is(t, "it", r.fills(of, 3, 4), "foreign")
	refused := r.state("daily")
	if s := refused; s.Made != 0 || len(s.Occurrences) != 0 || !s.Cursor.Before(r.at(3)) || s.Refused.IsZero() {
		t.Errorf("got %+v", s)
	}
	of.State = refused
	r.fills(of, 3)
	if again := r.state("daily"); !again.Refused.Equal(refused.Refused) {
		t.Errorf("refused since %v, then since %v", refused.Refused, again.Refused)
	}
	r.must(r.db.Client().Del(t.Context(), r.db.KeysOf(r.topic).Scheduled(r.topic)).Err())
	storetest.Is(t, "it", r.fills(of, 3, 4), "made")
	if s := r.state("daily"); s.Made != 2 || !s.Refused.IsZero() {
		t.Errorf("got %+v", s)
	}
}

// A foreign key in place of those of a topic's messages keeps its schedules with keys from being filled, and no other.
func TestFillBesideForeignKeys(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	keyed := hourly(r, "keyed")
	keyed.Overlap = store.OverlapSkip
	var fills []store.Fill
	for _, s := range []*store.Schedule{keyed, hourly(r, "plain")} {
		r.put(s)
	}
	r.must(r.db.Client().Set(t.Context(), r.db.KeysOf(r.topic).KeysOf(r.topic), "a string", 0).Err())
	due := r.due().Due
	slices.SortFunc(due, func(a, b store.DueSchedule) int { return strings.Compare(a.Schedule.Name, b.Schedule.Name) })
	for _, of := range due {
		fills = append(fills, store.Fill{Of: of, Cursor: r.at(1), Next: r.base, Occurrences: []store.Occurrence{{At: r.at(1)}}})
	}
	if made := r.due(fills...).Made; len(fills) != 2 || fills[0].Of.Schedule.Name != "keyed" || !slices.Equal(made, []string{"foreign", "made"}) {
		t.Errorf("got %v of %d", made, len(fills))
	}
}

// What is late and cannot be made in its new place stays to be made, or missed.
func TestLateBesideAForeignKey(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	r.base = time.Now().Truncate(time.Second)
	r.put(hourly(r, "daily"))
	of := r.only()
	f := store.Fill{Of: of, Cursor: r.at(1), Occurrences: []store.Occurrence{{At: r.at(1)}}, Next: r.at(1)}
	if made := r.due(f).Made; !slices.Equal(made, []string{"made"}) {
		t.Fatalf("got %v", made)
	}
	storetest.AgeSchedule(t, r.db, r.topic, "daily", 2*time.Hour)
	if of = r.only(); len(of.Late) != 1 {
		t.Fatalf("got %+v, want that one is late", of)
	}
	r.must(r.db.Client().Set(t.Context(), r.db.KeysOf(r.topic).Ready(r.topic), "a string", 0).Err())
	f = store.Fill{Of: of, Cursor: r.at(-1), Withdraw: time.Now(), Occurrences: []store.Occurrence{{At: r.at(-1)}}, Next: r.at(2)}
	if made := r.due(f).Made; !slices.Equal(made, []string{"foreign"}) {
		t.Errorf("got %v", made)
	}
	if s := r.state("daily"); len(s.Occurrences) > 0 || !s.Cursor.Before(r.at(-1)) || s.Made != 0 {
		t.Errorf("got %+v", s)
	}
}

// A change, a pause and a delete withdraw what was made ahead and waits as it was made; what was moved, cancelled, replaced or leased stays as it
// is, and its time is never made again.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	for name, change := range map[string]func() error{
		"changed": func() error {
			s := hourly(r, "changed")
			s.Message.Body = []byte("another")
			r.put(s)
			return nil
		},
		"paused":  func() error { return r.shard.PauseSchedule(t.Context(), r.topic, "paused", store.AnyRevision) },
		"deleted": func() error { return r.shard.DeleteSchedule(t.Context(), r.topic, "deleted", store.AnyRevision) },
	} {
		r.put(hourly(r, name))
		if became := r.fills(r.only(), 1, 2, 3, 4, 5, 6); became != "made" {
			t.Fatalf("got %s", became)
		}
		pub := storetest.Publisher(t, r.db)
		_, err := pub.Cancel(t.Context(), r.topic, r.id(name, 2))
		r.must(err)
		_, err = pub.RescheduleAt(t.Context(), r.topic, r.id(name, 3), r.at(30))
		r.must(err)
		_, err = pub.Publish(t.Context(), notify.Message{Topic: r.topic, ID: r.id(name, 4), Body: []byte("mine"), Due: r.at(4), IfExists: notify.Replace})
		r.must(err)
		_, err = pub.RescheduleIn(t.Context(), r.topic, r.id(name, 5), 0)
		r.must(err)
		ds, err := subscriberstest.Claimer(t, r.db).Claim(t.Context(), r.topic, subscribers.ClaimOptions{Max: 9, Lease: time.Hour})
		if err != nil || len(ds) != 1 {
			t.Fatalf("claimed %d, %v", len(ds), err)
		}
		r.must(change())
		want := []string{r.id(name, 4), r.id(name, 3)}
		if got := r.scheduled(); !slices.Equal(got, want) {
			t.Errorf("%s: left %v, want %v", name, got, want)
		}
		if name != "deleted" {
			s := r.state(name)
			if got := r.hours(name); !slices.Equal(got, []int{2, 3, 4, 5}) || s.Made != 4 || s.Cursor.After(time.Now().Add(time.Hour)) {
				t.Errorf("%s: noted %v, %+v", name, got, s)
			}
		}
		if name == "changed" {
			if became := r.fills(r.only(), 1, 2, 3, 4, 5, 6, 7); became != "made" {
				t.Fatalf("got %s", became)
			}
			if got, want := r.scheduled(), []string{r.id(name, 1), r.id(name, 4), r.id(name, 6), r.id(name, 7), r.id(name, 3)}; !slices.Equal(got, want) {
				t.Errorf("made again: %v, want %v", got, want)
			}
			if s := r.state(name); s.Made != 7 || len(s.Occurrences) != 7 {
				t.Errorf("got %+v", s)
			}
			r.must(r.shard.DeleteSchedule(t.Context(), r.topic, name, store.AnyRevision))
		}
		r.must(ds[0].Ack(t.Context()))
		for _, hour := range []int{3, 4} {
			_, err := pub.Cancel(t.Context(), r.topic, r.id(name, hour))
			r.must(err)
		}
	}
}

// What older rules of time zones made is withdrawn, to be made anew; what newer ones made stays, and what has no zone.
func TestRenewZones(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	zoned := hourly(r, "zoned")
	zoned.Spec = calendar.Spec{Cron: "0 8 * * *", Zone: "Europe/Berlin"}
	for _, s := range []*store.Schedule{zoned, hourly(r, "plain")} {
		r.put(s)
		r.fills(r.only(), 1, 2)
	}
	revision := r.state("zoned").Revision
	for _, step := range []struct {
		version string
		left    []int
	}{{"2025c", []int{1, 2}}, {"2025b", []int{1, 2}}, {"2025b", []int{1, 2}}, {"2026a", nil}} {
		r.renew(step.version)
		if got := r.hours("zoned"); !slices.Equal(got, step.left) || (r.state("zoned").Revision == revision) != (step.left != nil) {
			t.Errorf("by %s: left %v", step.version, got)
		}
	}
	if got := r.hours("plain"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("left %v", got)
	}
	if of := r.only(); of.Schedule.Name != "zoned" {
		t.Errorf("the carrier looks at %s", of.Schedule.Name)
	}
	if got, want := r.scheduled(), []string{r.id("plain", 1), r.id("plain", 2)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := r.shard.RenewZones(t.Context(), "another", "2027a", ""); !errors.As(err, new(*store.DeposedError)) {
		t.Errorf("without the lease: got %v", err)
	}
}

// More schedules than one page has are made anew page by page, and none while Redis has no room for what would be made.
func TestRenewZonesOfMany(t *testing.T) {
	t.Parallel()
	const all = 300
	server := storetest.Server(t)
	r := recurringIn(t, storetest.Unhurried(storetest.With(t, notify.Config{URL: server.URL(), Prefix: "test"})))
	for i := range all {
		zoned := hourly(r, fmt.Sprint("zoned-", i))
		zoned.Spec = calendar.Spec{Cron: "0 8 * * *", Zone: "Europe/Berlin"}
		r.put(zoned)
	}
	for f := r.due(); !f.Whole; f = r.due() {
		for _, of := range f.Due {
			r.fills(of, 1)
		}
	}
	r.renew("2025b")
	r.must(r.db.Client().ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	r.must(r.db.Client().Del(t.Context(), r.db.KeysOf(r.topic).Room(90)).Err()) // so that it is measured again
	storetest.Fails(t, "without room", storetest.ErrOf(r.shard.RenewZones(t.Context(), r.token, "2026a", "")), notify.ErrFull)
	storetest.Is(t, "left without room", len(r.scheduled()), all)
	r.must(r.db.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	r.renew("2026a")
	storetest.Is(t, "left", len(r.scheduled()), 0)
}

// The carrier is told once, and again a second later as long as it has not filled; not at all while the schedule is paused, or is at its end.
func TestAlarm(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	carry := func() store.Carried {
		t.Helper()
		m, err := r.shard.Carry(t.Context(), store.Carry{Token: r.token, Lease: time.Minute, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Ready: "0"})
		r.must(err)
		return m
	}
	if m := carry(); m.Fill || m.Next != record.Never {
		t.Errorf("without schedules: got %+v", m)
	}
	r.put(hourly(r, "daily"))
	if m := carry(); !m.Fill || m.Next <= m.Now || m.Next > m.Now+1_000_000 {
		t.Errorf("got %+v", m)
	}
	storetest.Is(t, "it", r.fills(r.only(), 1, 2), "made")
	if m := carry(); m.Fill || m.Next != r.base.UnixMicro() {
		t.Errorf("once filled: got %+v", m)
	}
	r.must(r.shard.PauseSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if f := r.due(); !f.Whole {
		t.Errorf("paused: got %+v", f)
	}
	if m := carry(); m.Fill || m.Next != record.Never {
		t.Errorf("paused: got %+v", m)
	}
	r.must(r.shard.ResumeSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if m := carry(); !m.Fill {
		t.Errorf("resumed: got %+v", m)
	}
	f := store.Fill{Of: r.only()}
	f.Cursor = f.Of.State.Cursor
	if got := r.due(f); !got.Whole {
		t.Errorf("got %+v", got)
	}
	if m := carry(); m.Fill || m.Next != record.Never {
		t.Errorf("at its end: got %+v", m)
	}
}

// Only messages of topics without schedules are carried while schedules are late by more than the carrier says, and the beat is sent.
func TestSettleFirst(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	r.put(hourly(r, "daily"))
	publish := func(topic, id string) {
		storetest.Publish(t, r.db, notify.Message{Topic: topic, ID: id, Due: r.at(1)})
		storetest.Hasten(t, r.db, time.Until(r.at(1))+time.Hour, topic)
	}
	publish(r.topic, "due")
	other := r.topic + ".other"
	for r.db.Of(other) != r.shard {
		other += "s"
	}
	r.must(r.db.Client().ZAdd(t.Context(), r.db.KeysOf(r.topic).Alarms(), redis.Z{Member: "/", Score: float64(time.Now().Add(-time.Minute).UnixMilli())}).Err())
	carry := func(settled *time.Duration, beat bool) store.Carried {
		t.Helper()
		m, err := r.shard.Carry(t.Context(), store.Carry{Token: r.token, Lease: time.Minute, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Ready: "0", Settled: settled, Beat: beat})
		r.must(err)
		return m
	}
	for _, beat := range []bool{false, true} {
		if m := carry(new(30*time.Second), beat); !m.Settle || m.Fill || m.Moved != 0 || m.Next != 0 {
			t.Errorf("got %+v", m)
		}
		for n := range 2 { // alone, and with another
			for i := range n + 1 {
				publish(other, fmt.Sprintf("%v-%d-%d", beat, n, i))
			}
			if m := carry(new(30*time.Second), beat); !m.Settle || m.Moved != n+1 || m.Next != 0 {
				t.Errorf("of another topic: got %+v", m)
			}
		}
	}
	if m := carry(new(time.Hour), false); m.Settle || !m.Fill || m.Moved != 1 {
		t.Errorf("got %+v", m)
	}
	r.must(r.db.Client().ZAdd(t.Context(), r.db.KeysOf(r.topic).Alarms(), redis.Z{Member: "/", Score: 1}).Err())
	if m := carry(nil, false); m.Settle || !m.Fill {
		t.Errorf("got %+v", m)
	}
}

func TestScheduleFaults(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	for _, test := range []struct {
		change      func(*store.Schedule)
		field, want string
	}{
		{func(s *store.Schedule) { s.Topic = "no topic" }, "topic", "use tokens"},
		{func(s *store.Schedule) { s.Name = "" }, "name", "it is empty"},
		{func(s *store.Schedule) { s.Name = strings.Repeat("n", 91) }, "name", "91 bytes; at most 90"},
		{func(s *store.Schedule) { s.Name = "a~2026-11-22T08:00:00Z" }, "name", "it ends like the id of an occurrence"},
		{func(s *store.Schedule) { s.Name = "a b" }, "name", "use letters"},
		{func(s *store.Schedule) { s.Spec.Zone = "Europe/Berln" }, "zone", "do you mean Europe/Berlin"},
		{func(s *store.Schedule) { s.Count = -1 }, "count", "count -1: use 1 to"},
		{func(s *store.Schedule) { s.Jitter = 28 * 24 * time.Hour }, "jitter", "two occurrences may be"},
		{func(s *store.Schedule) { s.Jitter = -1 }, "jitter", "use 1ms or more"},
		{func(s *store.Schedule) { s.Jitter = time.Microsecond }, "jitter", "use 1ms or more"},
		{func(s *store.Schedule) { s.Missed, s.Catchup = "some", 0 }, "missed", "use one, skip, all"},
		{func(s *store.Schedule) { s.Missed = store.MissedSkip }, "catchup", "set missed=all"},
		{func(s *store.Schedule) { s.Grace = time.Second }, "grace", "grace 1s: use 1m to 24h"},
		{func(s *store.Schedule) { s.Catchup = 31 * 24 * time.Hour }, "catchup", "use 1s to 720h"},
		{func(s *store.Schedule) { s.Overlap = store.OverlapSkip }, "overlap", "have a key of their own"},
		{func(s *store.Schedule) { s.Overlap = "queue" }, "overlap", "use allow, skip"},
		{func(s *store.Schedule) { s.Message.Body = []byte("{{now}}") }, "body", "there are no templates"},
		{func(s *store.Schedule) { s.Message.Group = "g" }, "group", "each occurrence would join the same group"},
		{func(s *store.Schedule) { s.Message.AfterGroup = "orders:g" }, "after_group", "each occurrence would wait for the same group"},
		{func(s *store.Schedule) { s.Message.UniqueFor = time.Hour }, "unique_for", "leave it out"},
		{func(s *store.Schedule) { s.Message.Headers = map[string]string{"bellhop-x": ""} }, "headers", "are the schedule's own"},
	} {
		s := r.daily()
		test.change(s)
		_, _, err := r.shard.PutSchedule(t.Context(), s, store.AnyRevision)
		if all := fault.All(err); len(all) != 1 || all[0].Field != test.field || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want a fault of %s: %s", err, test.field, test.want)
		}
	}
	if f := r.due(); !f.Whole {
		t.Errorf("got %+v", f)
	}
}

// An occurrence of a schedule that skips overlaps has a key of the schedule's own, and is dropped where that is busy.
func TestOverlapSkip(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	s := hourly(r, "daily")
	s.Overlap = store.OverlapSkip
	r.put(s)
	r.fills(r.only(), 1, 2)
	claimer := subscriberstest.Claimer(t, r.db)
	pub := storetest.Publisher(t, r.db)
	_, err := pub.RescheduleIn(t.Context(), r.topic, r.id("daily", 1), 0)
	r.must(err)
	first, err := claimer.Claim(t.Context(), r.topic, subscribers.ClaimOptions{Max: 2, Lease: time.Hour})
	if err != nil || len(first) != 1 || first[0].Key != "~daily" {
		t.Fatalf("claimed %+v, %v", first, err)
	}
	_, err = pub.RescheduleIn(t.Context(), r.topic, r.id("daily", 2), 0)
	r.must(err)
	storetest.Fails(t, "beside the one before", storetest.ErrOf(storetest.Inspector(t, r.db).Inspect(t.Context(), r.topic, r.id("daily", 2))), notify.ErrNotFound)
	r.must(first[0].Ack(t.Context()))
}

// A schedule that was filled while the clock was ahead goes on from now when it is resumed; one that goes on is left as it is.
func TestResumeAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	r := openRecurring(t)
	now, err := r.db.Now(t.Context())
	r.must(err)
	later := now.Add(time.Hour).Truncate(time.Second).UTC()
	for name, state := range map[string]store.ScheduleState{
		"fell":   {Cursor: later, Fell: later},
		"filled": {Cursor: later, Occurrences: []store.Made{{At: later, Due: later, Published: later}}},
		"paused": {Cursor: later, Fell: later, Paused: now},
	} {
		s := store.Schedule{Topic: r.topic, Name: name, Spec: calendar.Spec{Every: 2 * time.Second}}
		_, err := r.shard.RestoreSchedule(t.Context(), &s, &store.ScheduleRestore{ScheduleState: state})
		r.must(err)
		r.must(r.shard.ResumeSchedule(t.Context(), r.topic, name, store.AnyRevision))
		if got := r.state(name); !got.Cursor.Before(later) || got.Fell.Equal(later) || !got.Paused.IsZero() {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	_, revision := r.put(hourly(r, "daily"))
	r.must(r.shard.ResumeSchedule(t.Context(), r.topic, "daily", store.AnyRevision))
	if got := r.state("daily").Revision; got != revision {
		t.Errorf("one that goes on has the revision %d, had %d", got, revision)
	}
}

package carrier

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// noon is now in the tests of plans, which tell times by how long they are after it.
var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// A planned is a plan in words: what is made, each "AT" or "AT MISSED"; the cursor, and when it is looked at again.
type planned struct {
	Made         string
	Cursor, Next string
	Missed       int
	Withdraws    bool
}

func after(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(noon).String()
}

func inWords(f store.Fill) planned {
	var made []string
	for _, o := range f.Occurrences {
		text := after(o.At)
		if o.Missed > 0 {
			text = fmt.Sprint(text, " ", o.Missed)
		}
		made = append(made, text)
	}
	if n := len(made); n > 6 {
		made = []string{made[0], "to", made[n-1], fmt.Sprintf("(%d)", n)}
	}
	return planned{strings.Join(made, ", "), after(f.Cursor), after(f.Next), f.Missed, !f.Withdraw.IsZero()}
}

// seconds returns each second from one to another.
func seconds(from, to int) (all []time.Duration) {
	for n := from; n <= to; n++ {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

func TestPlan(t *testing.T) {
	type durations = []time.Duration
	const s, m, h = time.Second, time.Minute, time.Hour
	daily := calendar.Spec{Cron: "0 8 * * *"}
	for name, test := range map[string]struct {
		schedule store.Schedule
		spec     calendar.Spec
		cursor   time.Duration
		made     durations // by the state
		late     durations // of these, that wait
		want     planned
	}{
		"two ahead":                 {spec: daily, want: planned{Made: "20h0m0s, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s"}},
		"one of them fell due":      {spec: daily, cursor: 20 * h, made: durations{-4 * h, 20 * h}, want: planned{Made: "44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s"}},
		"a minute's worth":          {spec: calendar.Spec{Every: 10 * s}, want: planned{Made: "10s, 20s, 30s, 40s, 50s, 1m0s", Cursor: "1m0s", Next: "40s"}},
		"each second":               {spec: calendar.Spec{Every: s}, want: planned{Made: "1s, to, 1m0s, (60)", Cursor: "1m0s", Next: "31s"}},
		"each second, filled again": {spec: calendar.Spec{Every: 20 * s}, cursor: 40 * s, made: durations{0, 20 * s, 40 * s}, want: planned{Made: "1m0s", Cursor: "1m0s", Next: "40s"}},
		"as many as may wait": {
			spec: calendar.Spec{Every: s}, made: seconds(100, 163), want: planned{Cursor: "0s", Next: "1s"},
		},
		"a count":                         {spec: daily, schedule: store.Schedule{Count: 1}, want: planned{Made: "20h0m0s", Cursor: "20h0m0s", Next: "20h0m0s"}},
		"a count that is over":            {spec: daily, schedule: store.Schedule{Count: 2}, made: durations{-28 * h, -4 * h}, want: planned{Cursor: "0s", Next: "never"}},
		"a count that was over long ago":  {spec: daily, schedule: store.Schedule{Count: 2}, cursor: -76 * h, made: durations{-100 * h, -76 * h}, want: planned{Cursor: "-76h0m0s", Next: "never"}},
		"a list at its end":               {spec: calendar.Spec{At: []time.Time{noon.Add(h), noon.Add(2 * h)}}, want: planned{Made: "1h0m0s, 2h0m0s", Cursor: "2h0m0s", Next: "1h0m0s"}},
		"what was made is not made again": {spec: daily, made: durations{20 * h}, want: planned{Made: "44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s"}},
		"late within the grace":           {spec: calendar.Spec{Every: m}, cursor: -90 * s, want: planned{Made: "-1m0s, 0s, 1m0s, 2m0s", Cursor: "2m0s", Next: "1m0s"}},
		"made late within the grace":      {spec: daily, schedule: store.Schedule{Grace: 5 * h}, cursor: -4 * h, made: durations{-4 * h}, late: durations{-4 * h}, want: planned{Made: "20h0m0s, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s"}},
		"one of those missed":             {spec: daily, cursor: -76 * h, want: planned{Made: "-4h0m0s 2, 20h0m0s, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s", Missed: 2}},
		"one of those missed, of which some wait": {
			spec: daily, cursor: -28 * h, made: durations{-52 * h, -28 * h}, late: durations{-52 * h, -28 * h},
			want: planned{Made: "-4h0m0s 2, 20h0m0s, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s", Missed: 2, Withdraws: true},
		},
		"one of those missed, all of which wait": {
			spec: daily, cursor: -4 * h, made: durations{-28 * h, -4 * h}, late: durations{-28 * h, -4 * h},
			want: planned{Made: "-4h0m0s 1, 20h0m0s, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s", Missed: 1, Withdraws: true},
		},
		"one of many missed":     {spec: calendar.Spec{Every: s}, cursor: -h, want: planned{Made: "-1m1s 3538, to, 2s, (64)", Cursor: "2s", Next: "0s", Missed: 3538}},
		"each is late by itself": {spec: calendar.Spec{Every: 20 * s}, cursor: -2 * m, want: planned{Made: "-1m20s 1, to, 1m0s, (8)", Cursor: "1m0s", Next: "40s", Missed: 1}},
		"each that was made is late by itself": {
			spec: calendar.Spec{Every: 20 * s}, cursor: -60 * s, made: durations{-100 * s, -80 * s, -60 * s}, late: durations{-100 * s, -80 * s, -60 * s},
			want: planned{Made: "-1m20s 1, to, 1m0s, (7)", Cursor: "1m0s", Next: "40s", Missed: 1, Withdraws: true},
		},
		"none of those missed, but what is within the grace": {
			spec: calendar.Spec{Every: 20 * s}, schedule: store.Schedule{Missed: store.MissedSkip}, cursor: -2 * m,
			want: planned{Made: "-1m0s 2, to, 1m0s, (7)", Cursor: "1m0s", Next: "40s", Missed: 2},
		},
		"all within the grace, longer than the catch-up": {
			spec: calendar.Spec{Every: 20 * s}, schedule: store.Schedule{Missed: store.MissedAll, Catchup: s}, cursor: -2 * m,
			want: planned{Made: "-1m0s 2, to, 1m0s, (7)", Cursor: "1m0s", Next: "40s", Missed: 2},
		},
		"none of those missed": {
			spec: daily, schedule: store.Schedule{Missed: store.MissedSkip}, cursor: -28 * h, made: durations{-28 * h}, late: durations{-28 * h},
			want: planned{Made: "20h0m0s 2, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s", Missed: 2, Withdraws: true},
		},
		"all of those missed that are not too old": {
			spec: daily, schedule: store.Schedule{Missed: store.MissedAll, Catchup: 60 * h}, cursor: -76 * h, made: durations{-100 * h, -76 * h}, late: durations{-100 * h, -76 * h},
			want: planned{Made: "-52h0m0s 2, -28h0m0s, -4h0m0s, 20h0m0s, 44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s", Missed: 2, Withdraws: true},
		},
		"all of many missed": {
			spec: calendar.Spec{Every: s}, schedule: store.Schedule{Missed: store.MissedAll, Catchup: 10 * m}, cursor: -h,
			want: planned{Made: "-10m0s 2999, to, -8m57s, (64)", Cursor: "-8m57s", Next: "0s", Missed: 2999},
		},
		"large bodies": {
			spec: calendar.Spec{Every: s}, schedule: store.Schedule{Message: record.Record{Body: make([]byte, 256<<10)}},
			want: planned{Made: "1s, 2s, 3s", Cursor: "3s", Next: "2s"},
		},
		"a body larger than all that one call makes": {
			spec: daily, schedule: store.Schedule{Message: record.Record{Body: make([]byte, 2<<20)}},
			want: planned{Made: "20h0m0s", Cursor: "20h0m0s", Next: "0s"},
		},
		"large bodies, some of which were made": {
			spec: daily, schedule: store.Schedule{Message: record.Record{Body: make([]byte, 2<<20)}}, made: durations{20 * h}, cursor: 20 * h,
			want: planned{Made: "44h0m0s", Cursor: "44h0m0s", Next: "20h0m0s"},
		},
		"all of those missed, of large bodies": {
			spec: calendar.Spec{Every: h}, schedule: store.Schedule{Missed: store.MissedAll, Catchup: 24 * h, Message: record.Record{Body: make([]byte, 2<<20)}},
			cursor: -h, made: durations{-6 * h, -5 * h, -4 * h, -3 * h, -2 * h, -h}, late: durations{-6 * h, -5 * h, -4 * h, -3 * h, -2 * h, -h},
			want: planned{Made: "-6h0m0s, -5h0m0s, -4h0m0s, -3h0m0s, -2h0m0s, -1h0m0s", Cursor: "-1h0m0s", Next: "0s", Withdraws: true},
		},
		"a count, of what waits": {
			spec: daily, schedule: store.Schedule{Count: 2}, cursor: -4 * h, made: durations{-28 * h, -4 * h}, late: durations{-28 * h, -4 * h},
			want: planned{Made: "-4h0m0s 1, 20h0m0s", Cursor: "20h0m0s", Next: "20h0m0s", Missed: 1, Withdraws: true},
		},
		"more than are counted": {
			spec: calendar.Spec{Every: s}, cursor: -10 * 24 * h, schedule: store.Schedule{Missed: store.MissedSkip},
			want: planned{Made: "-1m0s 100000, to, 3s, (64)", Cursor: "3s", Next: "0s", Missed: 100000},
		},
	} {
		of := store.DueSchedule{Listed: store.Listed{Schedule: test.schedule, State: store.ScheduleState{Cursor: noon.Add(test.cursor), Made: int64(len(test.made))}}}
		of.Schedule.Spec = test.spec
		for _, d := range test.made {
			of.State.Occurrences = append(of.State.Occurrences, store.Made{At: noon.Add(d), Due: noon.Add(d)})
		}
		for _, d := range test.late {
			of.Late = append(of.Late, noon.Add(d))
		}
		storetest.Same(t, fmt.Sprintf("%s:", name), test.want, inWords(planOf(of, noon)))
	}
	for name, unread := range map[string]store.Listed{
		"a record that cannot be read": {Err: errors.New("foreign")},
		"a rule that cannot be read":   {Schedule: store.Schedule{Spec: calendar.Spec{Cron: "0 8 * * *", Zone: "Mars/Base"}}},
	} {
		unread.State.Cursor = noon
		fill := planOf(store.DueSchedule{Listed: unread}, noon)
		if diff := cmp.Diff(planned{Cursor: "0s", Next: "1h0m0s"}, inWords(fill)); diff != "" || fill.Fault == nil {
			t.Errorf("%s: %v (- wanted, + got)\n%s", name, fill.Fault, diff)
		}
	}
}

// Each occurrence is told which was before it.
func TestPlanPrevious(t *testing.T) {
	of := store.DueSchedule{Listed: store.Listed{State: store.ScheduleState{Cursor: noon, Occurrences: []store.Made{{At: noon.Add(-time.Hour)}, {At: noon}}}}}
	of.Schedule.Spec = calendar.Spec{Every: time.Hour}
	for i, o := range planOf(of, noon).Occurrences {
		if want := noon.Add(time.Duration(i) * time.Hour); !o.Previous.Equal(want) {
			t.Errorf("before %s: got %s", o.At, o.Previous)
		}
	}
}

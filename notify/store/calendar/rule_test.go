package calendar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func parse(t *testing.T, s calendar.Spec) *calendar.Rule {
	t.Helper()
	rule, err := s.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// following returns the next n times of a rule after one, by the clock of its zone, as far as there are.
func following(t *testing.T, s calendar.Spec, after string, n int) (all []string) {
	t.Helper()
	zone, err := calendar.Zone(s.Zone)
	if err != nil {
		t.Fatal(err)
	}
	rule, last := parse(t, s), at(after)
	for range n {
		next, ok := rule.Next(last)
		if !ok {
			break
		}
		if all = append(all, next.In(zone).Format(time.RFC3339)); !next.After(last) {
			t.Fatalf("%s is not after %s", next, last)
		}
		last = next
	}
	return all
}

func TestNext(t *testing.T) {
	type spec = calendar.Spec
	for name, test := range map[string]struct {
		spec  calendar.Spec
		after string
		want  []string
	}{
		"a time is not its own next":       {spec{Cron: "0 8 * * *"}, "2026-11-22T08:00:00Z", []string{"2026-11-23T08:00:00Z"}},
		"a fraction before":                {spec{Cron: "0 8 * * *"}, "2026-11-22T07:59:59.999Z", []string{"2026-11-22T08:00:00Z"}},
		"seconds":                          {spec{Cron: "*/20 59 23 31 12 *"}, "2026-12-31T23:59:10Z", []string{"2026-12-31T23:59:20Z", "2026-12-31T23:59:40Z", "2027-12-31T23:59:00Z"}},
		"ranges, names and Sunday as 7":    {spec{Cron: "0 9-17/8 * jan,NOV fri-7"}, "2026-11-27T10:00:00Z", []string{"2026-11-27T17:00:00Z", "2026-11-28T09:00:00Z", "2026-11-28T17:00:00Z", "2026-11-29T09:00:00Z", "2026-11-29T17:00:00Z", "2027-01-01T09:00:00Z"}},
		"a name of a rule":                 {spec{Cron: "@Monthly"}, "2026-11-27T10:00:00Z", []string{"2026-12-01T00:00:00Z"}},
		"29 February":                      {spec{Cron: "0 0 29 2 *"}, "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"}},
		"the 31st":                         {spec{Cron: "0 0 31 * *"}, "2026-01-31T00:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z", "2026-08-31T00:00:00Z"}},
		"the 30th of February and April":   {spec{Cron: "0 0 30 2,4 *"}, "2026-11-27T10:00:00Z", []string{"2027-04-30T00:00:00Z"}},
		"a gap at midnight":                {spec{Cron: "0 0 * * *", Zone: "Africa/Cairo"}, "2026-04-22T22:00:00Z", []string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		"a gap at midnight of a Friday":    {spec{Cron: "0 0 * * FRI", Zone: "Africa/Cairo"}, "2026-04-22T22:00:00Z", []string{"2026-04-24T01:00:00+03:00", "2026-05-01T00:00:00+03:00"}},
		"several in a gap, and its end":    {spec{Cron: "10,20,50 2,3 * * *", Zone: "Europe/Berlin"}, "2026-03-29T00:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:10:00+02:00", "2026-03-29T03:20:00+02:00", "2026-03-29T03:50:00+02:00", "2026-03-30T02:10:00+02:00"}},
		"a time at the end of a gap":       {spec{Cron: "0 2,3 * * *", Zone: "Europe/Berlin"}, "2026-03-29T00:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		"all seconds of a minute in a gap": {spec{Cron: "* 30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-29T00:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"a repeated time":                  {spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24T12:00:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"asked in the hour that repeats":   {spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-25T01:10:00Z", []string{"2026-10-26T02:30:00+01:00"}},
		"each half hour, repeated": {
			spec{Cron: "*/30 * * * *", Zone: "Europe/Berlin"},
			"2026-10-24T23:30:00Z",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"},
		},
		"each half hour, over a gap":     {spec{Cron: "*/30 * * * *", Zone: "Europe/Berlin"}, "2026-03-29T00:00:00Z", []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"}},
		"half an hour left out":          {spec{Cron: "15 2 * * *", Zone: "Australia/Lord_Howe"}, "2026-10-02T16:00:00Z", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		"half an hour repeated":          {spec{Cron: "45 1 * * *", Zone: "Australia/Lord_Howe"}, "2026-04-03T15:00:00Z", []string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		"a day left out":                 {spec{Cron: "30 8 * * *", Zone: "Pacific/Apia"}, "2011-12-29T00:00:00Z", []string{"2011-12-29T08:30:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T08:30:00+14:00"}},
		"the day that is left out":       {spec{Cron: "30 8 30 12 *", Zone: "Pacific/Apia"}, "2011-12-29T00:00:00Z", []string{"2011-12-31T00:00:00+14:00", "2012-12-30T08:30:00+14:00"}},
		"each hour over such a day":      {spec{Cron: "0 * * * *", Zone: "Pacific/Apia"}, "2011-12-30T08:30:00Z", []string{"2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00"}},
		"seconds of an offset":           {spec{Cron: "0 0 * * *", Zone: "Africa/Monrovia"}, "1972-01-06T00:00:00Z", []string{"1972-01-06T00:00:00-00:44", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"}},
		"every, by the beginning of all": {spec{Every: 7 * time.Second}, "1970-01-01T00:00:06Z", []string{"1970-01-01T00:00:07Z", "1970-01-01T00:00:14Z"}},
		"every, before all":              {spec{Every: time.Second}, "1969-01-01T00:00:00Z", []string{"1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"}},
		"every, by from":                 {spec{Every: time.Hour, From: at("2026-11-27T10:20:30Z")}, "2026-11-26T00:00:00Z", []string{"2026-11-27T10:20:30Z", "2026-11-27T11:20:30Z"}},
		"every second, by from":          {spec{Every: time.Second, From: at("2026-11-27T10:20:30Z")}, "2026-11-26T00:00:00Z", []string{"2026-11-27T10:20:30Z", "2026-11-27T10:20:31Z"}},
		"from and until":                 {spec{Cron: "0 8 * * *", From: at("2026-11-27T08:00:00Z"), Until: at("2026-11-28T08:00:00Z")}, "2020-01-01T00:00:00Z", []string{"2026-11-27T08:00:00Z", "2026-11-28T08:00:00Z"}},
		"at":                             {spec{At: []time.Time{at("2026-11-28T08:00:00Z"), at("2026-11-27T09:00:00+01:00"), at("2026-11-28T08:00:00Z")}}, "2020-01-01T00:00:00Z", []string{"2026-11-27T08:00:00Z", "2026-11-28T08:00:00Z"}},
		"the end of all times":           {spec{Cron: "0 0 29 2 *"}, "9990-01-01T00:00:00Z", []string{"9992-02-29T00:00:00Z", "9996-02-29T00:00:00Z"}},
	} {
		n := len(test.want)
		if name == "from and until" || name == "at" || name == "the end of all times" {
			n++
		}
		if got := following(t, test.spec, test.after, n); !cmp.Equal(got, test.want) {
			t.Errorf("%s: (- wanted, + got)\n%s", name, cmp.Diff(test.want, got))
		}
	}
}

func TestFaults(t *testing.T) {
	type spec = calendar.Spec
	whole := at("2026-11-27T10:00:00Z")
	for _, test := range []struct {
		spec        calendar.Spec
		field, want string
	}{
		{spec{}, "cron", "there are 0 of them; give one"},
		{spec{Cron: "@daily", Every: time.Hour}, "cron", "there are 2 of them; give one"},
		{spec{Cron: "* * * *"}, "cron", "it has 4 fields; write minute, hour"},
		{spec{Cron: "0 0 0 0 0 0 0"}, "cron", "it has 7 fields"},
		{spec{Cron: strings.Repeat("0,", 300) + "0 * * * *"}, "cron", "it has 609 bytes, and 512 are possible"},
		{spec{Cron: "@reboot"}, "cron", "this is no name of a rule; use @hourly"},
		{spec{Cron: "60 * * * *"}, "cron", `minute "60": use 0-59, a list of them, or *`},
		{spec{Cron: "* * 0 * *"}, "cron", `day of the month "0": use 1-31`},
		{spec{Cron: "* * L * *"}, "cron", `day of the month "L": use 1-31`},
		{spec{Cron: "* * * 13 *"}, "cron", `month "13": use 1-12, or JAN-DEC`},
		{spec{Cron: "* * * * 8"}, "cron", `day of the week "8": use 0-7, or SUN-SAT`},
		{spec{Cron: "* * * * mon#2"}, "cron", `day of the week "mon#2": use 0-7`},
		{spec{Cron: "* * ? * *"}, "cron", `day of the month "?": use 1-31`},
		{spec{Cron: "+5 * * * *"}, "cron", `minute "+5": use 0-59`},
		{spec{Cron: "5, * * * *"}, "cron", `minute "": use 0-59`},
		{spec{Cron: "5/15 * * * *"}, "cron", "a step needs a range; write 5-59/15"},
		{spec{Cron: "*/0 * * * *"}, "cron", "the step is to be a number from 1 to 60"},
		{spec{Cron: "*/90 * * * *"}, "cron", "the step is to be a number from 1 to 60; for longer pauses use every"},
		{spec{Cron: "* 22-6 * * *"}, "cron", `hour "22-6": the range ends before it begins; write it as two, the second from 0`},
		{spec{Cron: "0 0 30 2 *"}, "cron", "it never fires: its months have at most 29 days"},
		{spec{Cron: "0 0 31 4,6,9,11 *"}, "cron", "it never fires: its months have at most 30 days"},
		{spec{Cron: "0 0 13 * FRI"}, "cron", "cron(8) would fire on either; write * in one of the fields"},
		{spec{Cron: "@daily", Zone: "europe/berln"}, "zone", "do you mean Europe/Berlin"},
		{spec{Cron: "@daily", Zone: "new york"}, "zone", "do you mean America/New_York"},
		{spec{Cron: "@daily", Zone: "Local"}, "zone", "there is none of this name in the IANA's data " + calendar.Version()},
		{spec{Cron: "@daily", Zone: "../Europe/Berlin"}, "zone", "there is none of this name"},
		{spec{Every: time.Hour, Zone: "Europe/Berlin"}, "zone", "only cron goes by a wall clock; leave it out"},
		{spec{Every: time.Millisecond}, "every", "every 1ms: use 1s to 87840h"},
		{spec{Every: -time.Hour}, "every", "every -1h: use 1s to"},
		{spec{Every: 1500 * time.Millisecond}, "every", "an occurrence is at a whole second; use 2s"},
		{spec{At: []time.Time{whole.Add(time.Millisecond)}}, "at", "use a whole second of the years 1970 to 9999"},
		{spec{At: make([]time.Time, calendar.MaxAt+1)}, "at", "there are 1001 times; give up to 1000"},
		{spec{Every: time.Hour, From: whole.Add(1)}, "from", "use a whole second"},
		{spec{Every: time.Hour, Until: at("9999-12-31T23:59:59Z").Add(time.Second)}, "until", "use a whole second"},
		{spec{Every: time.Hour, From: whole, Until: whole.Add(-time.Second)}, "until", "until 2026-11-27T09:59:59Z is before from 2026-11-27T10:00:00Z"},
		{spec{Cron: "0 0 29 2 *", From: whole, Until: whole.Add(24 * time.Hour)}, "until", "the rule does not fire between from and until"},
	} {
		_, err := test.spec.Parse()
		all := fault.All(err)
		if len(all) != 1 || all[0].Field != test.field || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want a fault of %s: %s", test.spec, err, test.field, test.want)
		}
	}
	if _, err := (calendar.Spec{Cron: "60 * * * *", Zone: "Nowhere", Until: whole.Add(1)}).Parse(); len(fault.All(err)) != 3 {
		t.Errorf("got %v, want three faults", err)
	}
}

func TestClosest(t *testing.T) {
	type spec = calendar.Spec
	for _, test := range []struct {
		spec calendar.Spec
		want time.Duration
	}{
		{spec{Cron: "0 8,20 * * *"}, 12 * time.Hour},
		{spec{Cron: "0,58,59 3 * * *"}, time.Minute},
		{spec{Cron: "0 0 31 * *"}, 31 * 24 * time.Hour},
		{spec{Cron: "0 0 1 * *"}, 28 * 24 * time.Hour},
		{spec{Cron: "0 12 1,31 * *"}, 24 * time.Hour},
		{spec{Cron: "0 0 * 12 MON,THU"}, 3 * 24 * time.Hour},
		{spec{Cron: "* * * * *"}, time.Minute},
		{spec{Cron: "10,50 0,59 0,23 * * *"}, 20 * time.Second},
		{spec{Cron: "30 0 0,22 1,3 * *"}, 22 * time.Hour},
		{spec{Cron: "0 0 29 2 *", Zone: "America/New_York"}, 4*365*24*time.Hour + 24*time.Hour},
		{spec{Every: time.Hour, From: at("2026-11-27T10:00:00Z"), Until: at("2026-11-27T10:59:59Z")}, 0},
		{spec{At: []time.Time{at("2026-11-27T10:00:00Z"), at("2026-11-27T11:00:00Z"), at("2026-11-27T11:30:00Z")}}, 30 * time.Minute},
		{spec{Cron: "0 0 29 2 *"}, 4*365*24*time.Hour + 24*time.Hour},
		{spec{Every: 90 * time.Second}, 90 * time.Second},
		{spec{At: []time.Time{at("2026-11-27T10:00:00Z")}}, 0},
	} {
		if got := parse(t, test.spec).Closest(); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.spec, got, test.want)
		}
	}
}

// A rule ends with the last time before its until, or with the last of its times; without them it goes on for good.
func TestEnd(t *testing.T) {
	t.Parallel()
	until := at("2030-06-15T12:30:00Z")
	for want, s := range map[string]calendar.Spec{
		"2030-06-15T12:00:00Z": {Every: time.Hour, Until: until},
		"2030-06-01T00:00:00Z": {Cron: "0 2 1 * *", Zone: "Europe/Berlin", Until: until},
		"2030-06-15T12:30:00Z": {At: []time.Time{at("2030-06-15T12:31:00Z"), until, at("1990-01-01T00:00:00Z")}, Until: until},
		"2030-06-15T12:31:00Z": {At: []time.Time{at("2030-06-15T12:31:00Z"), until}},
	} {
		if end, ends := parse(t, s).End(); !ends || end.Format(time.RFC3339) != want {
			t.Errorf("%+v: %s, %v, want %s", s, end, ends, want)
		}
	}
	for _, s := range []calendar.Spec{{Every: time.Hour, From: until}, {Cron: "@yearly"}} {
		if end, ends := parse(t, s).End(); ends {
			t.Errorf("%+v: %s", s, end)
		}
	}
}

// The last time up to one is the one whose next is later, or there is none.
func TestLast(t *testing.T) {
	type spec = calendar.Spec
	for _, s := range []spec{
		{Cron: "* * 8 * * *"},
		{Cron: "0 0 29 2 *"},
		{Cron: "30 2 * * *", Zone: "Europe/Berlin"},
		{Every: time.Hour},
		{Every: time.Second},
		{At: []time.Time{at("2026-03-29T00:30:00Z"), at("2026-11-27T10:00:00Z")}},
		{Cron: "@daily", Until: at("2026-11-20T00:00:00Z")},
	} {
		rule := parse(t, s)
		for _, upto := range []string{"2026-03-29T01:00:00Z", "2026-11-27T10:00:00Z", "2027-01-01T08:30:15Z"} {
			last, ok := rule.Last(at(upto))
			next, more := rule.Next(last)
			if !ok || last.After(at(upto)) || more && !next.After(at(upto)) {
				t.Errorf("%+v up to %s: got %s, %t; the next is %s", s, upto, last, ok, next)
			}
		}
	}
	for _, s := range []spec{{Cron: "0 0 29 2 *"}, {At: []time.Time{at("2026-11-27T10:00:00Z")}}, {Every: time.Second, From: at("2026-11-27T10:00:00Z")}} {
		if last, ok := parse(t, s).Last(at("1971-11-27T10:00:00Z")); ok {
			t.Errorf("%+v: got %s", s, last)
		}
	}
}

// FuzzCron wants what is not refused to fire within eight years, always later, and at whole seconds; and by UTC no two times closer than
// Closest says.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"30 2 1 * *", "*/20 59 23 31 12 *", "0 0 29 2 *", "@daily", "0 0 31 4,12 *", "* 9-17/8 * jan,nov fri-7", "60 * * * *", "0 0 13 * 5"} {
		f.Add(seed, "Europe/Berlin", int64(1_800_000_000))
	}
	f.Add("0 0 * * *", "Africa/Cairo", int64(1_776_900_000))
	f.Fuzz(func(t *testing.T, cron, zone string, after int64) {
		rule, err := calendar.Spec{Cron: cron, Zone: zone}.Parse()
		if err != nil {
			if len(fault.All(err)) == 0 {
				t.Fatalf("%q in %q: %v is no fault", cron, zone, err)
			}
			return
		}
		last := time.Unix(max(after, 0)%200_000_000_000, 0)
		for range 3 {
			next, ok := rule.Next(last)
			if !ok || !next.After(last) || next.Sub(last) > (8*366+2)*24*time.Hour || next.Nanosecond() != 0 {
				t.Fatalf("%q in %q: %v, %t after %v", cron, zone, next, ok, last)
			}
			last = next
		}
		utc := parse(t, calendar.Spec{Cron: cron})
		for range 3 {
			next, _ := utc.Next(last)
			if again, ok := utc.Next(next); ok && again.Sub(next) < utc.Closest() {
				t.Fatalf("%q: %v follows %v, and the closest are %v apart", cron, again, next, utc.Closest())
			}
			last = next
		}
	})
}

func BenchmarkClosest(b *testing.B) {
	rule, err := calendar.Spec{Cron: "0 0 29 2 *", Zone: "America/New_York"}.Parse()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		rule.Closest()
	}
}

func BenchmarkNext(b *testing.B) {
	for _, cron := range []string{"30 2 * * *", "*/5 * * * *", "0 0 29 2 *"} {
		rule, err := calendar.Spec{Cron: cron, Zone: "Europe/Berlin"}.Parse()
		if err != nil {
			b.Fatal(err)
		}
		after := at("2096-03-01T00:00:00Z")
		b.Run(cron, func(b *testing.B) {
			for b.Loop() {
				rule.Next(after)
			}
		})
	}
}

package repair_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Of damaged settings the readable ones stay; for the others the defaults apply.
func TestSettings(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ topic, has, remedy string }{
		"right":                      {"orders", " attempts=5 lease=1000 paused=1", ""},
		"a pause with an end":        {"orders", " paused=1 paused_until=1893553445000", ""},
		"an end without a pause":     {"orders", " attempts=5 paused_until=1893553445000", "set to attempts=5"},
		"an end that is no time":     {"orders", " paused=1 paused_until=soon", "set to paused=1"},
		"of all, until a time":       {"*", " lease=60000 paused=1 paused_until=1893553445000", "set to lease=60000"},
		"right, of all":              {"*", " attempts=5 backoff_min=1 backoff_max=31622400000", ""},
		"an unknown name":            {"orders", " attempts=5 priority=3", "set to attempts=5"},
		"nothing but an unknown":     {"orders", " priority=3", "removed"},
		"a text for a number":        {"orders", " attempts=5 lease=soon", "set to attempts=5"},
		"no value":                   {"orders", " attempts= lease=1000", "set to lease=1000"},
		"a fraction":                 {"orders", " attempts=1.5 lease=1000", "set to lease=1000"},
		"more than the most":         {"orders", " attempts=1000001 lease=1000", "set to lease=1000"},
		"less than the least":        {"orders", " attempts=5 lease=99", "set to attempts=5"},
		"a flag that is none":        {"orders", " attempts=5 paused=2", "set to attempts=5"},
		"a pause beside bad values":  {"orders", " lease=x paused=1", "set to paused=1"},
		"nothing of ours":            {"orders", "{\"attempts\":5}\x00\xff", "removed"},
		"nothing":                    {"orders", "", "removed"},
		"of all, out of range":       {"*", " attempts=0 lease=60000", "set to lease=60000"},
		"of all, paused":             {"*", " lease=60000 paused=1", "set to lease=60000"},
		"of all, unknown":            {"*", " priority=3", "removed"},
		"of a name that is no topic": {"order..timeout", " attempts=5", "removed"},
		"of a pattern":               {"order.>", " attempts=5", "removed"},
		"of nothing":                 {"", " attempts=5", "removed"},
	} {
		db := open(t)
		fill(t, db)
		do(t, db, "HSET", "topics", test.topic+":settings", test.has)
		var want, got []repair.Finding
		if test.remedy != "" {
			want = []repair.Finding{{Fault: repair.WrongSettings, Name: test.topic, Key: "topics", Remedy: test.remedy, Whole: db.Keys().Topics()}}
		}
		on := func(f repair.Finding) {
			if f.Fault == repair.WrongSettings {
				got = append(got, f)
			}
		}
		before := contents(t, db)
		storetest.Must(t, storetest.ErrOf(repair.Run(t.Context(), db, repair.Options{}, on)))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if diff := gocmp.Diff(before, contents(t, db)); diff != "" {
			t.Errorf("%s: the examination changed something", what)
		}
		run(t, db, true)
		if found, _ := run(t, db, false); len(found) > 0 {
			t.Errorf("%s: there is still %v", what, found)
		}
		if record.CheckTopic(test.topic) == nil || test.topic == notify.AllTopics {
			if _, err := storetest.Inspector(t, db).Settings(t.Context(), test.topic); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// Repaired settings apply: the topic is paused by what is left of them, and is listed.
func TestSettingsHoldThen(t *testing.T) {
	db := open(t)
	inspector := storetest.Inspector(t, db)
	fill(t, db)
	do(t, db, "HSET", "topics", "mail:settings", " lease=x paused=1")
	run(t, db, true)
	got, err := inspector.Settings(t.Context(), "mail")
	if err != nil || !got.Paused || len(got.Own) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	counts, err := storetest.Collect(inspector.Topics(t.Context()))
	if err != nil || len(counts) != 3 || counts[1].Topic != "mail" || !counts[1].Paused {
		t.Errorf("got %+v, %v", counts, err)
	}
	if survey, err := inspector.Survey(t.Context(), 10); err != nil || len(survey.Paused) != 1 {
		t.Errorf("got %+v, %v", survey.Paused, err)
	}
}

package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// settings returns the findings of the check of settings.
func (w *ward) settings(o doctor.Options) (found []string) {
	w.t.Helper()
	_, err := doctor.Run(w.t.Context(), w.config, o, func(f doctor.Finding) {
		if f.Check == "settings" {
			found = append(found, fmt.Sprintf("%v %s → %s", f.Verdict, f.Found, f.Remedy))
		}
	})
	w.must(err)
	return found
}

func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	expect := func(o doctor.Options, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.settings(o)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	quick, minute := doctor.Options{Quick: true}, doctor.Options{Quick: true, Defaults: notify.SettingsChange{Lease: new(time.Minute), Attempts: new(10)}}
	apart := "warn lease is 30s for topics without a setting of their own, but 1m in the configuration → change the configuration, or run bellhop topics set '*' lease=1m"
	expect(quick, "ok the built-in defaults → ")
	expect(minute, apart)
	if founded, err := w.store.Founded(t.Context()); err != nil || founded {
		t.Errorf("the examination founded the store: %v, %v", founded, err)
	}

	storetest.Set(t, w.store, "mail", notify.SettingsChange{Attempts: new(5)})
	storetest.Set(t, w.store, "order.timeout", notify.SettingsChange{Lease: new(time.Second), Paused: new(true)})
	storetest.Set(t, w.store, "held", notify.SettingsChange{Paused: new(true)})
	expect(quick, "ok the built-in defaults → ")
	expect(doctor.Options{}, "ok the built-in defaults; with settings of their own: 2 topics → ")
	expect(minute, apart)

	storetest.Set(t, w.store, notify.AllTopics, notify.SettingsChange{Lease: new(time.Minute), BackoffMax: new(time.Hour)})
	expect(minute, "ok for all topics: lease 1m, backoff_max 1h → ")
	expect(doctor.Options{}, "ok for all topics: lease 1m, backoff_max 1h; with settings of their own: 2 topics → ")
	storetest.Set(t, w.store, notify.AllTopics, notify.SettingsChange{Attempts: new(3)})
	expect(minute, "warn attempts is 3 for topics without a setting of their own, but 10 in the configuration → change the configuration, or run bellhop topics set '*' attempts=10")

	w.must(w.store.Client().HSet(t.Context(), w.store.KeysOfAll()[0].Topics(), "*:settings", " attempts=many lease=60000").Err())
	expect(quick, `fail for all topics: unreadable settings: "attempts=many" → run bellhop doctor --repair; until then the built-in defaults apply instead`)
	storetest.Must(t, storetest.ErrOf(doctor.Repair(t.Context(), w.config, doctor.Options{}, func(doctor.Finding) {})))
	if storetest.Shards() > 1 { // the copies in the others are as old
		storetest.Set(t, w.store, notify.AllTopics, notify.SettingsChange{Lease: new(time.Minute)})
	}
	expect(minute, "ok for all topics: lease 1m → ")
}

// Unreadable settings of one topic are a finding of the contents, with what would be done.
func TestUnreadableSettingsOfATopic(t *testing.T) {
	w := newWard(t)
	w.publish("mail", 1, 0)
	w.must(w.store.Client().HSet(t.Context(), w.store.KeysOf("mail").Topics(), "mail:settings", " attempts=5 lease=soon").Err())
	var found []string
	_, err := doctor.Run(t.Context(), w.config, doctor.Options{}, func(f doctor.Finding) {
		if f.Check == doctor.Contents {
			found = append(found, fmt.Sprintf("%v %s → %s", f.Verdict, f.Found, f.Remedy))
		}
	})
	w.must(err)
	key := "topics"
	if storetest.Shards() > 1 {
		key = "{" + w.store.KeysOf("mail").Tag() + "}:topics"
	}
	want := "fail mail in " + key + ": settings that cannot be read, or that belong to no topic → would be set to attempts=5"
	if got := strings.Join(found, "\n"); !strings.HasPrefix(got, want+"\n") || !strings.HasSuffix(got, "run bellhop doctor --repair") {
		t.Errorf("got:\n%s", got)
	}
}

package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// pauses pauses the topic until a time, which it returns.
func (l limited) pauses(until store.When) time.Time {
	l.t.Helper()
	end, err := store.PauseUntil(l.t.Context(), l.db, l.topic, until)
	l.must(err)
	return end
}

// ends checks until when the topic is paused, and whether the carrier knows of it.
func (l limited) ends(paused bool, until time.Time) {
	l.t.Helper()
	settings, err := l.shard.Settings(l.t.Context(), l.topic)
	l.must(err)
	if settings.Paused != paused || !settings.PausedUntil.Equal(until) {
		l.t.Errorf("paused %v until %v, want %v until %v", settings.Paused, settings.PausedUntil, paused, until)
	}
	counts, err := l.shard.Topics(l.t.Context(), []string{l.topic})
	if l.must(err); counts[0].Paused != paused || !counts[0].PausedUntil.Equal(until) {
		l.t.Errorf("counts say paused %v until %v, want %v until %v", counts[0].Paused, counts[0].PausedUntil, paused, until)
	}
	noted, err := l.db.Client().ZRange(l.t.Context(), l.db.KeysOf(l.topic).Alarms(), 0, -1).Result()
	if l.must(err); slices.Contains(noted, "//"+l.topic) == until.IsZero() {
		l.t.Errorf("the carrier looks at %v", noted)
	}
}

// noted has the carrier look at the pause at another time.
func (l limited) noted(at time.Time) {
	l.must(l.db.Client().ZAdd(l.t.Context(), l.db.KeysOf(l.topic).Alarms(), redis.Z{Member: "//" + l.topic, Score: float64(at.UnixMilli())}).Err())
}

// The carrier resumes a topic when its pause ends, not before, and rings for what is ready; nothing is left of the pause.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{}, 3)
	from := l.us()
	end := l.pauses(store.In(50 * time.Millisecond))
	if end.UnixMicro() < from+50_000 || end.UnixMicro() > l.us()+51_000 {
		t.Errorf("it ends %d us after it began", end.UnixMicro()-from)
	}
	l.ends(true, end)
	l.claims("desk-1", 5, 0)
	l.claims("desk-2", 5, 0)
	storetest.Eventually(t, "the pause ends", func() bool {
		if next := l.carry(false).Next; l.us() < end.UnixMicro() && next != end.UnixMicro() {
			t.Errorf("the carrier sleeps until %d, want %d", next, end.UnixMicro())
		}
		settings, err := l.shard.Settings(t.Context(), l.topic)
		l.must(err)
		return !settings.Paused
	})
	if now := l.us(); now < end.UnixMicro() {
		t.Errorf("it is resumed %d us early", end.UnixMicro()-now)
	}
	l.ends(false, time.Time{})
	if n := l.db.Client().ZCard(t.Context(), l.db.KeysOf(l.topic).PausedTopics()).Val(); n > 0 {
		t.Errorf("%d topics are in the index of pauses", n)
	}
	l.rung("desk-1", "desk-2")
	l.claims("desk-1", 5, 3)
	if next := l.carry(true).Next; next == end.UnixMicro() {
		t.Error("the carrier looks at the pause still")
	}
}

// A pause ends when the last call says, however the ends before were; one without an end, and a resume, remove it. What else is set
// leaves it alone.
func TestEndsOfAPause(t *testing.T) {
	t.Parallel()
	l := openLimited(t, store.SettingsChange{Rate: new(1000 * store.PerSecond)}, 1)
	set := func(c store.SettingsChange, missing bool) {
		t.Helper()
		_, err := l.shard.Set(t.Context(), l.topic, c, missing)
		l.must(err)
	}
	l.claims("desk-1", 1, 1)
	l.claims("desk-1", 1, 0)
	end := l.pauses(store.In(time.Hour))
	l.ends(true, end)
	set(store.SettingsChange{Attempts: new(7)}, false)
	set(store.SettingsChange{Paused: new(true)}, true)
	set(store.SettingsChange{Default: []string{"rate"}}, false)
	l.ends(true, end)
	later := l.pauses(store.At(end.Add(time.Hour)))
	l.ends(true, end.Add(time.Hour))
	l.noted(time.UnixMilli(1)) // as if the end was another one when the carrier was told
	l.carry(false)
	l.ends(true, later)
	set(store.SettingsChange{Paused: new(true)}, false)
	l.ends(true, time.Time{})
	l.noted(time.UnixMilli(1)) // as a call leaves it that stops half way
	l.carry(false)
	l.ends(true, time.Time{})
	l.pauses(store.In(time.Hour))
	set(store.SettingsChange{Paused: new(false)}, false)
	l.ends(false, time.Time{})
	l.pauses(store.In(time.Hour))
	soon := l.pauses(store.In(time.Millisecond))
	l.passes(2 * time.Millisecond)
	if soon.UnixMicro() > l.us() {
		t.Fatalf("the pause ends at %v", soon)
	}
	l.carry(false)
	l.ends(false, time.Time{})
	if settings, err := l.shard.Settings(t.Context(), l.topic); err != nil || settings.Attempts != 7 || !slices.Equal(settings.Own, []string{"attempts"}) {
		t.Errorf("what else was set is %+v, %v", settings, err)
	}
}

// A pause without an end stays as it was stored before pauses had ends, and what is no end is none.
func TestStoredPauses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		paused bool
		until  time.Time
		err    bool
	}{
		" paused=1":                            {paused: true},
		" paused=1 paused_until=1893553445000": {paused: true, until: time.UnixMilli(1893553445000)},
		" paused=1 paused_until=x":             {paused: true, err: true},
		" paused=1 paused_until=0":             {paused: true, err: true},
		" paused_until=1893553445000":          {},
	} {
		l := openLimited(t, store.SettingsChange{}, 0)
		l.must(l.db.Client().HSet(t.Context(), l.db.KeysOf(l.topic).Topics(), l.topic+":settings", text).Err())
		settings, err := l.shard.Settings(t.Context(), l.topic)
		if settings.Paused != want.paused || !settings.PausedUntil.Equal(want.until) || (err != nil) != want.err {
			t.Errorf("%q: %+v, %v", text, settings, err)
		}
		counts, err := l.shard.Topics(t.Context(), []string{l.topic})
		if err != nil || counts[0].Paused != want.paused || !counts[0].PausedUntil.Equal(want.until) {
			t.Errorf("%q: %+v, %v", text, counts, err)
		}
		if next := l.carry(true).Next; next != record.Never {
			t.Errorf("%q: the carrier waits for %d", text, next)
		}
	}
}

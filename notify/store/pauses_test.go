package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// pausing has verbs of pauses: pauses D pauses the topic for a time, lengthens D until so much behind the end that it had. paused says
// until when: as said, for ever, or not at all.
func pausing() (s storetest.Scenario, end *time.Time) {
	end = new(time.Time)
	until := func(p *storetest.Player, words []string, when func(time.Duration) store.When) string {
		d, err := time.ParseDuration(words[0])
		if err == nil {
			*end, err = store.PauseUntil(p.Context(), p.Store, p.Topic, when(d))
		}
		if err != nil {
			return err.Error()
		}
		return "ok"
	}
	return storetest.Scenario{Topic: "mail", Verbs: map[string]func(*storetest.Player, []string) string{
		"pauses": func(p *storetest.Player, words []string) string { return until(p, words, store.In) },
		"lengthens": func(p *storetest.Player, words []string) string {
			return until(p, words, func(d time.Duration) store.When { return store.At(end.Add(d)) })
		},
		"paused": func(p *storetest.Player, _ []string) string { return pausedIn(p, *end) },
	}}, end
}

// pausedIn returns until when the topic is paused, by its settings, its counts, and what the carrier knows, which must agree.
func pausedIn(p *storetest.Player, end time.Time) string {
	settings, err := p.Shard.Settings(p.Context(), p.Topic)
	if err != nil {
		return err.Error()
	}
	counts, err := p.Shard.Topics(p.Context(), []string{p.Topic})
	if err != nil {
		return err.Error()
	}
	noted := slices.Contains(p.Store.Client().ZRange(p.Context(), p.Shard.Keys().Alarms(), 0, -1).Val(), "//"+p.Topic)
	until := settings.PausedUntil
	switch {
	case settings.Paused != counts[0].Paused || !until.Equal(counts[0].PausedUntil) || noted == until.IsZero():
		return fmt.Sprintf("settings %+v, counts %+v, noted %v", settings, counts, noted)
	case !settings.Paused && until.IsZero():
		return "not"
	case until.IsZero():
		return "for ever"
	case until.Equal(end):
		return "as said"
	}
	return until.String()
}

// The carrier resumes a topic when its pause ends, not before, and rings for what is ready; nothing is left of the pause.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	s, end := pausing()
	p := storetest.NewPlayer(t, s)
	p.Play("publish 0..2")
	from := p.Now()
	p.Play(`
	pauses 50ms
	paused = as said
	rung = nobody
	claim 5 inbox=desk-1 = nothing
	claim 5 inbox=desk-2 = nothing
	`)
	if end.Sub(from) < 50*time.Millisecond || end.After(p.Now().Add(51*time.Millisecond)) {
		t.Errorf("it ends %v after it began", end.Sub(from))
	}
	storetest.Eventually(t, "the pause ends", func() bool {
		if next := p.Carry(false).Next; p.Now().Before(*end) && next != end.UnixMicro() {
			t.Errorf("the carrier sleeps until %d, want %d", next, end.UnixMicro())
		}
		return pausedIn(p, *end) == "not"
	})
	if now := p.Now(); now.Before(*end) {
		t.Errorf("it is resumed %v early", end.Sub(now))
	}
	p.Play(`
	redis ZCARD topics-paused = 0
	rung = desk-1 desk-2
	claim 5 inbox=desk-1 = 0 1 2
	`)
	if next := p.Carry(true).Next; next == end.UnixMicro() {
		t.Error("the carrier looks at the pause still")
	}
}

// A pause ends when the last call says, however the ends before were; one without an end, and a resume, remove it. What else is set
// leaves it alone.
func TestEndsOfAPause(t *testing.T) {
	t.Parallel()
	s, _ := pausing()
	s.Verbs["fill"] = func(p *storetest.Player, _ []string) string { // sets a pause where none is set
		_, err := p.Shard.Set(p.Context(), p.Topic, store.SettingsChange{Paused: new(true)}, true)
		return fmt.Sprint(err)
	}
	storetest.Play(t, `
	set rate=1000/s
	publish 0
	claim 1 inbox=desk-1 = 0
	claim 1 inbox=desk-1 = nothing
	pauses 1h
	paused = as said
	set attempts=7
	fill = <nil>
	set rate=default
	paused = as said
	lengthens 1h
	paused = as said
	redis ZADD alarms 1 //mail           # as if the end was another one when the carrier was told
	carry
	paused = as said
	pause
	paused = for ever
	redis ZADD alarms 1 //mail           # as a call leaves it that stops half way
	carry
	paused = for ever
	pauses 1h
	resume
	paused = not
	pauses 1h
	pauses 1ms
	pass 2ms
	carry
	paused = not
	redis HGET topics mail:settings = " attempts=7"
	`, s)
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
		p := storetest.NewPlayer(t, limited)
		storetest.Must(t, p.Store.Client().HSet(t.Context(), p.Shard.Keys().Topics(), "mail:settings", text).Err())
		settings, err := p.Shard.Settings(t.Context(), p.Topic)
		if settings.Paused != want.paused || !settings.PausedUntil.Equal(want.until) || (err != nil) != want.err {
			t.Errorf("%q: %+v, %v", text, settings, err)
		}
		counts, err := p.Shard.Topics(t.Context(), []string{p.Topic})
		if err != nil || counts[0].Paused != want.paused || !counts[0].PausedUntil.Equal(want.until) {
			t.Errorf("%q: %+v, %v", text, counts, err)
		}
		storetest.Is(t, fmt.Sprintf("%q: the carrier waits for", text), p.Carry(true).Next, record.Never)
	}
}

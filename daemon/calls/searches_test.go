package calls_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Searches of bodies are logged once in a second, with how many there were; two are under way at a time.
func TestSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		var s calls.Searches
		parse := func(text string) find.Query {
			q, err := find.Parse(text)
			storetest.Must(t, err)
			return q
		}
		bodies := parse("body~4711")
		for range 1000 {
			done, admitted := s.Begin(log, bodies, "token", "x")
			if !admitted {
				t.Fatal("one alone was refused")
			}
			done()
		}
		time.Sleep(time.Second)
		first, admitted := s.Begin(log, bodies, "token", "x")
		_, second := s.Begin(log, bodies, "token", "x")
		_, third := s.Begin(log, bodies, "token", "x")
		if !admitted || !second || third {
			t.Errorf("admitted %v, %v and %v, want two", admitted, second, third)
		}
		if _, admitted := s.Begin(log, parse("id:a*"), "token", "x"); !admitted {
			t.Error("one that asks for no bodies was refused")
		}
		first()
		if _, admitted := s.Begin(log, bodies, "token", "x"); !admitted {
			t.Error("one was refused after another had ended")
		}
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], `msg="search of bodies" token=x question=body~4711 searches=1`) || !strings.HasSuffix(lines[1], "searches=1000") {
			t.Errorf("logged %q", lines)
		}
	})
}

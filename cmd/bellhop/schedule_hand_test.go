package main

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
)

// A schedule is run by hand, and backfilled: what would be made is shown, made, and taken when it is made again.
func TestScheduleByHand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("schedule", "put", "invoices", "daily", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--overlap", "skip", "--body", "x")
	contains(t, s.call("schedule", "run", "invoices", "daily"), "invoices daily~20", "Z ready ")
	s.call("schedule", "pause", "invoices", "daily")
	contains(t, s.call("schedule", "run", "invoices", "daily"), "invoices daily~20", "Z blocked ")
	var run api.Publication
	s.json(&run, "schedule", "run", "invoices", "daily", "--json")
	contains(t, s.call("inspect", "invoices", run.ID), "header Bellhop-Scheduled", strings.TrimPrefix(run.ID, "daily~"))
	const days = "2026-03-28T00:00:00+01:00..2026-03-30T00:00:00+02:00" // at the second the gap ends
	contains(t, s.call("schedule", "backfill", "invoices", "daily", days, "--dry-run"),
		"invoices daily~2026-03-28T01:30:00Z would be made\ninvoices daily~2026-03-29T01:00:00Z would be made\ninvoices daily: 2 would be made, 0 taken\n")
	if out := s.call("schedule", "backfill", "invoices", "daily", days); out != "invoices daily: 2 made, 0 taken\n" {
		t.Errorf("got %s", out)
	}
	contains(t, s.call("schedule", "backfill", "invoices", "daily", days), "invoices daily~2026-03-28T01:30:00Z is in use, and left as it is\n", "invoices daily: 0 made, 2 taken\n")
	var done calls.Backfilled
	s.json(&done, "schedule", "backfill", "invoices", "daily", "2026-03-27T00:00:00Z..2026-03-29T00:00:00Z", "--json")
	if done.Made != 1 || done.Taken != 1 || len(done.Occurrences) != 2 || done.Occurrences[0].ID != "daily~2026-03-27T01:30:00Z" || done.Occurrences[0].Due.IsZero() || !done.Occurrences[1].Taken {
		t.Errorf("got %+v", done)
	}
	contains(t, s.call("schedule", "show", "invoices", "daily"), "made           0\n")
}

// What is wrong with what is asked for by hand is said with its remedy.
func TestScheduleByHandFaults(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"run|invoices":            "NAME is missing",
		"run|a b|daily":           "topic",
		"backfill|invoices|daily": "FROM..TO is missing",
		"backfill|invoices|daily|2026-03-27T00:00:00Z":     "write FROM..TO, such as",
		"backfill|invoices|daily|..2026-03-27T00:00:00Z":   "write FROM..TO, such as",
		"backfill|invoices|daily|2026-03-27..":             "from \"2026-03-27\": write a time such as",
		"backfill|invoices|daily|2026-03-27T00:00:00Z..no": "to \"no\": write a time such as",
		"next":                             "TOPIC and NAME are missing; name a schedule, or give a rule",
		"next|invoices":                    "NAME is missing",
		"next|invoices|daily|--every|5m":   "unexpected flag --every: the schedule daily has its rule",
		"next|--every|5m|--number|0":       "number 0",
		"next|--every|5m|--number|1001":    "number 1001",
		"next|--every|5m|--zone|Mars":      "only cron goes by a wall clock",
		"next|--cron|@daily|--zone|Berlin": "do you mean Europe/Berlin",
	} {
		contains(t, s.fails(exitUsage, append([]string{"schedule"}, strings.Split(args, "|")...)...), want)
	}
	if said := s.fails(exitUsage, "schedule", "next", "--every", "soon"); strings.Contains(said, "there are 0 of them") {
		t.Errorf("what cannot be read is said to be missing, too: %s", said)
	}
	s.call("schedule", "put", "ticks", "clock", "--every", "1s", "--body", "x")
	contains(t, s.fails(exitUsage, "schedule", "backfill", "ticks", "clock", "2026-03-27T00:00:00Z..2026-03-27T00:30:00Z"), "there are 1800 occurrences, and a backfill makes at most 1000; make those before 2026-03-27T00:16:40Z first")
	contains(t, s.fails(exitUsage, "schedule", "backfill", "ticks", "clock", "2026-03-27T00:00:00Z..2199-03-27T00:30:00Z"), "it is not past")
	contains(t, s.fails(exitFailed, "schedule", "run", "ticks", "none"), "no schedule of the topic has this name")
	contains(t, s.fails(exitFailed, "schedule", "backfill", "ticks", "none", "2026-03-27T00:00:00Z.."), "no schedule of the topic has this name")
}

// The next times are printed with their offset, of a schedule and of a rule that is not put, which needs no Redis.
func TestScheduleNext(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	rule := []string{"--cron", "30 2 1 * *", "--zone", "Europe/Berlin", "--from", "2199-03-15T00:00:00Z"}
	s.call(append([]string{"schedule", "put", "invoices", "monthly", "--body", "x", "--count", "7"}, rule...)...)
	out := s.call("schedule", "next", "invoices", "monthly", "--number", "12")
	if n := strings.Count(out, " 02:30:00 +0"); n != 7 || !strings.HasPrefix(out, "2199-04-01 02:30:00 +0200 (in ") {
		t.Errorf("%d times are printed, want the seven of its count:\n%s", n, out)
	}
	s.env = append(s.env, "BELLHOP_REDIS_URL=redis://127.0.0.1:1")
	out = s.call(append([]string{"schedule", "next"}, rule...)...)
	if n := strings.Count(out, "\n"); n != 5 {
		t.Errorf("%d times are printed, want 5:\n%s", n, out)
	}
	contains(t, out, "2199-04-01 02:30:00 +0200 (in ")
	var next struct{ Next []string }
	s.json(&next, append([]string{"schedule", "next", "--json", "--number", "1000"}, rule...)...)
	if len(next.Next) != 1000 || next.Next[8] != "2199-12-01T01:30:00Z" {
		t.Errorf("got %d times, %v", len(next.Next), next.Next[:9])
	}
	contains(t, s.call("schedule", "next", "--at", "2020-01-01T00:00:00Z"), "it does not fire: it is at its end\n")
}

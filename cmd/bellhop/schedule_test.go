package main

import (
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A schedule is put, listed, shown on a terminal in 80 columns, paused, resumed and deleted. One that is put again as it is stays.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("schedule", "list", "invoices"), "no schedule\n")
	put := []string{"schedule", "put", "invoices", "daily", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2199-06-01T00:00:00Z", "--body", "x", "--attempts", "3", "--header", "Shop=7"}
	contains(t, s.call(put...), "invoices daily added\n")
	contains(t, s.call(put...), "invoices daily unchanged\n")
	contains(t, s.call("schedule", "put", "invoices", "often", "--every", "15m", "--overlap", "skip", "--count", "9", "--body", ""), "invoices often added\n")
	contains(t, s.call("schedule", "list", "invoices"), "NAME   FIRES                        NEXT", "daily  30 2 * * * in Europe/Berlin  ", "often  every 15m, 9 times")
	out := s.call("schedule", "show", "invoices", "daily")
	contains(t, out, "fires              30 2 * * * in Europe/Berlin\n", "missed             one\n", "limit of attempts  3\n", "header Shop        7\n", "made               0\n", " 02:30:00 +0")
	if n := strings.Count(out, " 02:30:00 +0"); n != 5 {
		t.Errorf("%d times are shown, want the next five:\n%s", n, out)
	}
	for line := range strings.Lines(s.onTerminal("schedule", "show", "invoices", "daily")) {
		if len([]rune(strings.TrimRight(line, "\r\n"))) > 80 {
			t.Errorf("a line is too long: %s", line)
		}
	}
	contains(t, s.call("schedule", "pause", "invoices", "daily"), "paused invoices daily\n")
	contains(t, s.call("schedule", "list", "invoices"), "paused")
	contains(t, s.call("schedule", "resume", "invoices", "daily"), "resumed invoices daily\n")
	var list calls.Schedules
	s.json(&list, "schedule", "list", "invoices", "--json")
	if all := list.Schedules; len(all) != 2 || all[0].Zone != "Europe/Berlin" || all[0].MaxAttempts != 3 || len(all[0].State.Next) != 5 || all[1].EveryMs != 900_000 || all[1].Count != 9 || all[1].Overlap != "skip" {
		t.Errorf("got %+v", list)
	}
	s.call("schedule", "put", "bills", "often", "--every", "1h", "--body", "")
	out = strings.Join(strings.Fields(s.call("schedule", "list")), " ")
	for at, want := range []string{"TOPIC NAME FIRES NEXT MADE MISSED bills often every 1h ", " invoices daily 30 2 * * * in Europe/Berlin ", " invoices often every 15m, 9 times "} {
		i := strings.Index(out, want)
		if i < 0 || at == 0 && i > 0 {
			t.Errorf("%q is missing in %s", want, out)
		}
		out = out[max(i, 0):]
	}
	s.json(&list, "schedule", "list", "--json")
	if all := list.Schedules; len(all) != 3 || all[0].Topic != "bills" || all[1].Name != "daily" || all[1].MaxAttempts != 3 || all[2].Name != "often" {
		t.Errorf("got %+v", list)
	}
	contains(t, s.call("schedule", "delete", "invoices", "daily"), "deleted invoices daily\n")
	contains(t, s.fails(exitFailed, "schedule", "show", "invoices", "daily"), "no schedule of the topic has this name")
	contains(t, s.fails(exitFailed, "schedule", "pause", "invoices", "daily"), "no schedule of the topic has this name")
}

// What is wrong with a schedule is said with its remedy, and changes nothing.
func TestScheduleFaults(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"--cron|0 0 30 2 *":                           "it never fires: its months have at most 29 days",
		"--cron|@hourly|--until|2026-01-01T00:00:00Z": "there is no occurrence between now and then, so it never fires; name a later time, or leave it out",
		"--at|2026-01-01T00:00:00Z":                   "at: none of its times is to come",
		"--cron|0 0 13 * 5":                           "write * in one of the fields",
		"--cron|0 0 * * *|--zone|Europe/Berlinn":      "do you mean Europe/Berlin",
		"--cron|0 25 * * *":                           "hour",
		"--every|500ms":                               "every",
		"--every|0s":                                  "every",
		"--every|soon":                                "write a duration",
		"--every|5m|--jitter|5m":                      "jitter",
		"--every|5m|--cron|* * * * *":                 "there are 2 of them; give one",
		"--every|5m|--count|0":                        `count "0"`,
		"--every|5m|--missed|both":                    "missed",
		"--every|5m|--from|2030-01-02":                "write a time such as",
		"--at|2030-01-01T00:00:00.5Z":                 "whole second",
		"--every|5m|--key|a|--overlap|skip":           "overlap skip",
		"--every|5m|--attempts|0":                     "attempts",
		"--every|5m|--broadcast|--lease|30s":          "lease",
		"--every|5m|--until|2020-01-01T00:00:00Z|--from|2021-01-01T00:00:00Z": "is before from",
	} {
		said := s.fails(exitUsage, append([]string{"schedule", "put", "invoices", "a", "--body", "x"}, strings.Split(args, "|")...)...)
		contains(t, said, want)
	}
	contains(t, s.fails(exitUsage, "schedule", "put", "invoices", "a~2026-11-22T08:00:00Z", "--every", "5m", "--body", "x"), "it ends like the id of an occurrence")
	contains(t, s.fails(exitUsage, "schedule", "put", "invoices", "a", "--every", "5m", "--body", "{{x}}"), "there are no templates")
	contains(t, s.fails(exitUsage, "schedule", "put", "invoices", "a", "--body", "x"), "there are 0 of them; give one")
	for _, args := range []string{"schedule|show||a", "schedule|delete|invoices|", "schedule|list|", "pause|", "resume|", "keys|", "cancel|invoices|", "listeners|of||x", "reschedule||a|--now"} {
		contains(t, s.fails(exitUsage, strings.Split(args, "|")...), "is empty")
	}
	contains(t, s.fails(exitUsage, "schedule"), "COMMAND is missing: use put, apply, list")
	contains(t, s.fails(exitUsage, "schedule", "stop"), `unknown command "stop"`)
	contains(t, s.call("schedule", "list", "invoices"), "no schedule\n")
}

// A daemon makes what a schedule of the command line says, and shows what it made.
func TestScheduleFires(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.call("schedule", "put", "ticks", "clock", "--every", "1s", "--count", "3", "--body", "tick")
	storetest.Eventually(t, "three occurrences are ready", func() bool {
		return strings.Contains(strings.Join(strings.Fields(s.call("topics")), " "), "ticks 0 3 ")
	})
	s.call("work", "ticks", "--count", "1")
	s.feed("", "work", "ticks", "--count", "1", "--", "sh", "-c", "exit 65")
	out := s.call("schedule", "show", "ticks", "clock")
	contains(t, out, "made           3\n", "last  ", "), gone\n", "), dead\n", "), ready\n")
	if strings.Contains(out, "\nnext ") {
		t.Errorf("it fires again:\n%s", out)
	}
	var shown calls.Schedule
	s.json(&shown, "schedule", "show", "ticks", "clock", "--json")
	last := shown.State.Last
	if len(last) != 3 || last[2].At.Sub(last[0].At) != 2*time.Second || last[0].ID != "clock~"+last[0].At.Format(time.RFC3339) {
		t.Errorf("got %+v", last)
	}
	if last[0].Became != "gone" || last[1].Became != "dead" || last[2].Became != "ready" {
		t.Errorf("got %+v", last)
	}
	s.call("schedule", "put", "ticks", "always", "--every", "1s", "--body", "tick")
	storetest.Eventually(t, "some are made, and others ahead", func() bool {
		out := s.call("schedule", "show", "ticks", "always")
		return strings.Contains(out, "\nlast  ") && strings.Contains(out, "\nnext  ")
	})
	contains(t, s.fails(exitUsage, "schedule", "show", "a b", "always"), "topic")
	contains(t, s.call("inspect", "ticks", last[2].ID), "header Bellhop-Schedule", "clock")
}

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestForecast(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	tomorrow := time.Now().UTC().Truncate(forecast.Day).Add(36 * time.Hour)
	for i := range 4 {
		storetest.Publish(t, store, notify.Message{Topic: fmt.Sprint("order.", i), Due: tomorrow}, notify.Message{Topic: "mail", Delay: 1000 * time.Hour})
	}
	storetest.Publish(t, store, notify.Message{Topic: "order.1", Due: tomorrow.Add(forecast.Day)}, notify.Message{Topic: "news", Broadcast: true, Due: tomorrow})
	day := tomorrow.Truncate(forecast.Day).Format("2006-01-02") + "T00:00Z"
	out := s.call("forecast", "--bucket", "1d", "--count", "3")
	contains(t, out, "FROM               MESSAGES  BROADCASTS\noverdue                   0\n", day+"         4           1  "+strings.Repeat("█", 39)+"\n", "later                     4\n")
	for line := range strings.Lines(out) {
		if n := len([]rune(line)); n > helpWidth+1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	contains(t, s.call("forecast", "order.*", "--bucket", "1d", "--count", "3"), "FROM               MESSAGES\n", day+"         4  █", "later                     0\n")
	contains(t, s.call("forecast", "order.1", "--bucket", "1d", "--count", "3"), day+"         1  █")
	contains(t, s.call("forecast", "none"), "later                     0\n")
	contains(t, s.call("forecast", "mail", "--json", "--count", "2"), `"bucket_ms":3600000,"counts":[0,0],"overdue":0,"later":4}`+"\n")
	if lines := strings.Count(s.call("forecast", "--bucket", "1m", "--count", "60"), "\n"); lines != 63 {
		t.Errorf("%d lines", lines)
	}
}

// What schedules fire is shown beside the messages, in a light bar behind theirs, and until when that is whole.
func TestForecastOfSchedules(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	day := time.Now().UTC().Truncate(forecast.Day).Add(2 * forecast.Day)
	text := func(t time.Time) string { return t.Format(time.RFC3339) }
	storetest.Publish(t, store, notify.Message{Topic: "bills", Due: day}, notify.Message{Topic: "bills", Due: day})
	s.call("schedule", "put", "bills", "a", "--every", "12h", "--from", text(day), "--count", "5", "--body", "x")
	rows := "FROM               MESSAGES  RECURRING\noverdue                   0\n"
	contains(t, s.call("forecast", "bills", "--bucket", "1d", "--count", "6"), rows,
		day.Format(forecastLayout)+"         2          2  "+strings.Repeat("█", 20)+strings.Repeat("░", 20)+"\n",
		day.Add(forecast.Day).Format(forecastLayout)+"         0          2  "+strings.Repeat("░", 20)+"\n",
		day.Add(2*forecast.Day).Format(forecastLayout)+"         0          1  "+strings.Repeat("░", 10)+"\n",
		"later                     0\n")
	contains(t, s.call("forecast", "--bucket", "1d", "--count", "6"), "FROM               MESSAGES  BROADCASTS  RECURRING\n")
	recurring := func() (f calls.Forecast, from []int64) { // from that day on: the forecast begins with today, which may be another one by now
		t.Helper()
		s.json(&f, "forecast", "bills", "--bucket", "1d", "--count", "6", "--json")
		return f, f.Recurring[day.Sub(f.From)/forecast.Day:][:3]
	}
	if f, from := recurring(); !slices.Equal(from, []int64{2, 2, 1}) || f.Later != 0 || len(f.Recurring) != 6 || !f.RecurringUntil.IsZero() {
		t.Errorf("got %+v", f)
	}
	s.call("schedule", "put", "bills", "b", "--every", "1s", "--from", text(day), "--body", "x")
	contains(t, s.call("forecast", "bills", "--bucket", "1d", "--count", "6"), "recurring has all until "+text(day.Add(1000*time.Second))+": some have more than are counted\n")
	if f, from := recurring(); !slices.Equal(from, []int64{1002, 2, 1}) || !f.RecurringUntil.Equal(day.Add(1000*time.Second)) {
		t.Errorf("got %+v", f)
	}
}

// A person reads local times on a terminal, and there days begin at the local midnight. JSON stays as it is.
func TestForecastOnATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	days := regexp.MustCompile(`\d{4}-\d\d-\d\dT\S+`)
	if got := days.FindAllString(s.onTerminal("forecast", "--bucket", "1d", "--count", "3"), -1); len(got) != 3 || !strings.HasSuffix(strings.Join(got, ""), "T00:00+09:00") {
		t.Errorf("on a terminal days begin at %v", got)
	}
	for _, out := range []string{s.call("forecast", "--bucket", "1d", "--count", "3"), s.onTerminal("forecast", "--bucket", "1d", "--count", "3", "--json")} {
		if got := days.FindString(out); !regexp.MustCompile(`T00:00(:00)?Z`).MatchString(got) {
			t.Errorf("the first day begins at %s in %s", got, out)
		}
	}
}

func TestWrongForecast(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.fails(exitUsage, "forecast", "a b"), "invalid topic")
	contains(t, s.fails(exitUsage, "forecast", "--bucket", "2h"), `invalid bucket "2h": use 1m, 1h, 1d`)
	contains(t, s.fails(exitUsage, "forecast", "--count", "0"), `invalid count "0": write a whole number from 1 to 1000`)
	contains(t, s.fails(exitUsage, "forecast", "a", "b"), `unexpected argument "b"`)
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n, most int64
		width   int
		want    string
	}{
		{0, 0, 10, ""}, {0, 7, 10, ""}, {7, 7, 2, "██"}, {1, 1000000, 2, "▏"}, {3, 4, 2, "█▌"}, {7, 8, 1, "▉"}, {1, 1, 0, ""}, {1, 1, -3, ""},
	} {
		if got := bar(test.n, test.most, test.width); got != test.want {
			t.Errorf("%d of %d in %d columns: %q", test.n, test.most, test.width, got)
		}
	}
}

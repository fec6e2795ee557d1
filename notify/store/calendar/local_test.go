package calendar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

func onWall(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.ParseInLocation("2006-01-02T15:04:05", text, calendar.Wall)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A local time is when the wall clock shows it first, or at the end of the gap that has it.
func TestLocal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ zone, wall, want string }{
		{"UTC", "2026-11-12T08:00:00", "2026-11-12T08:00:00Z"},
		{"Europe/Berlin", "2026-11-12T08:00:00", "2026-11-12T07:00:00Z"},
		{"Europe/Berlin", "2026-07-12T08:00:00.25", "2026-07-12T06:00:00.25Z"},
		{"Europe/Berlin", "2026-03-29T01:59:59.999", "2026-03-29T00:59:59.999Z"},
		{"Europe/Berlin", "2026-03-29T02:00:00", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29T02:30:00.5", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29T03:00:00", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-03-29T03:00:01", "2026-03-29T01:00:01Z"},
		{"Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z"},
		{"Europe/Berlin", "2026-10-25T02:59:59.5", "2026-10-25T00:59:59.5Z"},
		{"Europe/Berlin", "2026-10-25T03:00:00", "2026-10-25T02:00:00Z"},
		{"Africa/Cairo", "2026-04-24T00:30:00", "2026-04-23T22:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:30:00Z"},
		{"Australia/Lord_Howe", "2026-04-05T01:45:00", "2026-04-04T14:45:00Z"},
		{"Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T10:00:00Z"},
		{"Pacific/Kiritimati", "2030-01-01T00:00:00", "2029-12-31T10:00:00Z"},
		{"America/New_York", "9999-12-31T18:59:59", "9999-12-31T23:59:59Z"},
	} {
		at, err := calendar.Local(onWall(t, test.wall), test.zone)
		if got := at.Format(time.RFC3339Nano); err != nil || got != test.want {
			t.Errorf("%s in %s: %s, %v; want %s", test.wall, test.zone, got, err, test.want)
		}
	}
}

// Each minute around each change of some zones is when the clock of Go's time shows it first, or a later one.
func TestLocalMinutes(t *testing.T) {
	t.Parallel()
	const minute = "2006-01-02T15:04"
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Africa/Casablanca", "Pacific/Apia", "America/Nuuk"} {
		zone, err := calendar.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2030; {
			_, end := at.In(zone).ZoneBounds()
			if !end.After(at) { // none is known, or Go says that of a leap year a day early
				at = at.AddDate(0, 0, 1)
				continue
			}
			first := end.Add(-30 * time.Hour)
			shown := first.In(zone).Format(minute)
			for now := first; now.Before(end.Add(3 * time.Hour)); now = now.Add(time.Minute) {
				shows := now.In(zone).Format(minute)
				if shows <= shown && now != first {
					continue // it was shown, or passed, before
				}
				for between := onWall(t, shown+":00").Add(time.Minute); ; between = between.Add(time.Minute) { // up to what is shown now
					text := between.Format(minute)
					if text > shows {
						break
					}
					if got, err := calendar.Local(between, name); err != nil || !got.Equal(now) {
						t.Fatalf("%s in %s: %v, %v; want %v", text, name, got, err, now)
					}
				}
				shown = shows
			}
			at = end.Add(time.Hour)
		}
	}
}

// A time with an offset needs no zone, and one without needs one.
func TestLocalFaults(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 8, 0, 0, 0, time.UTC)
	for _, due := range []time.Time{{}, at} {
		if got, err := calendar.Local(due, ""); err != nil || got != due {
			t.Errorf("got %v, %v", got, err)
		}
	}
	for _, test := range []struct {
		due                time.Time
		zone, field, wants string
	}{
		{onWall(t, "2030-01-02T08:00:00"), "", "due", "it has no offset; write one, such as 2030-01-02T08:00:00Z or 2030-01-02T08:00:00+02:00, or give its zone"},
		{time.Time{}, "Europe/Berlin", "due", "it is missing, and the zone Europe/Berlin is for it"},
		{at, "Europe/Berlin", "zone", "due has an offset, so it needs no zone"},
		{onWall(t, "2030-01-02T08:00:00"), "Europe/Berlinn", "zone", "do you mean Europe/Berlin"},
	} {
		var f *fault.Fault
		if _, err := calendar.Local(test.due, test.zone); !errors.As(err, &f) || f.Field != test.field || !strings.Contains(err.Error(), test.wants) {
			t.Errorf("%v in %q: %v; want %s", test.due, test.zone, err, test.wants)
		}
	}
}

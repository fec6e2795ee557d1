package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A message is due when the wall clock of its zone says so, which the publish tells: also as one of many, and as a broadcast.
func TestLocalDue(t *testing.T) {
	t.Parallel()
	p := storetest.Publisher(t, storetest.Open(t))
	of := func(id, wall string) notify.Message {
		m, err := notify.ParseLine([]byte(fmt.Sprintf(`{"topic":%q,"id":%q,"due":%q,"zone":"Europe/Berlin","body":"x"}`, topic, id, wall)))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	gap, twice := of("gap", "2099-03-29T02:30"), of("twice", "2099-10-25T02:30:00")
	twice.Broadcast = true
	one, err := p.Publish(t.Context(), of("plain", "2099-07-01T08:00:00.5"))
	if want := time.Date(2099, 7, 1, 6, 0, 0, 500_000_000, time.UTC); err != nil || !one.Due.Equal(want) || one.State != notify.Scheduled {
		t.Errorf("got %+v, %v; want it due at %v", one, err, want)
	}
	all := p.PublishMany(t.Context(), []notify.Message{gap, twice})
	for i, want := range []time.Time{time.Date(2099, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2099, 10, 25, 0, 30, 0, 0, time.UTC)} {
		if all[i].Err != nil || !all[i].Due.Equal(want) {
			t.Errorf("got %+v, want it due at %v", all[i], want)
		}
	}
	past, err := p.Publish(t.Context(), of("past", "2020-07-01T08:00"))
	if err != nil || past.State != notify.Ready {
		t.Errorf("of the past: %+v, %v", past, err)
	}
	if _, err := p.RescheduleAt(t.Context(), topic, "plain", time.Date(2099, 1, 2, 8, 0, 0, 0, calendar.Wall)); !errors.Is(err, notify.ErrInvalid) {
		t.Errorf("a wall clock without a zone: %v", err)
	}
}

// Of a line all that is wrong with its time is told.
func TestWrongLocalLine(t *testing.T) {
	t.Parallel()
	p := storetest.Publisher(t, storetest.Open(t))
	for line, want := range map[string]string{
		`"due":"2099-03-29T02:30"`:                            "it has no offset",
		`"due":"2099-03-29T02:30:00Z","zone":"Europe/Berlin"`: "due has an offset",
		`"due":"2099-03-29T02:30","zone":"Mars"`:              "do you mean",
		`"zone":"Europe/Berlin","delay":"1m"`:                 "delay and zone: both are given",
		`"due":"2099-03-29","zone":"Europe/Berlin"`:           "write a time such as",
		`"due":"2099-03-29T02:30","zone":"UTC","id":"a"`:      "",
	} {
		m, err := notify.ParseLine([]byte(`{"topic":"` + topic + `",` + line + `,"body":"x"}`))
		if err == nil {
			_, err = p.Publish(t.Context(), m)
		}
		if want == "" && err != nil || want != "" && (!errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

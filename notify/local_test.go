package notify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A message is due when the wall clock of its zone says so, which the publish tells: also as one of many, and as a broadcast.
func TestLocalDue(t *testing.T) {
	t.Parallel()
	p := storetest.Publisher(t, storetest.Open(t))
	of := func(id, wall string) notify.Message {
		m, err := notify.ParseLine([]byte(fmt.Sprintf(`{"topic":%q,"id":%q,"due":%q,"zone":"Europe/Berlin","body":"x"}`, topic, id, wall)))
		storetest.Must(t, err)
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
	storetest.Fails(t, "a wall clock without a zone", storetest.ErrOf(p.RescheduleAt(t.Context(), topic, "plain", time.Date(2099, 1, 2, 8, 0, 0, 0, calendar.Wall))), notify.ErrInvalid)
}

// Of a line all that is wrong with its time is told.
func TestWrongLocalLine(t *testing.T) {
	t.Parallel()
	p := storetest.Publisher(t, storetest.Open(t))
	for line, want := range map[string]string{
		`"due":"2099-03-29T02:30"`:                                   "it has no offset",
		`"due":"2099-03-29T02:30:00Z","zone":"Europe/Berlin"`:        "due has an offset",
		`"due":"2099-03-29T02:30","zone":"Mars"`:                     "do you mean",
		`"zone":"Europe/Berlin","delay":"1m"`:                        "delay and zone: both are given",
		`"due":"2099-03-29","zone":"Europe/Berlin","spread":"25h"`:   "write a time such as",
		`"due":"2099-03-29T02:30","zone":"UTC","id":"a","spread":""`: "",
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

// Messages of one time are due within their spread, each always at the same time, and not all at once; also with a delay, and with ids that are made.
func TestSpread(t *testing.T) {
	t.Parallel()
	p := storetest.Publisher(t, storetest.Open(t))
	const n, spread = 200, 10 * time.Minute
	batch := make([]notify.Message, n)
	for i := range batch {
		batch[i] = notify.Message{Topic: topic, ID: fmt.Sprintf("m-%d", i), Due: future, Spread: spread, Broadcast: i%2 == 1}
	}
	dues := make(map[time.Time]bool)
	for i, r := range p.PublishMany(t.Context(), batch) {
		late := r.Due.Sub(future)
		if r.Err != nil || late < 0 || late > spread || late != record.Spread(record.Member(topic, batch[i].ID), spread) {
			t.Errorf("%s is %v later: %v", batch[i].ID, late, r.Err)
		}
		dues[r.Due] = true
	}
	if len(dues) < n*9/10 {
		t.Errorf("%d messages have %d due times", n, len(dues))
	}
	before := time.Now()
	late := make(map[time.Duration]bool)
	for range 20 {
		one, err := p.Publish(t.Context(), notify.Message{Topic: topic, Delay: time.Hour, Spread: 24 * time.Hour})
		if err != nil || one.Due.Before(before.Add(time.Hour)) {
			t.Fatalf("got %+v, %v", one, err)
		}
		late[one.Due.Sub(before).Truncate(time.Minute)] = true
	}
	if len(late) < 5 {
		t.Errorf("20 messages over a day have %d due times", len(late))
	}
	if _, err := p.Publish(t.Context(), notify.Message{Topic: topic, Delay: 1<<63 - 1, Spread: 24 * time.Hour}); err != nil {
		t.Errorf("behind the longest delay: %v", err)
	}
	storetest.Fails(t, "behind the last due time", storetest.ErrOf(p.Publish(t.Context(), notify.Message{Topic: topic, ID: "last", Due: record.MaxDue, Spread: 24 * time.Hour})), notify.ErrInvalid)
}

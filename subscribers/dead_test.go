package subscribers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// die publishes messages and buries them.
func die(t *testing.T, store *notify.Store, messages ...notify.Message) {
	t.Helper()
	c := subscribers.NewClaimer(store)
	storetest.Publish(t, store, messages...)
	for left := len(messages); left > 0; {
		ds, err := c.Claim(t.Context(), topic, subscribers.MaxClaim, time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if _, err := c.Bury(t.Context(), d, "because of "+d.ID); err != nil {
				t.Fatal(err)
			}
		}
		left -= len(ds)
	}
}

func numbered(n int) (messages []notify.Message) {
	for i := range n {
		messages = append(messages, body(fmt.Sprintf("%04d", i)))
	}
	return messages
}

func TestDeadLettersByID(t *testing.T) {
	store := storetest.Open(t)
	dead := subscribers.NewDeadLetters(store)
	m := body("c")
	m.TTL = time.Hour
	die(t, store, body("a"), body("b"), m)
	page, err := dead.List(t.Context(), topic, 10, "")
	if err != nil || len(page.Messages) != 3 || page.Messages[0].Reason != "because of a" {
		t.Fatalf("got %+v, %v", page, err)
	}
	if n, err := dead.Purge(t.Context(), topic, "a", "none"); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if n, err := dead.Requeue(t.Context(), topic, "b", "c", "none"); n != 2 || err != nil {
		t.Errorf("requeued %d, %v", n, err)
	}
	if n, err := dead.Requeue(t.Context(), topic, "b"); n != 0 || err != nil {
		t.Errorf("requeued %d again, %v", n, err)
	}
	info, err := notify.NewPublisher(store, notify.PublisherOptions{}).Inspect(t.Context(), topic, "c")
	if err != nil || info.State != notify.Ready || info.Attempts != 0 || !info.Expires.Equal(info.Due.Add(time.Hour)) {
		t.Errorf("got %+v, %v", info, err)
	}
	c := subscribers.NewClaimer(store)
	for range 2 {
		if d := claimOne(t, c, time.Minute); d.Attempt != 1 {
			t.Errorf("%s is in attempt %d", d.ID, d.Attempt)
		} else if err := c.Ack(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	storetest.Empty(t, store)
}

func TestAllDeadLetters(t *testing.T) {
	store := storetest.Open(t)
	dead := subscribers.NewDeadLetters(store)
	const n = 1234
	die(t, store, numbered(n)...)
	// One without a record cannot be requeued, and does not keep the others from it.
	if err := store.Client().HDel(t.Context(), store.Keys().Messages(), "orders:0000").Err(); err != nil {
		t.Fatal(err)
	}
	var totals []int
	got, err := dead.RequeueAll(t.Context(), topic, func(total int) { totals = append(totals, total) })
	if err != nil || got != n-1 || !slices.IsSorted(totals) || len(totals) < 3 {
		t.Errorf("requeued %d in steps to %v, %v", got, totals, err)
	}
	if c := counts(t, store); c.Ready != n-1 || c.Dead != 1 {
		t.Errorf("got %+v", c)
	}
	if got, err = dead.PurgeAll(t.Context(), topic, nil); got != 1 || err != nil {
		t.Errorf("purged %d, %v", got, err)
	}
	die(t, store)
	if c := counts(t, store); c.Dead != 0 {
		t.Errorf("got %+v", c)
	}
}

// An export can be published again.
func TestExport(t *testing.T) {
	store := storetest.Open(t)
	dead := subscribers.NewDeadLetters(store)
	binary := body("binary")
	binary.Body = []byte{0, 0xff, '\n'}
	signal := notify.Message{Topic: topic, ID: "signal", Body: []byte{}}
	full := body("full")
	full.Headers, full.ContentType, full.TTL, full.MaxAttempts = map[string]string{"K": "<v>"}, "text/plain", time.Hour, 7
	die(t, store, append(numbered(700), binary, signal, full)...)
	var out bytes.Buffer
	n, err := dead.Export(t.Context(), topic, &out, nil)
	if err != nil || n != 703 {
		t.Fatalf("exported %d, %v", n, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	messages := make(map[string]notify.Message)
	for _, line := range lines {
		m, err := notify.ParseLine([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		messages[m.ID] = m
	}
	if diff := cmp.Diff(full, messages["full"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(binary, messages["binary"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(signal, messages["signal"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var line notify.Line
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || line.Reason != "because of 0000" || line.AttemptsUsed != 1 || line.Died == nil {
		t.Errorf("got %+v, %v", line, err)
	}
	if len(messages) != 703 || counts(t, store).Dead != 703 {
		t.Errorf("%d were exported, %d are left", len(messages), counts(t, store).Dead)
	}
}

// Reasons are told apart by their words, not by what they name; of ever new ones there are not ever more.
func TestReasons(t *testing.T) {
	store := storetest.Open(t)
	dead := subscribers.NewDeadLetters(store)
	put := func(deaths ...any) {
		t.Helper()
		if err := store.Client().HSet(t.Context(), store.Keys().Deaths(), deaths...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	put("orders:1", "no such order 4711", "orders:2", "no such order 4712", "orders:3", "answered 503", "orders:4", "answered 404",
		"mail:1", "no such order 4713", "foreign", "\x1b[2J\xff", "orders:5", strings.Repeat("x", 1000))
	got, err := dead.Reasons(t.Context(), nil)
	want := []subscribers.Reason{
		{Topic: "orders", Reason: "no such order #", Dead: 2},
		{Topic: "_", Reason: "\x1b[2J", Dead: 1},
		{Topic: "mail", Reason: "no such order #", Dead: 1},
		{Topic: "orders", Reason: "answered 404", Dead: 1},
		{Topic: "orders", Reason: "answered 503", Dead: 1},
		{Topic: "orders", Reason: strings.Repeat("x", 200), Dead: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got): %v\n%s", err, diff)
	}
	for from := 0; from < 12_000; from += 1000 {
		var deaths []any
		for i := range 1000 {
			deaths = append(deaths, fmt.Sprintf("t%d:1", from+i), "gone")
		}
		put(deaths...)
	}
	var totals []int
	got, err = dead.Reasons(t.Context(), func(total int) { totals = append(totals, total) })
	if err != nil || len(got) > 10_001 || got[0].Topic != "*" || got[0].Reason != subscribers.OtherReasons || len(totals) < 10 || !slices.IsSorted(totals) {
		t.Errorf("got %d reasons, the first %+v, in %d pages, %v", len(got), got[:1], len(totals), err)
	}
}

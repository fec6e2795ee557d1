package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A list is one reply of the API, however many pages it takes, and its cursor goes on where it ends.
func TestListsInJSON(t *testing.T) {
	t.Parallel()
	const n = mostListed + 101
	s := newShell(t)
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{Topic: "t", ID: fmt.Sprint(i), Body: []byte("<body>")}
	}
	storetest.Publish(t, storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX")), messages...)
	for _, list := range []string{"inspect t --state ready", "find topic:t"} {
		seen := make(map[string]bool)
		page := func(want int, more bool, args ...string) (cursor string) {
			t.Helper()
			var found calls.Found
			out := s.call(append(strings.Fields(list+" --json"), args...)...)
			if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Messages) != want || (found.Cursor != "") != more || strings.Count(out, "\n") != 1 {
				t.Errorf("%s %v lists %d in %d lines, with the cursor %q", list, args, len(found.Messages), strings.Count(out, "\n"), found.Cursor)
			}
			for _, m := range found.Messages {
				if seen[m.ID] = true; *m.Body != "<body>" {
					t.Errorf("got %+v", m)
				}
			}
			return found.Cursor
		}
		page(1, false, "--limit", "2", "--cursor", page(n-1, true, "--limit", fmt.Sprint(n-1)))
		if len(seen) != n {
			t.Errorf("%s lists %d, want %d", list, len(seen), n)
		}
	}
	var none calls.Found
	if out := s.call("inspect", "none", "--json"); out != `{"messages":[]}`+"\n" {
		t.Errorf("got %s", out)
	}
	if s.json(&none, "find", "topic:none", "--json"); none.Messages == nil || len(none.Messages) > 0 || none.Cursor != "" {
		t.Errorf("got %+v", none)
	}
}

// An export has all pages, the oldest death first, and those that have lost their records.
func TestExportsOfManyDead(t *testing.T) {
	t.Parallel()
	const n = mostListed + 1
	s := newShell(t)
	db := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	begun := time.Now().Add(-time.Hour)
	messages := make([]notify.Message, n)
	for i := range messages {
		died := begun.Add(time.Duration(n-i) * time.Second)
		messages[i] = notify.Message{Topic: "t", ID: fmt.Sprint(i), Restore: &notify.Restore{Died: died, Reason: "broken"}}
	}
	storetest.Publish(t, db, messages...)
	storetest.Must(t, db.Client().HDel(t.Context(), db.KeysOf("t").Messages(), "t:7").Err())
	file := filepath.Join(t.TempDir(), "dead.jsonl")
	if out := s.call("find", "topic:t", "--export", file); out != fmt.Sprintf("exported %d\n", n) {
		t.Errorf("got %q", out)
	}
	lines := strings.Split(strings.TrimSpace(s.call("dead", "export", "t")), "\n")
	if len(lines) != n || !strings.Contains(lines[0], fmt.Sprintf(`"id":"%d"`, n-1)) || !strings.Contains(lines[n-1], `"id":"0"`) || !strings.Contains(lines[n-8], `"id":"7"`) {
		t.Errorf("%d lines, from %s to %s", len(lines), lines[0], lines[len(lines)-1])
	}
}

// An export goes on behind pages of a search that found nothing in its time.
func TestExportBehindAnEmptyPage(t *testing.T) {
	t.Parallel()
	ends := []calls.Looked{{Cursor: "one"}, {Cursor: "two"}, {}}
	l := &list{page: func(_ context.Context, _ int, cursor string) (calls.Listing, error) {
		page := calls.Listing{Of: []notify.Info{}, End: ends[0]}
		if cursor == "one" {
			page.N, page.Of = 1, make([]notify.Info, 1)
		}
		ends = ends[1:]
		return page, nil
	}}
	var out strings.Builder
	err := (&app{out: &out, err: io.Discard}).exportList(t.Context(), l, filepath.Join(t.TempDir(), "found.jsonl"))
	if err != nil || out.String() != "exported 1\n" || len(ends) > 0 {
		t.Errorf("%v, printed %q, and %d pages are left", err, out.String(), len(ends))
	}
}

// What is interrupted says how to go on, and prints what it has; an export is whole or is not written.
func TestListIsInterrupted(t *testing.T) {
	t.Parallel()
	interrupted := func() *list {
		n := 0
		return &list{limit: 10, page: func(context.Context, int, string) (calls.Listing, error) {
			if n++; n > 1 {
				return calls.Listing{}, context.Canceled
			}
			return calls.Listing{N: 1, Of: make([]notify.Info, 1), Whole: func(int) any { return api.Message{ID: "a", State: notify.Dead} }, End: calls.Looked{Cursor: "here"}}, nil
		}}
	}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		a := &app{out: &out, err: io.Discard, json: asJSON}
		err := printList(t.Context(), a, interrupted(), func(all []notify.Info) error {
			fmt.Fprintln(&out, len(all), "messages")
			return nil
		})
		if err == nil || !strings.HasSuffix(err.Error(), "--cursor here") {
			t.Errorf("got %v", err)
		}
		if asJSON {
			var found calls.Found
			if err := json.Unmarshal([]byte(out.String()), &found); err != nil || len(found.Messages) != 1 || found.Cursor != "here" {
				t.Errorf("%v in %s", err, out.String())
			}
		} else if out.String() != "1 messages\n" {
			t.Errorf("got %q", out.String())
		}
	}
	file := filepath.Join(t.TempDir(), "found.jsonl")
	err := (&app{out: io.Discard, err: io.Discard}).exportList(t.Context(), interrupted(), file)
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "--cursor") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it was written")
	}
}

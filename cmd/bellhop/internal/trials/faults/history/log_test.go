package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

func open(t *testing.T, dir, process string) *history.Log {
	t.Helper()
	log, err := history.Open(filepath.Join(dir, process+history.Suffix), process)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func TestLogIsReadBack(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, dir, "one"), open(t, dir, "two")
	one.Event(history.Record{Op: history.Start, Target: "two"})
	publish := one.Call(history.Record{Op: history.Publish, Topic: "a", ID: "m1"})
	publish.End(history.OK, history.Record{Due: 7})
	claim := two.Call(history.Record{Op: history.Claim, Topic: "a", Lease: 1000})
	claim.Took(history.Record{Topic: "a", ID: "m1", Receipt: 1007, Lease: 1000})
	claim.End(history.OK, history.Record{Count: 1})
	fault := one.Call(history.Record{Op: history.Fault, Kind: "cut", Target: "two"})
	fault.End(history.OK, history.Record{})
	fault.Heal().End(history.OK, history.Record{})

	got, err := history.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []history.Record{
		{Process: "one", Op: history.Start, Target: "two"},
		{Process: "one", N: 1, Op: history.Publish, Phase: history.Call, Topic: "a", ID: "m1"},
		{Process: "one", N: 1, Op: history.Publish, Phase: history.OK, Topic: "a", ID: "m1", Due: 7},
		{Process: "two", N: 1, Op: history.Claim, Phase: history.Call, Topic: "a", Lease: 1000},
		{Process: "two", N: 1, Op: history.Take, Topic: "a", ID: "m1", Receipt: 1007, Lease: 1000},
		{Process: "two", N: 1, Op: history.Claim, Phase: history.OK, Topic: "a", Count: 1},
		{Process: "one", N: 2, Op: history.Fault, Phase: history.Call, Kind: "cut", Target: "two"},
		{Process: "one", N: 2, Op: history.Fault, Phase: history.OK},
		{Process: "one", N: 2, Op: history.Heal, Phase: history.Call, Kind: "cut", Target: "two"},
		{Process: "one", N: 2, Op: history.Heal, Phase: history.OK},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(history.Record{}, "At")); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// When many goroutines write at once, each line is complete and each operation has a number of its own.
func TestLogIsSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	log := open(t, dir, "one")
	const writers, each = 8, 500
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				o := log.Call(history.Record{Op: history.Publish, Topic: "a", ID: fmt.Sprintf("%d-%d", w, i)})
				o.End(history.OK, history.Record{Due: 1})
			}
		})
	}
	all.Wait()
	got, err := history.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, r := range got {
		seen[fmt.Sprintf("%d %s", r.N, r.Phase)]++
	}
	if len(got) != 2*writers*each || len(seen) != len(got) {
		t.Errorf("%d records, %d of them different, want %d", len(got), len(seen), 2*writers*each)
	}
}

func TestReadToleratesOnlyACutEnd(t *testing.T) {
	const good = `{"at":1,"process":"p","n":1,"op":"publish","phase":"call","topic":"a","id":"m"}` + "\n"
	for name, c := range map[string]struct {
		text, err string
		records   int
	}{
		"whole":              {good + good, "", 2},
		"empty":              {"", "", 0},
		"cut":                {good + good[:20], "", 1},
		"cut before its end": {good + strings.TrimSuffix(good, "\n"), "", 1},
		"cut in the middle":  {good + good[:20] + "\n" + good, "line 2: ", 0},
		"two in a line":      {strings.TrimSuffix(good, "\n") + good, "line 1: more than one record", 0},
		"unknown field":      {`{"at":1,"process":"p","op":"beat","dew":1}` + "\n", `unknown field "dew"`, 0},
		"unknown operation":  {`{"at":1,"process":"p","op":"bate"}` + "\n", `op "bate": there is no such operation`, 0},
		"no phase":           {`{"at":1,"process":"p","n":1,"op":"ack"}` + "\n", `phase "": use call, ok, no or unknown`, 0},
		"phase of an event":  {`{"at":1,"process":"p","n":1,"op":"take","phase":"ok"}` + "\n", "take is an event", 0},
		"no number":          {`{"at":1,"process":"p","op":"ack","phase":"ok"}` + "\n", "n 0: an operation has a number", 0},
		"no process":         {`{"at":1,"op":"beat"}` + "\n", "process: it is empty", 0},
		"no time":            {`{"process":"p","op":"beat"}` + "\n", "at 0: it is not a time", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p"+history.Suffix)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := history.ReadFile(path)
			switch {
			case c.err == "" && err != nil:
				t.Fatal(err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path)):
				t.Fatalf("error %v, want one with %q and the path", err, c.err)
			}
			if len(got) != c.records {
				t.Errorf("%d records, want %d", len(got), c.records)
			}
		})
	}
}

// A failed write is reported: a history with holes proves nothing.
func TestLogReportsFailedWrites(t *testing.T) {
	log, err := history.Open(filepath.Join(t.TempDir(), "p"+history.Suffix), "p")
	if err != nil {
		t.Fatal(err)
	}
	log.Event(history.Record{Op: "nothing"})
	if err := log.Err(); err == nil || !strings.Contains(err.Error(), `write history of p: op "nothing"`) {
		t.Errorf("error %v", err)
	}
	if err := log.Close(); err == nil {
		t.Error("closed without an error")
	}
}

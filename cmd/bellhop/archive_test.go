package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify"
)

// What is wrong with a call of archive is told before the database is asked.
func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"archive":                                  "COMMAND is missing",
		"archive dig":                              `unknown command "dig"`,
		"archive search x":                         `unexpected argument "x"`,
		"archive search --limit 0":                 "invalid limit 0",
		"archive search --from yesterday":          `invalid from "yesterday": write a time such as 2030-01-02T15:04:05Z, or how long ago, such as 24h`,
		"archive search --to 1h2":                  `invalid to "1h2"`,
		"archive search --topic a..b":              `invalid topic "a..b"`,
		"archive search --header A":                `invalid header "A": write NAME=VALUE`,
		"archive show t":                           "ID is missing",
		"archive requeue":                          "nothing is selected: give flags such as --topic, or --all to requeue all that the archive holds",
		"archive requeue --all --id x":             "give --all or flags that select, not both",
		"archive requeue --id x --limit 0":         "invalid limit 0",
		"archive erase":                            "or --all to erase all",
		"archive prune":                            "--before is missing",
		"archive prune --before then":              `invalid before "then"`,
		"archive search --from 1h --to x --header": "flag needs an argument",
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "24h": now.Add(-24 * time.Hour), "2d": now.Add(-48 * time.Hour), "0s": now,
		"2029-01-02T03:04:05Z": time.Date(2029, 1, 2, 3, 4, 5, 0, time.UTC),
	} {
		if got, err := ago("from", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1h", "now", "2029-01-02", "0001-01-01T00:00:00Z"} {
		if got, err := ago("from", text, now); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// A change goes on until all is done, its limit is reached or it fails, and adds up.
func TestArchiveInSteps(t *testing.T) {
	a := &app{err: &strings.Builder{}}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		limit int
		steps []archive.Change
		fails error // of the last step
		most  []int // that each step is asked for
		want  archive.Change
	}{
		"all":       {0, []archive.Change{{Done: 400, Refused: 100, Cursor: "a"}, {Done: 3}}, nil, []int{500, 500}, archive.Change{Done: 403, Refused: 100}},
		"limited":   {600, []archive.Change{{Done: 400, Refused: 100, Cursor: "a"}, {Done: 100, Cursor: "b"}}, nil, []int{500, 100}, archive.Change{Done: 500, Refused: 100, Cursor: "b"}},
		"fails":     {0, []archive.Change{{Done: 500, Cursor: "a"}, {Done: 20}}, broken, []int{500, 500}, archive.Change{Done: 520, Cursor: "a"}},
		"fails, on": {0, []archive.Change{{Done: 500, Cursor: "a"}, {Done: 20, Cursor: "b"}}, broken, []int{500, 500}, archive.Change{Done: 520, Cursor: "b"}},
	} {
		var cursor string
		n := 0
		got, err := a.inSteps("testing", archive.Change{}, test.limit, func(most int, from string) (step archive.Change, err error) {
			if n >= len(test.steps) || most != test.most[n] || from != cursor {
				t.Fatalf("%s: step %d is asked for %d from %q", name, n, most, from)
			}
			step = test.steps[n]
			if n++; n == len(test.steps) {
				err = test.fails
			}
			cursor = step.Cursor
			return step, err
		})
		if got != test.want || !errors.Is(err, test.fails) || n != len(test.steps) {
			t.Errorf("%s: got %+v, %v after %d steps, want %+v", name, got, err, n, test.want)
		}
	}
}

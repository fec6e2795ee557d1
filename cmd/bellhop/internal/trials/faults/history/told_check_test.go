package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// Of a topic of Told each attempt has a handler, but for faults and the ends of processes.
func TestTold(t *testing.T) {
	told := bounds
	told.Told, told.Spares = []string{"t"}, []string{"output"}
	const published = `
		0-2 p publish m ok due=0 limit=2
		`
	const failed = published + `
		5-6 c handle m no due=0 attempt=1 receipt=1005 lease=1000 target=w
		`
	for name, c := range map[string]struct {
		text string
		rule history.Rule
	}{
		"first":                            {published + "5-6 c handle m ok due=0 attempt=1 receipt=1005 lease=1000 target=w", ""},
		"an attempt without a handler":     {published + "5-6 c handle m ok due=0 attempt=2 receipt=1005 lease=1000 target=w", history.Attempts},
		"the same in its fault":            {published + "3-9 fault output\n5-6 c handle m ok due=0 attempt=2 receipt=1005 lease=1000 target=w", history.Attempts},
		"the same in another fault":        {published + "3-9 fault cut\n5-6 c handle m ok due=0 attempt=2 receipt=1005 lease=1000 target=w", ""},
		"the same by the end of a process": {published + "4 harness stop target=w\n5-6 c handle m ok due=0 attempt=2 receipt=1005 lease=1000 target=w", ""},
		"handled, and again":               {published + "3-9 fault output\n5-6 c handle m ok due=0 attempt=1 receipt=1005 lease=1000 target=w\n20-21 d handle m ok due=0 attempt=2 receipt=1020 lease=1000 target=w", history.Double},
		"handled, and again in a cut":      {published + "3-9 fault cut\n5-6 c handle m ok due=0 attempt=1 receipt=1005 lease=1000 target=w\n20-21 d handle m ok due=0 attempt=2 receipt=1020 lease=1000 target=w", ""},
		"dead of its failures":             {failed + "20-21 d handle m no due=0 attempt=2 receipt=1020 lease=1000 target=w\nfinal dead m 21", ""},
		"dead of one failure":              {failed + "final dead m 7", history.Died},
		"dead of one failure and a cut":    {failed + "3-4 fault cut\nfinal dead m 7", ""},
		"dead without a handler":           {published + "final dead m 7", history.Died},
		"buried":                           {published + "5-6 c handle m no due=0 attempt=1 receipt=1005 lease=1000 target=w state=dead\nfinal dead m 7", ""},
		"expired":                          {"0-2 p publish m ok due=0 ttl=5\nfinal dead m 7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, c.text)
			expect(t, s.records, s.final, told, c.rule)
		})
	}
}

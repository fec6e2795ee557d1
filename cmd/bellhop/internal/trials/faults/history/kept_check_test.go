package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// What was acknowledged with a keep is there with its result, and an await tells of it.
func TestKept(t *testing.T) {
	const taken = `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		`
	const kept = taken + `
		7-8 w ack m ok receipt=1005 keep=1000 result=x
		`
	for name, c := range map[string]struct {
		text string
		rule history.Rule
	}{
		"kept":                         {kept + "final done m x", ""},
		"with another result":          {kept + "final done m y", history.Kept},
		"not kept":                     {kept, history.Kept},
		"kept, and nobody wanted that": {taken + "7-8 w ack m ok receipt=1005\nfinal done m x", history.Kept},
		"kept, and refused":            {taken + "7-8 w ack m no receipt=1005 keep=1000 result=x\nfinal done m x\nfinal ready m", history.Kept},
		"kept, and unpublished":        {"final done m x", history.Unpublished},
		"perhaps kept":                 {taken + "7-8 w ack m unknown receipt=1005 keep=1000 result=x\nfinal done m x", ""},
		"perhaps not kept":             {taken + "7-8 w ack m unknown receipt=1005 keep=1000 result=x", ""},
		"memory was short":             {taken + "7-8 w ack m ok receipt=1005 keep=1000 result=x forgotten=true", ""},
		"memory was short, and kept":   {taken + "7-8 w ack m ok receipt=1005 keep=1000 result=x forgotten=true\nfinal done m x", history.Kept},
		"cancelled":                    {kept + "9-10 p cancel m ok", ""},
		"forgotten in a power cut":     {kept + "100-200 fault power loss=1000", ""},
		"kept, and handed out":         {kept + "2000-2001 w takes m due=0\n2002-2003 w ack m no receipt=3000\nfinal done m x", history.Again},
		"attempts of a kept one":       {kept + "final done m x\nfinal attempts m", ""},
		"awaited":                      {kept + "3-9 p await m ok wait=5000 state=done result=x\nfinal done m x", ""},
		"awaited afterwards":           {kept + "20-21 p await m ok wait=5000 state=done result=x\nfinal done m x", ""},
		"awaited, with another result": {kept + "3-9 p await m ok wait=5000 state=done result=y\nfinal done m x", history.Awaited},
		"awaited, too early":           {kept + "3-4 p await m ok wait=5000 state=done result=x\nfinal done m x", history.Awaited},
		"awaited, and refused":         {taken + "7-8 w ack m no receipt=1005 keep=1000 result=x\n9-10 p await m ok wait=5000 state=done result=x\nfinal ready m", history.Awaited},
		"awaited, and heard too late":  {kept + "3-509 p await m ok wait=5000 state=done result=x\nfinal done m x", history.Awaited},
		"awaited, and heard in time":   {kept + "3-508 p await m ok wait=5000 state=done result=x\nfinal done m x", ""},
		"heard late, after a fault":    {kept + "100-200 fault cut\n3-900 p await m ok wait=5000 state=done result=x\nfinal done m x", ""},
		"heard late, long after a fault": {`
			0-10 fault cut
			2000-2002 p publish m ok due=2000
			2003-2900 p await m ok wait=5000 state=done result=x
			2005-2006 w takes m due=2000
			2007-2008 w ack m ok receipt=3005 keep=1000 result=x
			final done m x`, history.Awaited},
		"gone":               {taken + "7-8 w ack m ok receipt=1005\n3-9 p await m ok wait=5000 state=gone", ""},
		"gone, and there":    {"0-2 p publish m ok due=0\n3-9 p await m ok wait=5000 state=gone\nfinal ready m", history.Awaited},
		"as it is":           {"0-2 p publish m ok due=0\n3-104 p await m ok wait=100 state=ready\nfinal ready m", ""},
		"as it is, too late": {"0-2 p publish m ok due=0\n3-604 p await m ok wait=100 state=ready\nfinal ready m", history.Awaited},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, c.text)
			expect(t, s.records, s.final, bounds, c.rule)
		})
	}
}

// The archive holds each end once.
func TestArchived(t *testing.T) {
	const died = `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w bury m ok receipt=1005 state=dead
		`
	const dead, row = died + "final dead m 8\n", "9000 h archive m state=dead\n"
	const requeued = died + `
		10-11 w requeue m ok
		20-21 w takes m due=11
		`
	for name, c := range map[string]struct {
		text string
		rule history.Rule
	}{
		"a row":                                {dead + row, ""},
		"no row":                               {dead, history.Archived},
		"two rows":                             {dead + row + row, history.Archived},
		"another row":                          {dead + "9000 h archive m state=dropped", history.Archived},
		"a row of nothing":                     {dead + row + "9000 h archive n state=dead", history.Unpublished},
		"of one that was lost":                 {dead + row + "100-200 fault power loss=1000\n", ""},
		"none of one that was lost":            {died + "100-200 fault power loss=1000\n", ""},
		"none of one before that":              {dead + "2000-2100 fault power loss=1000\n", history.Archived},
		"two, since it died again":             {dead + row + row + "100-200 fault power loss=1000\n", ""},
		"none, before a failover":              {dead + "100-200 fault failover loss=1000 waited=true", history.Archived},
		"two, since a call stopped half way":   {dead + row + row + "0-50 fault right halfway=true", ""},
		"died of itself":                       {"0-2 p publish m ok due=0 ttl=100\nfinal dead m 100\n" + row, ""},
		"died of itself, and no row":           {"0-2 p publish m ok due=0 ttl=100\nfinal dead m 100\n", history.Archived},
		"expired, and perhaps dropped":         {"0-2 p publish m ok due=0 ttl=100 fail=drop\n9000 h archive m state=dropped", ""},
		"a broadcast that expired":             {"0-2 p broadcast m ok due=0 ttl=100\n9000 h archive m state=dropped", ""},
		"a broadcast that expired, twice":      {"0-2 p broadcast m ok due=0 ttl=100\n9000 h archive m state=dropped\n9000 h archive m state=dropped", history.Archived},
		"dead and requeued":                    {requeued + "22-23 w ack m ok receipt=1020\n" + row, ""},
		"dead and requeued, and no row":        {requeued + "22-23 w ack m ok receipt=1020\n", history.Archived},
		"dead twice":                           {requeued + "22-23 w bury m ok receipt=1020 state=dead\nfinal dead m 23\n" + row + row, ""},
		"dead twice, and one row":              {requeued + "22-23 w bury m ok receipt=1020 state=dead\nfinal dead m 23\n" + row, history.Archived},
		"acknowledged, and that is not wanted": {"0-2 p publish m ok due=0\n5-6 w takes m due=0\n7-8 w ack m ok receipt=1005\n9000 h archive m state=acked", history.Archived},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, c.text)
			s.final.Archive = true
			expect(t, s.records, s.final, bounds, c.rule)
		})
	}
	for name, c := range map[string]struct {
		text string
		rule history.Rule
	}{
		"a row":             {"7-8 w ack m ok receipt=1005\n9000 h archive m state=acked", ""},
		"no row":            {"7-8 w ack m ok receipt=1005", history.Archived},
		"two rows":          {"7-8 w ack m ok receipt=1005\n9000 h archive m state=acked\n9000 h archive m state=acked", history.Archived},
		"not acknowledged":  {"7-8 w ack m no receipt=1005\n9000 h archive m state=acked\nfinal ready m", history.Archived},
		"no answer":         {"7-8 w ack m unknown receipt=1005\n9000 h archive m state=acked", ""},
		"no answer, no row": {"7-8 w ack m unknown receipt=1005", ""},
	} {
		t.Run("acknowledged, "+name, func(t *testing.T) {
			s := read(t, "0-2 p publish m ok due=0\n5-6 w takes m due=0\n"+c.text)
			s.final.Archive, s.final.Acked = true, []string{"t"}
			expect(t, s.records, s.final, bounds, c.rule)
		})
	}
	s := read(t, dead)
	expect(t, s.records, s.final, bounds, "") // without an archive
}

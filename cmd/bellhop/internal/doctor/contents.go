package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Contents is the check of what Redis holds: each thing that is out of place is a
// finding, and the last one sums up.
const Contents = "contents"

// Repair mends what is out of place in the Redis that c names, while everything
// goes on, and calls on with each finding: those that it mended are OK. It
// returns the worst verdict. The error is a configuration that cannot be used,
// or that ctx ended.
func Repair(ctx context.Context, c notify.Config, o Options, on func(Finding)) (Verdict, error) {
	db, err := notify.Open(c)
	if err != nil {
		return Fail, err
	}
	defer db.Close()
	e := &exam{store: db, o: o, on: on, worst: OK}
	e.contents(ctx, true)
	return e.worst, ctx.Err()
}

// contents looks for what is out of place, and mends it if that is wanted.
func (e *exam) contents(ctx context.Context, apply bool) {
	sum, err := repair.Run(ctx, e.store, repair.Options{Apply: apply, OnProgress: e.o.OnProgress}, e.outOfPlace)
	switch {
	case ctx.Err() != nil:
		e.tell(Contents, Warn, fmt.Sprintf("interrupted: %s told until then", plural(sum.Found, "fault")), "run it again, and let it end; --quick leaves this out")
		return
	case err != nil:
		e.unexamined(err, apply)
		return
	}
	found := fmt.Sprintf("%s, %s: ", plural(sum.Messages, "message"), plural(sum.Topics, "topic"))
	if len(sum.Uncounted) > 0 {
		found += "too many are " + strings.Join(sum.Uncounted, " or ") + " to compare that with its counters; "
	}
	switch {
	case sum.Found == 0:
		e.tell(Contents, OK, found+"nothing is out of place", "")
	case sum.Repaired == sum.Found:
		e.tell(Contents, OK, fmt.Sprintf("%sfaults found and repaired: %d", found, sum.Found), "")
	case sum.Repairable == 0 || apply:
		e.tell(Contents, Fail, fmt.Sprintf("%sfaults found: %d, repaired: %d", found, sum.Found, sum.Repaired), "do as is said of each")
	default:
		e.tell(Contents, Fail, fmt.Sprintf("%sfaults found: %d, that can be repaired: %d", found, sum.Found, sum.Repairable), "run bellhop doctor --repair")
	}
}

// outOfPlace tells a finding of the contents.
func (e *exam) outOfPlace(f repair.Finding) {
	by := "look at it, and remove it if nobody needs it: DEL " + f.Whole
	if f.Fault == repair.ForeignRecord {
		by = fmt.Sprintf("look at it, and remove it if nobody needs it: HDEL %s %q", f.Whole, f.Name)
	}
	if f.Fault == repair.NoListener {
		by = fmt.Sprintf("listen as %s again, which goes on from there; or remove it if nobody will: DEL %s", f.Name, f.Whole)
	}
	switch {
	case f.Repaired:
		e.tell(Contents, OK, f.String()+": "+f.Remedy, "")
	case f.Remedy != "":
		e.worst = Fail
		e.on(Finding{Check: Contents, Verdict: Fail, Found: f.String(), Remedy: "would be " + f.Remedy, Repairable: true})
	case f.Harmless():
		e.tell(Contents, Warn, f.String(), by)
	default:
		e.tell(Contents, Fail, f.String(), by)
	}
}

// unexamined tells why the contents could not be examined: that they were to be repaired makes it worse.
func (e *exam) unexamined(err error, apply bool) {
	verdict := Warn
	if apply {
		verdict = Fail
	}
	found, remedy := told(err, store.RepairRights(e.store.Prefix()))
	e.tell(Contents, verdict, found, remedy)
}

package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
)

// Repair repairs what is out of place in the Redis that c names; carriers and
// subscribers may go on meanwhile. It calls on with each finding, of which the
// repaired ones are OK, and returns the worst verdict. The error is that of a
// configuration that cannot be used, or of ctx.
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

// contents reports what is out of place, and repairs it if apply is set.
func (e *exam) contents(ctx context.Context, apply bool) {
	sum, err := repair.Run(ctx, e.store, repair.Options{Apply: apply, OnProgress: e.o.OnProgress}, e.outOfPlace)
	switch {
	case ctx.Err() != nil:
		e.report(Contents, Warn, fmt.Sprintf("interrupted: %s found so far", plural(sum.Found, "fault")), "run it again to the end; --quick leaves this check out")
		return
	case err != nil:
		e.unexamined(err, apply)
		return
	}
	found := fmt.Sprintf("%s, %s: ", plural(sum.Messages, "message"), plural(sum.Topics, "topic"))
	if len(sum.Uncounted) > 0 {
		found += "counters not compared, since they count too many at present: " + strings.Join(sum.Uncounted, ", ") + "; "
	}
	switch {
	case sum.Found == 0:
		e.report(Contents, OK, found+"nothing is out of place", "")
	case sum.Repaired == sum.Found:
		e.report(Contents, OK, fmt.Sprintf("%sfaults found and repaired: %d", found, sum.Found), "")
	case sum.Repairable == 0 || apply:
		e.report(Contents, Fail, fmt.Sprintf("%sfaults found: %d, repaired: %d", found, sum.Found, sum.Repaired), "do what each finding above says")
	default:
		e.report(Contents, Fail, fmt.Sprintf("%sfaults found: %d, repairable: %d", found, sum.Found, sum.Repairable), "run bellhop doctor --repair")
	}
}

// outOfPlace reports a finding of the contents.
func (e *exam) outOfPlace(f repair.Finding) {
	by := "inspect it; if nobody needs it, remove it: DEL " + f.Whole
	if f.Fault == repair.ForeignRecord {
		by = fmt.Sprintf("inspect it; if nobody needs it, remove it: HDEL %s %q", f.Whole, f.Name)
	}
	if f.Fault == repair.NoGroup {
		topic, id, _ := strings.Cut(f.Name, ":")
		by = fmt.Sprintf("give it a time, or cancel it: bellhop reschedule %s %s --delay 1h", topic, id)
	}
	if f.Fault == repair.NoListener {
		by = fmt.Sprintf("listen as %s again to continue from there; if nobody will, remove it: DEL %s", f.Name, f.Whole)
	}
	if f.Fault == repair.WrongShard {
		by = fmt.Sprintf("write its messages to a file, which has those of all shards: bellhop export FILE; put them where they belong: bellhop publish --file FILE; then remove the key: DEL %s", f.Whole)
	}
	switch {
	case f.Repaired:
		e.report(Contents, OK, f.String()+": "+f.Remedy, "")
	case f.Remedy != "":
		e.add(Finding{Check: Contents, Verdict: Fail, Found: f.String(), Remedy: "would be " + f.Remedy, Repairable: true})
	case f.Harmless():
		e.report(Contents, Warn, f.String(), by)
	default:
		e.report(Contents, Fail, f.String(), by)
	}
}

// unexamined reports why the contents could not be examined: a warning, or a
// failure if they were to be repaired.
func (e *exam) unexamined(err error, apply bool) {
	verdict := Warn
	if apply {
		verdict = Fail
	}
	found, remedy := explain(err, e.store.RepairRights())
	e.report(Contents, verdict, found, remedy)
}

package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// backfillAct makes the occurrences of a schedule between two times in the past: it asks first, with how many there are. The question has
// the time up to which they are made, so that none comes in between.
var backfillAct = act{path: schedulePage.path, name: "backfill a schedule", form: &schedulePage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, name := v.r.PathValue("topic"), v.r.PathValue("name")
	if err := scheduled(v, topic, name); err != nil {
		return "", 0, err
	}
	b, err := backfillOf(v, topic, name)
	if err != nil {
		return "", 0, err
	}
	if b.To.IsZero() {
		if b.To, err = c.store.Now(ctx); err != nil {
			return "", 0, err
		}
		v.r.PostForm.Set("to", b.To.UTC().Format(time.RFC3339Nano))
	}
	b.DryRun = true
	would, err := api.BackfillSchedule(ctx, c.store, b)
	if err != nil {
		return "", 0, noSchedule(err)
	}
	if would.Made == 0 {
		return fmt.Sprintf("There was nothing to make of %s%s", name, taken(would.Taken)), 0, nil
	}
	if err := v.sure("Make %s of %s of %s from %s on and before %s, due at once%s?", occurrences(would.Made), name, topic, moment(b.From), moment(b.To), taken(would.Taken)); err != nil {
		return "", 0, err
	}
	b.DryRun = false
	done, err := api.BackfillSchedule(ctx, c.store, b)
	c.forgetSchedule(topic, name)
	return fmt.Sprintf("Made %s of %s%s", occurrences(done.Made), name, taken(done.Taken)), done.Made, noSchedule(err)
}}

// backfillOf reads the times of a form. The error joins a Fault for each that cannot be read.
func backfillOf(v *visit, topic, name string) (store.Backfill, error) {
	b := store.Backfill{Topic: topic, Name: name}
	var bad, worse error
	from, to := strings.TrimSpace(v.r.PostForm.Get("from")), strings.TrimSpace(v.r.PostForm.Get("to"))
	if b.From, bad = fields.ParseTime("from", from); from == "" {
		bad = fault.New("from", "from: it is missing; write the time from which on occurrences are made")
	}
	if to != "" {
		b.To, worse = fields.ParseTime("to", to)
	}
	return b, errors.Join(bad, worse)
}

func occurrences(n int) string {
	if n == 1 {
		return "1 occurrence"
	}
	return fmt.Sprint(n, " occurrences")
}

// taken says how many ids of a backfill were in use.
func taken(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 id is in use, and left as it is"
	}
	return fmt.Sprintf("; %d ids are in use, and left as they are", n)
}

package console

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// backfillAct makes the occurrences of a schedule between two times in the past: it asks first, with how many there are. The question has
// the time up to which they are made, so that none comes in between.
var backfillAct = act{path: schedulePage.path, name: "backfill a schedule", form: &schedulePage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, name := v.r.PathValue("topic"), v.r.PathValue("name")
	from, to := v.typed("from"), v.typed("to")
	if to == "" {
		now, err := c.store.Now(ctx)
		if err != nil {
			return "", 0, err
		}
		to = now.UTC().Format(time.RFC3339Nano)
	}
	backfill := func(dryRun bool) (calls.Backfilled, error) {
		return ask[calls.Backfilled](ctx, c, v, "backfillSchedule", "topic", topic, "name", name, "from", from, "to", to, "dry_run", strconv.FormatBool(dryRun))
	}
	would, err := backfill(true)
	switch {
	case err != nil:
		return "", 0, err
	case would.Made == 0:
		return fmt.Sprintf("There was nothing to make of %s%s", name, taken(would.Taken)), 0, nil
	}
	v.r.PostForm.Set("to", to)
	if err := v.sure("Make %s of %s of %s from %s on and before %s, due at once%s?", plural(would.Made, "occurrence", "occurrences"), name, topic, shownTime(from), shownTime(to), taken(would.Taken)); err != nil {
		return "", 0, err
	}
	done, err := backfill(false)
	c.forgetSchedule(topic, name)
	return fmt.Sprintf("Made %s of %s%s", plural(done.Made, "occurrence", "occurrences"), name, taken(done.Taken)), done.Made, err
}}

// shownTime returns a time that a form has, and a call has read, as pages show it.
func shownTime(text string) string {
	at, _ := fields.ParseTime("", text)
	return moment(at)
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

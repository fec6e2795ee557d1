package httpapi

import (
	"cmp"
	"context"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// How many samples one answer has at most, and if its caller chooses no step, or no time.
const (
	mostSteps  = 1000
	usualSteps = 300
)

type historyInput struct {
	From time.Time     `query:"from" example:"2030-01-02T00:00:00Z" doc:"from then on; missing: an hour before to, or 300 steps if step is given"`
	To   time.Time     `query:"to" example:"2030-01-02T01:00:00Z" doc:"until before that; missing: until now"`
	Step time.Duration `query:"step" shortest:"1s" longest:"168h" example:"1m" doc:"time that a sample covers, at most 1,000 of them; missing: about a 300th of the time asked for"`
}

// span returns the time that is asked for. What is to come has no history.
func (in *historyInput) span(now time.Time) (from, to time.Time) {
	from, to = in.From, in.To
	if to.IsZero() {
		to = now
		if !from.Before(now) {
			to = from.Add(time.Second)
		}
	}
	if from.IsZero() {
		from = to.Add(-min(cmp.Or(in.Step*usualSteps, history.Fine), history.Whole))
	}
	return from, to
}

// history answers with what happened in a span of time.
func (g *Gate) history(ctx context.Context, c *call, in *historyInput) (any, error) {
	if err := c.enterTopic(">"); err != nil {
		return nil, err
	}
	now, err := g.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, to := in.span(now)
	step := cmp.Or(in.Step, stepOf(to.Sub(from)))
	if step < to.Sub(from)/mostSteps {
		return nil, fault.New("step", "step %s: these are more than %d samples; use a longer step, or a shorter time", fault.Short(step), mostSteps)
	}
	samples, err := history.Read(ctx, g.store, from, to)
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return api.HistoryOf(step, history.In(step, samples), missing), nil
}

// steps are those that a plot may have unless its caller chooses one.
var steps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// stepOf returns a step of which a time has at most usualSteps.
func stepOf(span time.Duration) time.Duration {
	for _, step := range steps {
		if span/step <= usualSteps {
			return step
		}
	}
	return span / usualSteps
}

package console

import (
	"context"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// states are those that a search can ask for, in the order of a message's life.
var states = []notify.State{notify.Scheduled, notify.Ready, notify.Blocked, notify.Leased, notify.Dead, notify.Done}

// A stateChoice is a state that a link puts into a question, or takes out of it if it is chosen.
type stateChoice struct {
	choice
	Count *int64 // of its messages; nil: unknown
}

// stateChoices returns the states that a question can be narrowed to. A state takes the place of those that
// the question has. The total is how many messages are in those that it has, where all are counted; 0 otherwise.
func (c *Console) stateChoices(ctx context.Context, v *visit, q find.Query) (all []stateChoice, total int64) {
	chosen, counts := q.States(), c.countsFor(ctx, v, q)
	for _, s := range states {
		next, is := q.In(s), slices.Contains(chosen, s)
		if is {
			next = q.In(slices.DeleteFunc(slices.Clone(chosen), func(other notify.State) bool { return other == s })...)
		}
		one := stateChoice{choice: choice{Name: s.String(), Link: findPath(next.String()), Chosen: is}}
		if n, known := counts[s]; known {
			one.Count = &n
		}
		all = append(all, one)
	}
	return all, totalOf(chosen, counts)
}

// countsFor returns how many messages each state has, of those for which that is known without a search: of
// a question for states alone, or for them in one topic.
func (c *Console) countsFor(ctx context.Context, v *visit, q find.Query) map[notify.State]int64 {
	rest := q.In().String()
	if rest == "" && v.CoversAll() {
		if survey, err := c.snapshots.Survey(ctx); err == nil {
			return map[notify.State]int64{notify.Leased: survey.Leased, notify.Dead: survey.Dead}
		}
		return nil
	}
	topic, of := strings.CutPrefix(rest, "topic:")
	if !of || record.CheckTopic(topic) != nil || !v.Sees(topic) {
		return nil
	}
	counts, err := c.snapshots.Count(ctx, []string{topic})
	if err != nil || len(counts) != 1 {
		return nil
	}
	one := counts[0]
	return map[notify.State]int64{notify.Scheduled: one.Scheduled + one.Broadcasts, notify.Ready: one.Ready, notify.Blocked: one.Blocked, notify.Leased: one.Leased, notify.Dead: one.Dead}
}

package doctor

import (
	"context"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// service is the state of a store's topics.
type service struct {
	notify.Survey
	counts map[string]notify.Counts
}

// ahead returns a context in which most of what the checks of the service read is read already.
func (e *exam) ahead(ctx context.Context) context.Context {
	if founded, err := e.founded(ctx); err != nil || !founded {
		return ctx // to look would found the store
	}
	return store.AheadOfExam(ctx, e.shards, surveyed, pageSize, stuckAfter)
}

// survey returns the topics that need attention, with their counts. Shards that are away
// are left out: that they are is reported by the check of what is reachable.
func (e *exam) survey(ctx context.Context) (s service, err error) {
	if founded, err := e.founded(ctx); err != nil || !founded {
		return s, err // a survey would found the store
	}
	if s.Survey, err = e.inspector.Survey(ctx, surveyed); there(err) != nil {
		return s, err
	}
	var names []string
	for _, n := range append(s.Overdue[:len(s.Overdue):len(s.Overdue)], s.Paused...) {
		names = append(names, n.Topic)
	}
	counts, err := e.inspector.Count(ctx, names...)
	s.counts = make(map[string]notify.Counts, len(counts))
	for _, c := range counts {
		s.counts[c.Topic] = c
	}
	return s, there(err)
}

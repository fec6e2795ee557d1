// Package receivers finds out how far the named listeners are with a broadcast.
package receivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Report says of a broadcast that waits or was sent how far each named listener is with it.
type Report struct {
	Topic     string          `json:"topic" example:"prices"`
	ID        string          `json:"id" example:"sale-7"`
	State     string          `json:"state" enum:"scheduled,sent" doc:"scheduled: it is not due yet, so nobody has it"`
	Due       time.Time       `json:"due" doc:"when it is or was due"`
	Sent      time.Time       `json:"sent,omitzero" doc:"when it was sent, by the clock of Redis"`
	Position  notify.Position `json:"position,omitempty" doc:"its place among all broadcasts, if it was sent"`
	Listeners []Receiver      `json:"listeners" nullable:"false" doc:"the named listeners that get it, by name: not those that began later, and not listeners without a name"`
}

// A Receiver is a named listener that gets the broadcast, and how far it is with it.
type Receiver struct {
	Name    string    `json:"name" example:"billing"`
	Pattern string    `json:"pattern" example:"prices.*" doc:"topics whose broadcasts it gets"`
	State   string    `json:"state" enum:"waiting,leased,done" doc:"waiting: it lacks it still; leased: a process of it has it; done: it was handled, or given up"`
	Worker  string    `json:"worker,omitempty" example:"shop-1" doc:"name of the worker that has it, if leased; missing: unknown"`
	Until   time.Time `json:"until,omitzero" doc:"end of the lease, if leased"`
}

// The states of a broadcast, and of a listener with it.
const (
	Scheduled = "scheduled"
	Sent      = "sent"
	Waiting   = "waiting"
	Leased    = "leased"
	Done      = "done"
)

// Look returns the last broadcast of an id of a topic. While the log is long it may take a
// second. Errors: a notify.ErrNotFound if it neither waits nor is in the log any more, a
// notify.ErrInvalid, or that of the connection.
func Look(ctx context.Context, s *notify.Store, topic, id string) (Report, error) {
	b := Report{Topic: topic, ID: id, State: Sent, Listeners: []Receiver{}}
	if err := errors.Join(store.CheckStore(s), record.CheckTopic(topic), record.CheckID(id)); err != nil {
		return b, err
	}
	shard := s.Of(topic)
	at, due, err := shard.Sent(ctx, topic, id)
	if err != nil {
		return b, fmt.Errorf("look for a broadcast: %w", err)
	}
	switch b.Due = due.UTC(); {
	case at == 0 && due.IsZero():
		return b, fmt.Errorf("%w: no broadcast %s of %s waits, or is in the log still", notify.ErrNotFound, id, topic)
	case at == 0:
		b.State = Scheduled
		return b, nil
	}
	b.Sent, b.Position = at.Time().UTC(), at
	b.Listeners, err = listeners(ctx, s, topic, at)
	return b, err
}

// listeners returns how far the named listeners are with the broadcast at a position.
func listeners(ctx context.Context, s *notify.Store, topic string, at notify.Position) ([]Receiver, error) {
	shard := s.Of(topic)
	all, err := s.Home().Listeners(ctx)
	if err != nil {
		return nil, err
	}
	registered, err := shard.Listeners(ctx) // those to which the shard handed out something: they begin where it says
	if err != nil {
		return nil, err
	}
	here := make(map[string]store.Listener, len(registered))
	for _, l := range registered {
		here[l.Name] = l
	}
	got := []Receiver{}
	var names []string
	var starts []notify.Position
	for _, l := range all {
		if own, there := here[l.Name]; there {
			l = own
		}
		if p, err := notify.ParsePattern(l.Pattern); err == nil && p.Match(topic) && l.Start < at {
			got = append(got, Receiver{Name: l.Name, Pattern: l.Pattern, State: Done})
			names, starts = append(names, l.Name), append(starts, l.Start)
		}
	}
	receipts, err := shard.Receipts(ctx, topic, at, names)
	if err != nil {
		return nil, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	for i, r := range receipts {
		switch {
		case r.Leased && r.Until.After(now):
			got[i].State, got[i].Worker, got[i].Until = Leased, r.Worker, r.Until.UTC()
		case r.Leased, max(r.Place, starts[i]) < at:
			got[i].State = Waiting
		}
	}
	slices.SortFunc(got, func(a, b Receiver) int { return cmp.Compare(a.Name, b.Name) })
	return got, nil
}

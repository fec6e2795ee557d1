package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// MaxListeners is the most listeners of a page, and DefaultListeners how many it has unless the
// request says else.
const (
	MaxListeners     = 500
	DefaultListeners = 100
)

// AskListeners says which named listeners to list.
type AskListeners struct {
	Topic  string `json:"topic"`  // only those that get its broadcasts; empty: all
	Limit  int    `json:"limit"`  // most listeners of the answer
	Cursor string `json:"cursor"` // of the answer before; empty: from the beginning
}

// Listeners is a page of named listeners.
type Listeners struct {
	Listeners []notify.ListenerInfo `json:"listeners" nullable:"false" doc:"sorted by name"`
	Cursor    string                `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
	Missing
}

// ListListeners returns a page of the named listeners, of those whose patterns show permits;
// a nil show permits all. Only those of the page are measured. Errors: a Fault, or that of the
// connection.
func ListListeners(ctx context.Context, i *notify.Inspector, ask AskListeners, show func(notify.Pattern) bool) (Listeners, error) {
	if ask.Topic != "" {
		if err := record.CheckAnyTopic(ask.Topic); err != nil {
			return Listeners{}, err
		}
	}
	if ask.Cursor != "" {
		if err := record.CheckListener(ask.Cursor); err != nil {
			return Listeners{}, fault.New("cursor", "cursor %.200q: give the cursor of the answer before, or none", ask.Cursor)
		}
	}
	if err := fault.Within("limit", "limit", ask.Limit, 1, MaxListeners); err != nil {
		return Listeners{}, err
	}
	var page []string
	more := false
	all, err := i.Listeners(ctx, func(name, pattern string) bool {
		p, err := notify.ParsePattern(pattern)
		if more || err != nil || name <= ask.Cursor || show != nil && !show(p) || ask.Topic != "" && !p.Match(ask.Topic) {
			return false
		}
		if more = len(page) == ask.Limit; more {
			return false
		}
		page = append(page, name)
		return true
	})
	missing, err := MissingOf(err)
	if err != nil {
		return Listeners{}, err
	}
	l := Listeners{Listeners: all, Missing: missing}
	if more {
		l.Cursor = page[len(page)-1]
	}
	return l, nil
}

// First returns a page with the first n listeners, of which there are more.
func (l Listeners) First(n int) Listeners {
	l.Listeners = l.Listeners[:n]
	l.Cursor = l.Listeners[n-1].Name
	return l
}

// WithoutWorkers returns listeners without the names of the workers that listen or hold.
func (l Listeners) WithoutWorkers() Listeners {
	l.Listeners = slices.Clone(l.Listeners)
	for i := range l.Listeners {
		l.Listeners[i].By, l.Listeners[i].HeldBy = nil, nil
	}
	return l
}

// WhoListens returns who listens under a name, for people: each worker that does or that holds
// broadcasts, with how many it holds.
func WhoListens(n notify.ListenerInfo) string {
	workers := slices.Clone(n.By)
	held := make(map[string]int64)
	for _, o := range n.HeldBy {
		held[o.Worker] = o.Held
		workers = append(workers, o.Worker) // it may have stopped, or just come
	}
	slices.Sort(workers)
	workers = slices.Compact(workers)
	for i, worker := range workers {
		if held[worker] > 0 {
			workers[i] = fmt.Sprintf("%s (%d held)", worker, held[worker])
		}
	}
	switch {
	case len(workers) > 0:
		return strings.Join(workers, ", ")
	case n.Active:
		return "somebody" // who just came, or may not be named
	}
	return "nobody"
}

package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify"
)

// Listeners is a page of named listeners.
type Listeners struct {
	Listeners []notify.ListenerInfo `json:"listeners" nullable:"false" doc:"sorted by name"`
	Cursor    string                `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
	Missing
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

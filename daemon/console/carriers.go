package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/snapshots"
	"github.com/bellhopd/bellhop/notify/store"
)

var carriersPage = page{
	path: Root + "carriers", title: "Carriers and Redis", nav: "carriers", name: "carriers", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.carriers(ctx, v) },
}

// carriersView is what the page of carriers, workers and Redis shows.
type carriersView struct {
	*visit
	Now      time.Time
	Office   snapshots.Office
	Standbys map[int]int64      // by shard, where they are known
	Workers  []worker           // nil: not for this viewer
	Away     *pageFault         // in place of workers that could not be read
	MoreThan int                // workers that are not shown
	Servers  []snapshots.Server // nil: not for this viewer
	Fault    string             // why nothing is known of the servers
	Doctor   findings           // for who sees the servers
	Wrong    []wrong            // of those
}

// Fallback returns how many carriers stand by for a shard, as text.
func (view *carriersView) Fallback(shard int) string {
	n, known := view.Standbys[shard]
	switch {
	case !known:
		return "unknown"
	case n == 0:
		return "none"
	}
	return grouped(n)
}

// A worker is a daemon, a worker or a listener that is there.
type worker struct {
	calls.Worker
	Shown string // topics, as many as there is room for
	More  int    // topics that are not shown
}

const (
	workersEvery = 5 * time.Second
	mostWorkers  = 200 // on the page
	mostTopics   = 5   // of a worker
)

// carriers returns what the page shows. The error may be a MissingError.
func (c *Console) carriers(ctx context.Context, v *visit) (any, error) {
	terms, missing := c.snapshots.Officers(ctx)
	if missing != nil && !store.IsPartial(missing) {
		return nil, missing
	}
	survey, err := c.snapshots.Survey(ctx) // it is as late as all that the page shows
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	view := &carriersView{visit: v, Now: survey.Now, Office: snapshots.OfficeOf(terms), Standbys: c.snapshots.Standbys(ctx)}
	if v.Can("workers") {
		there, err := c.caches.workers.Get(ctx, cache.Keep{Age: workersEvery}, c.attended)
		if err != nil {
			view.Away = c.faultFor(v.Viewer, err)
		} else {
			view.setWorkers(there)
		}
	}
	if v.SeesStore() {
		if view.Servers, err = c.snapshots.Servers(ctx); err != nil {
			view.Fault = err.Error()
		}
		view.Doctor = c.doctor.findings(ctx)
		for _, f := range view.Doctor.Wrong {
			view.Wrong = append(view.Wrong, wrongOf(v, f))
		}
	}
	return view, missing
}

func (c *Console) attended(ctx context.Context) (there attended, err error) {
	if there.workers, err = c.inspector.Workers(ctx); err == nil {
		there.hand, err = store.InHandOf(ctx, c.store)
	}
	return there, err
}

// setWorkers shows the workers of the topics that the viewer sees: daemons first, by name.
func (view *carriersView) setWorkers(there attended) {
	show := view.SeesPattern // a listener is there for patterns
	if view.CoversAll() {
		show = nil
	}
	list := calls.WorkersOf(there.workers, there.hand, show)
	view.Workers = []worker{}
	for _, one := range list.Workers {
		w := worker{Worker: one, More: max(0, len(one.Topics)-mostTopics)}
		w.Shown = strings.Join(one.Topics[:len(one.Topics)-w.More], ", ")
		view.Workers = append(view.Workers, w)
	}
	slices.SortStableFunc(view.Workers, func(a, b worker) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	view.MoreThan = max(0, len(view.Workers)-mostWorkers)
	view.Workers = view.Workers[:len(view.Workers)-view.MoreThan]
}

// rank returns the place of a kind of worker in the list.
func rank(kind string) int { return slices.Index([]string{"daemon", "worker", "listener"}, kind) }

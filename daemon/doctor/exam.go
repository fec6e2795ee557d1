package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Options are the options of Run and Repair. The zero value runs all checks.
type Options struct {
	Quick bool // Run leaves out Contents, which reads all keys and takes half a minute for a million messages

	// Defaults are the topic settings in the configuration, for topics without settings of their own.
	Defaults notify.SettingsChange

	// WaitReplicas is that of the configuration, from which Run takes it itself.
	WaitReplicas int

	// Archive are the options of the archive in the configuration; without a URL there is none.
	Archive archive.Options

	// Outboxes are the options of those in the configuration.
	Outboxes []outbox.Options

	// NATS are the options of the gateway to NATS in the configuration; without a URL there is none.
	NATS natsgate.Options

	// OnProgress, if not nil, is called while Contents runs with the number of items
	// examined and about how many there are in all, or 0 while that is unknown. It
	// must not block.
	OnProgress func(examined, all int)
}

// exam is one examination.
type exam struct {
	store       *notify.Store
	inspector   *notify.Inspector
	o           Options
	shards      []store.Shard
	sites       []string         // addresses of their servers; nil: there is one shard
	servers     []*server        // that answer
	away        bool             // others do not
	isFounded   bool             // there is a store
	looks       []*look          // for the carriers of the shards
	known       *pushes          // nil: not read yet
	undelivered []notify.Pattern // topics that are pushed to NATS, which is away
	on          func(Finding)
	worst       Verdict
}

// A server is a master that holds shards.
type server struct {
	name  string      // its address
	shard store.Shard // one that it holds
	info  map[string]string
	trial bool // the in-memory Redis of bellhop dev
	took  time.Duration
	full  bool // the check of memory failed
	found []Finding
}

// pushes are those of the store, or why they cannot be read.
type pushes struct {
	all []store.Push
	err error
}

const (
	named    = 5   // topics or listeners named by a check
	surveyed = 100 // topics examined by a check
)

func (e *exam) report(check string, v Verdict, found, remedy string) {
	e.add(Finding{Check: check, Verdict: v, Found: found, Remedy: remedy})
}

func (e *exam) add(f Finding) {
	e.worst = max(e.worst, f.Verdict)
	e.on(f)
}

// warn reports a warning about one topic or listener.
func (e *exam) warn(name, check, found, remedy string) {
	e.add(Finding{Check: check, Verdict: Warn, Found: found, Remedy: remedy, Name: name})
}

// mend is warn of what an act mends, which the finding names beside its subject.
func (e *exam) mend(f Finding, found, remedy string) {
	f.Verdict, f.Found, f.Remedy = Warn, found, remedy
	e.add(f)
}

// reportRest reports how many there are beside those that were named, or that all is fine where there are none. Beyond a full list there
// may be more.
func (e *exam) reportRest(check string, rows, listed int, noun, remedy, fine string) {
	switch {
	case rows == 0:
		e.report(check, OK, fine, "")
	case rows > named:
		more := plural(rows-named, "more "+noun)
		if listed == surveyed {
			more += ", or still others"
		}
		e.report(check, Warn, "and "+more, remedy)
	}
}

// report notes what a check found of a server.
func (s *server) report(check string, v Verdict, found, remedy string) {
	s.found = append(s.found, Finding{Check: check, Verdict: v, Found: found, Remedy: remedy})
}

// onEach makes a check of each server, and reports what it found once, with the
// addresses of the servers unless all are equal.
func (e *exam) onEach(check func(*server)) {
	for _, s := range e.servers {
		s.found = nil
		check(s)
	}
	for left := slices.Clone(e.servers); len(left) > 0; {
		found := left[0].found
		isEqual := func(s *server) bool { return slices.Equal(s.found, found) }
		var names []string
		for _, s := range left {
			if isEqual(s) {
				names = append(names, s.name)
			}
		}
		on := ""
		if len(names) < len(e.servers) {
			on = strings.Join(names, ", ") + ": "
		}
		for _, f := range found {
			f.Found = on + f.Found
			e.add(f)
		}
		left = slices.DeleteFunc(left, isEqual)
	}
}

// founded reports whether there is a store: most further reads would found one.
func (e *exam) founded(ctx context.Context) (is bool, err error) {
	if !e.isFounded {
		e.isFounded, err = e.store.Founded(ctx)
	}
	return e.isFounded, err
}

// allPushes returns the pushes of a store that is there.
func (e *exam) allPushes(ctx context.Context) ([]store.Push, error) {
	if e.known == nil {
		e.known = &pushes{}
		e.known.all, e.known.err = e.store.Home().Pushes(ctx)
	}
	return e.known.all, e.known.err
}

// there returns no error for shards that are away while others answered, and any other
// error as it is.
func there(err error) error {
	if store.IsPartial(err) {
		return nil
	}
	return err
}

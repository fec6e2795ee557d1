package subscribers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// The kinds of workers.
const (
	kindWorker   = "worker"
	kindListener = "listener"
	kindDaemon   = "daemon"
)

// fillName checks the name of a worker, or makes it HOST-PID.
func fillName(name *string) error {
	if *name == "" {
		*name = hostAndPID()
	}
	return record.CheckWorker("name", *name)
}

// fillKind checks the kind of a worker, or makes it a worker.
func fillKind(kind *string) error {
	switch *kind {
	case "":
		*kind = kindWorker
	case kindWorker, kindDaemon:
	default:
		return fault.New("kind", "kind %.100q: use worker or daemon", *kind)
	}
	return nil
}

// host returns the name of this machine, without signs that no worker's name has.
func host() string {
	name, _ := os.Hostname() // where there is none, only the process is named
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
}

// hostAndPID returns the name of a worker that has no other.
func hostAndPID() string {
	name, pid := host(), fmt.Sprintf("-%d", os.Getpid())
	return name[:min(len(name), record.MaxWorkerName-len(pid))] + pid
}

const arriveFor = 3 * time.Second // a call that notes a worker is waited for

var departFor = 500 * time.Millisecond // one that forgets it, when it stops; tests wait for longer

// mostTopics is how many topics the entry of a worker names, and how many names under which it listens.
const mostTopics = 100

// A duty is what a worker is there for.
type duty struct {
	topics, names []string       // sorted
	callers       []store.Caller // by name
}

// cut returns as much of a duty as an entry names.
func (d duty) cut() duty {
	return duty{d.topics[:min(len(d.topics), mostTopics)], d.names[:min(len(d.names), mostTopics)], d.callers}
}

// is reports whether a duty is another one.
func (d duty) is(other duty) bool {
	return slices.Equal(d.topics, other.topics) && slices.Equal(d.names, other.names) &&
		slices.EqualFunc(d.callers, other.callers, func(a, b store.Caller) bool {
			return a.Name == b.Name && a.Since.Equal(b.Since) && slices.Equal(a.Topics, b.Topics)
		})
}

// A presence keeps the entry of a subscription among the workers. It makes a call when
// the connection is new, when another carrier was elected or another store founded, since
// Redis may have lost the entry, and with the next beat when the topics changed, or a call
// failed: none at rest. The workers are in home, so only what that shard says counts.
type presence struct {
	store  *notify.Store
	worker store.Worker
	duty   func() duty // that it has now

	calls sync.WaitGroup

	mu     sync.Mutex
	up     bool  // the subscription
	noted  bool  // the entry is there, as far as is known,
	as     duty  // with this duty
	asking bool  // a call is under way
	denied bool  // Redis refuses such calls: none is made before the next connection
	at     reign // when it was noted
	heard  reign // of the last beat, which brings about one call, whatever the call returns
}

// A reign is an election in a store.
type reign struct {
	epoch int64
	store string // its id
}

// newPresence returns the presence of a worker.
func newPresence(s *notify.Store, w store.Worker, duty func() duty) *presence {
	w.ID, w.Host = notify.NewID(), host()
	return &presence{store: s, worker: w, duty: duty}
}

// channel returns the channel of which the subscription says that the worker is there.
func (p *presence) channel() reach.Channel { return p.store.Home().HereChannel(p.worker.ID) }

// isFor reports whether an event is one of that channel: a message to stop.
func (p *presence) isFor(e store.Event) bool {
	return e.Shard() == p.store.Home() && e.IsHere(p.worker.ID)
}

// note takes an event of the subscription. It does not block.
func (p *presence) note(ctx context.Context, e store.Event) {
	if e.Shard() != p.store.Home() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case reach.Subscribed:
		p.up, p.noted, p.denied = true, false, false
	case reach.Silent, reach.Broken:
		p.up = false
	case reach.Beat:
		now := reign{e.Epoch(), e.StoreID()}
		same := now == p.at || now == p.heard || now.epoch == 0 // else another program sent it
		p.heard = now
		p.noted = p.noted && same && p.as.is(p.duty().cut())
	}
	if p.up && !p.noted && !p.asking && !p.denied {
		p.asking = true
		p.calls.Go(func() { p.arrive(ctx) })
	}
}

// arrive notes the worker.
func (p *presence) arrive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, arriveFor)
	defer cancel()
	p.mu.Lock()
	p.noted, p.as = true, p.duty().cut() // unless the connection is renewed meanwhile
	w := p.worker
	w.Topics, w.Names, w.Callers = p.as.topics, p.as.names, p.as.callers
	p.mu.Unlock()
	id, epoch, err := p.store.Home().Arrive(ctx, w)
	p.mu.Lock()
	defer p.mu.Unlock()
	var rights *reach.RightsError
	p.asking, p.denied = false, errors.As(err, &rights)
	if p.noted = p.noted && err == nil; err == nil {
		p.at = reign{epoch, id}
	}
}

// end waits for the call that is under way, and forgets the worker.
func (p *presence) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), departFor)
	defer cancel()
	p.calls.Wait()
	p.mu.Lock()
	up := p.up
	p.mu.Unlock()
	if up {
		_ = p.store.Home().Depart(ctx, p.worker.ID) // else the housekeeping does
	}
}

package faults_test

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// patterns are what the processes of a role listen to without a name.
var patterns = map[string][]string{"listener": {"news.a", "news.*"}, "web": {"news.*"}}

// shared is the name that they share.
const shared = "desk"

// namedConcurrency is the concurrency of a process of that name.
const namedConcurrency = 4

// fence begins the ids of the last broadcasts of a round.
const fence = "fence"

// listen listens, with and without a name, until ctx ends.
func (a *actor) listen(ctx context.Context) error {
	l, err := subscribers.NewListener(a.store, subscribers.ListenerOptions{Grace: 2 * lease, Logger: logger()})
	if err != nil {
		return err
	}
	dice := newDice(a.random)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all, started sync.WaitGroup
	run := func(f func() error) {
		started.Add(1)
		all.Go(func() {
			if err := f(); err != nil {
				fail(err)
			}
		})
	}
	for _, pattern := range patterns["listener"] {
		run(func() error { return a.listenTo(ctx, l, pattern, started.Done) })
	}
	run(func() error { return a.listenAs(ctx, l, dice, started.Done) })
	started.Wait()
	say("ready")
	all.Wait()
	if cause := context.Cause(ctx); cause != context.Canceled { //nolint:errorlint // a failed listener
		return cause
	}
	return nil
}

// listenTo listens without a name. After a restart it resumes after the last broadcast that it received.
func (a *actor) listenTo(ctx context.Context, l *subscribers.Listener, pattern string, started func()) error {
	name := a.name + "/" + pattern
	from := subscribers.FromNow()
	last, err := a.lastReceived(name)
	if err != nil {
		return err
	}
	if last != "" {
		from = subscribers.After(last)
	}
	return l.Listen(ctx, pattern, func(_ context.Context, b *subscribers.Broadcast) error {
		a.received(name, b, b.Bookmark(), "")
		return nil
	}, subscribers.ListenOptions{
		From: from,
		OnStart: func(at subscribers.Bookmark) {
			a.Event(standing(history.Record{Op: history.Listen, Listener: name, Pattern: pattern}, at))
			started()
		},
		OnGap: func(g subscribers.Gap) { a.missed(name, "", g) },
	})
}

// received records a broadcast for a listener without a name, which gets it from target if
// it does not read the log itself.
func (a *actor) received(listener string, b *subscribers.Broadcast, at subscribers.Bookmark, target string) {
	a.receives(listener, "", b, at, target).End(history.OK, history.Record{})
	if strings.HasPrefix(b.ID, fence) {
		say(listener + " " + b.ID)
	}
}

// standing sets where the listener of a record stands.
func standing(r history.Record, at subscribers.Bookmark) history.Record {
	if strings.Contains(string(at), ".") {
		r.Bookmark = string(at)
	} else if r.Position == 0 {
		r.Position = int64(at.Position())
	}
	return r
}

// lastReceived returns where a listener stood last in all its lives; empty if it never began.
func (a *actor) lastReceived(name string) (last subscribers.Bookmark, err error) {
	paths, err := filepath.Glob(filepath.Join(a.dir, a.name+".*"+history.Suffix))
	if err != nil {
		return "", err
	}
	at := int64(0) // of the last record
	for _, path := range paths {
		records, err := history.ReadFile(path)
		if err != nil {
			return "", err
		}
		for _, r := range records {
			if r.Listener == name && (r.Op == history.Receive && r.Phase == history.Call || r.Op == history.Listen) && r.At >= at {
				at, last = r.At, subscribers.Bookmark(cmp.Or(r.Bookmark, notify.Position(r.Position).String()))
			}
		}
	}
	return last, nil
}

// listenAs listens under the shared name.
func (a *actor) listenAs(ctx context.Context, l *subscribers.Listener, dice *dice, started func()) error {
	name := a.name + "/" + shared
	return l.Listen(ctx, "news.>", func(ctx context.Context, b *subscribers.Broadcast) (err error) {
		op := a.receives(name, shared, b, b.Bookmark(), "")
		rest(ctx, time.Duration(dice.roll(5))*time.Millisecond)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
			op.End(history.Unknown, history.Record{Error: text(err)})
		case dice.roll(20) == 0:
			err = errNotThisTime
			op.End(history.No, history.Record{Error: text(err)})
		default:
			op.End(history.OK, history.Record{})
		}
		return err
	}, subscribers.ListenOptions{
		Name: shared, Concurrency: namedConcurrency, Lease: lease, BackoffMin: quickest, BackoffMax: slowest, MaxAttempts: 1000,
		OnStart: func(at subscribers.Bookmark) {
			a.Event(standing(history.Record{Op: history.Listen, Listener: name, Name: shared, Pattern: "news.>", Count: namedConcurrency}, at))
			started()
		},
		OnGap: func(g subscribers.Gap) { a.missed(name, shared, g) },
	})
}

// receives records that a listener gets a broadcast, and where it stands then.
func (a *actor) receives(listener, name string, b *subscribers.Broadcast, at subscribers.Bookmark, target string) *history.Operation {
	return a.Call(standing(history.Record{
		Op: history.Receive, Listener: listener, Name: name, Topic: b.Topic, ID: b.ID,
		Position: int64(b.Position), Due: b.Due.UnixMilli(), Attempt: b.Attempt, Target: target,
	}, at))
}

// missed records a gap of a listener.
func (a *actor) missed(listener, name string, g subscribers.Gap) {
	a.Event(history.Record{Op: history.Gap, Listener: listener, Name: name, Topic: g.Topic, Was: int64(g.After), Position: int64(g.UpTo)})
}

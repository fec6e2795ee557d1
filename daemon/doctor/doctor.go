// Package doctor examines a Redis and the service on it: whether Redis keeps
// messages safely, whether this user may do all that Bellhop does, whether a
// carrier is alive, whether workers or listeners are missing, whether schedules fire, and whether anything
// in the store is out of place. Each finding names a remedy.
package doctor

import (
	"context"
	"errors"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// Run examines the Redis that c names and the service on it, calls on with each
// finding at once, and returns the worst verdict. The check of the contents comes
// last. Run changes nothing but that it loads the functions of its version, where its user may: it tries rights
// under a prefix of its own, and removes that afterwards. The error is that of a configuration that cannot be used, or of
// ctx: on has then been called with the findings so far.
func Run(ctx context.Context, c notify.Config, o Options, on func(Finding)) (Verdict, error) {
	db, err := open(ctx, c)
	if err != nil {
		return Fail, err
	}
	defer db.Close()
	o.WaitReplicas = c.WaitReplicas
	e, err := newExam(ctx, db, o, on)
	if err != nil {
		return Fail, err
	}
	fit := e.look(ctx, func(waitReplicas int, fit bool) {
		c.WaitReplicas = waitReplicas
		switch {
		case !fit:
			e.report("rights", Warn, "not tried on an unfit Redis", "fix what failed above, then run bellhop doctor again")
		case e.away:
			e.report("rights", Warn, "not tried while a server is away", "have it answer, then run bellhop doctor again")
		default:
			e.rights(ctx, c)
			e.onEach(func(s *server) { s.functions(ctx, e.store.Rights()) })
		}
	})
	if fit && !o.Quick && ctx.Err() == nil {
		e.contents(ctx, false)
	}
	return e.worst, ctx.Err()
}

// Look is a quick Run on an open store, without the checks of rights and of rings, so that it
// writes nothing. It waits for the beat of each carrier, for a second if all is well, unless this process has just heard that. The error
// is that of ctx, or a notify.Fault for a nil store; the findings so far are beside it.
func Look(ctx context.Context, db *notify.Store, o Options) ([]Finding, error) {
	o.Quick = true
	var all []Finding
	e, err := newExam(ctx, db, o, func(f Finding) { all = append(all, f) })
	if err != nil {
		return nil, err
	}
	e.look(ctx, func(int, bool) {})
	return all, ctx.Err()
}

// open opens a store. If its user may not read how many shards it has, or the server is not
// the one to ask, it is taken for one of one shard: a check then says what is wrong.
func open(ctx context.Context, c notify.Config) (*notify.Store, error) {
	db, err := notify.Open(c)
	if err != nil {
		return nil, err
	}
	if err := db.Learn(ctx); !reach.Refused(err) && !reach.Moved(err) {
		return db, nil
	}
	_ = db.Close() // it wrote nothing
	c.Shards = 1
	return notify.Open(c)
}

// newExam returns an examination of a store. It reads nothing yet.
func newExam(ctx context.Context, db *notify.Store, o Options, on func(Finding)) (*exam, error) {
	inspector, err := notify.NewInspector(db)
	return &exam{store: db, inspector: inspector, o: o, worst: OK, on: func(f Finding) {
		if ctx.Err() == nil || f.Check == Contents { // else the check was cut short
			on(f)
		}
	}}, err
}

// look makes the checks that only read, and calls tries where those belong that try what this
// user may do: with the number of replicas there are to wait for, and whether this Redis may hold
// messages. It reports whether that is so.
func (e *exam) look(ctx context.Context, tries func(waitReplicas int, fit bool)) (fit bool) {
	if !e.reach(ctx) {
		return false
	}
	e.onEach((*server).version)
	e.onEach(func(s *server) { s.cluster(e.store.InCluster()) })
	e.spread(ctx)
	e.onEach(func(s *server) { s.persistence(ctx) })
	e.onEach((*server).eviction)
	e.onEach(func(s *server) { s.memory(e.store.MemoryOf(s.info)) })
	e.format(ctx)
	waited := e.o.WaitReplicas
	e.onEach(func(s *server) { waited = min(waited, s.replicas(e.o.WaitReplicas)) })
	fit = e.worst < Fail || e.fit(ctx)
	tries(waited, fit)
	e.clock(ctx)
	e.carrier(ctx)
	e.nats(ctx)
	if fit {
		ctx = e.ahead(ctx)
		e.service(ctx)
		e.archive(ctx)
		e.outboxes(ctx)
	}
	return fit
}

// fit reports whether this Redis may hold messages. Missing persistence or a
// missing right does not make it unfit.
func (e *exam) fit(ctx context.Context) bool { return !errors.Is(e.store.Check(ctx), notify.ErrUnfit) }

package archive

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// batch is how many rows are inserted at a time.
const batch = 500

// Term moves the stream of endings of a shard into the database until ctx ends: it runs while this
// process's carrier is elected for the shard, and is made for carrier.Options.OnTerm. It
// registers the archive in Redis first, so that nothing is missed while the database is
// away. At rest it makes no call: the stream of endings rings when it is no longer empty. It logs when
// the database cannot be used and when it can be again. Terms of several shards run side
// by side.
func (a *Archive) Term(ctx context.Context, elected carrier.Term) {
	t := &term{Archive: a, shard: elected.Shard, news: make(chan struct{}, 1)}
	defer a.unread.Forget(t.shard.Number())
	defer a.trouble.Forget(t.shard.Number())
	defer a.writers.begin()()
	defer a.away.note(t.shard.Number(), false) // for another process that archives
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { a.store.Subscribe(ctx, t.hear, t.shard.EndingsChannel()) })
	for pause := (backoff.Pause{}); ctx.Err() == nil; {
		err := t.move(ctx)
		switch {
		case errors.Is(err, errOtherStore):
			continue
		case err != nil && ctx.Err() == nil:
			t.note(err)
			pause.Wait(ctx)
			continue
		}
		t.note(nil)
		pause.Reset()
		select {
		case <-t.news:
		case <-ctx.Done():
		}
	}
}

// A term is a run of Term.
type term struct {
	*Archive
	shard store.Shard
	news  chan struct{} // a signal; it holds one

	mu      sync.Mutex
	storeID string // in which the archive is registered; empty: in none
}

// note logs why the stream of endings cannot be moved, and that it can be again. A shard that is away
// does not hide that the database is.
func (t *term) note(err error) {
	shard, away := t.shard.Number(), (*reach.ServerError)(nil)
	if errors.As(err, &away) {
		t.unread.Begin(shard, "error", err)
		return
	}
	t.unread.End(shard)
	if err != nil {
		t.trouble.Begin(shard, "error", err)
	} else {
		t.trouble.End(shard)
	}
}

// hear takes an event of the subscription. A beat is news if it names another store: Redis
// lost the one in which the archive is registered.
func (t *term) hear(e store.Event) {
	switch e.Kind {
	case reach.Beat:
		if e.StoreID() == t.registered() {
			return
		}
	case reach.Subscribed, reach.Received:
	default:
		return
	}
	reach.Signal(t.news)
}

func (t *term) registered() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.storeID
}

// errOtherStore is the error of a Redis that lost all that it held, and the registration
// of the archive with it.
var errOtherStore = errors.New("redis holds another store")

// move moves the stream of endings into the database until it is empty.
func (t *term) move(ctx context.Context) error {
	if err := t.register(ctx); err != nil {
		return err
	}
	w, err := t.writers.take(ctx, t.Archive)
	if err != nil {
		return err
	}
	defer t.writers.give(w)
	err = t.noted(ctx, w.connect(ctx))
	for more := true; more && err == nil; {
		more, err = t.moveSome(ctx, w)
	}
	return err
}

// noted counts an error of the database, and returns it.
func (t *term) noted(ctx context.Context, err error) error {
	if ctx.Err() != nil { // which may be why
		return err
	}
	t.away.note(t.shard.Number(), err != nil)
	if err != nil {
		t.failed.Add(1)
	}
	return err
}

// register registers the archive, unless it is registered in this store.
func (t *term) register(ctx context.Context) error {
	id, err := t.shard.StoreID(ctx)
	if err != nil || id == t.registered() {
		return err
	}
	if err := t.shard.OpenArchive(ctx, t.o.Room); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.storeID = id // of one that was lost meanwhile no beat will come
	return nil
}

// moveSome moves a batch, and reports whether there may be more.
func (t *term) moveSome(ctx context.Context, w *writer) (more bool, err error) {
	ended, err := t.shard.Endings(ctx, batch)
	ended = slices.DeleteFunc(ended, func(e store.Ending) bool { return e.Entry == "" }) // unreadable: it goes with the next
	if err != nil || len(ended) == 0 {
		return false, err
	}
	id, err := t.shard.StoreID(ctx)
	switch {
	case err != nil:
		return false, err
	case id != t.registered(): // the entries may be of either store, and their keys name it
		return false, errOtherStore
	}
	if err := t.noted(ctx, w.write(ctx, id, ended)); err != nil {
		return false, err
	}
	return true, t.shard.Archived(ctx, ended[len(ended)-1].Entry)
}

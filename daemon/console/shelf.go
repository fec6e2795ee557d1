package console

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
)

// shelves are what pages read of Redis beside snapshots, kept for all viewers.
type shelves struct {
	topics   shelf[topicsPart]
	begun    shelf[[]string] // names of topics that begin with a text
	details  shelf[topicDetail]
	messages shelf[notify.Info]
	pieces   shelf[[]byte]
	past     shelf[[]riverBar]
	deaths   shelf[forecast.Deaths]
	reasons  shelf[[]notify.Reason] // one; an act has it forgotten, and does not wait while it is read

	logs      kept[[]store.LogEnd]
	announced kept[announced]
	listeners kept[[]notify.ListenerInfo]
}

// A keep is how old a value may be, and how long it may take to read; zero: readWithin.
type keep struct{ age, within time.Duration }

// A kept is a value that one viewer reads for all, or why it could not be read.
type kept[T any] struct {
	turn  turn
	value T
	err   error
	at    time.Time
}

// A turn is a mutex that is waited for as long as a context permits. The zero turn is free.
type turn struct {
	once sync.Once
	held chan struct{}
}

// lock waits until it is free.
func (t *turn) lock() { t.free() <- struct{}{} }

// take is lock for at most a time. The error is that of the context.
func (t *turn) take(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case t.free() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) leave() { <-t.held }

// free returns the channel that holds a value while somebody has the turn.
func (t *turn) free() chan struct{} {
	t.once.Do(func() { t.held = make(chan struct{}, 1) })
	return t.held
}

// get returns the value unless it is older than may be; then it is read, while others wait.
func (k *kept[T]) get(ctx context.Context, may keep, read func(context.Context) (T, error)) (T, error) {
	within := cmp.Or(may.within, readWithin)
	if err := k.turn.take(ctx, within); err != nil {
		var none T
		return none, err
	}
	defer k.turn.leave()
	age := may.age
	if k.err != nil {
		age = min(age, rhythm) // what is away may be back
	}
	if time.Since(k.at) < age-rhythm/10 { // viewers do not ask at the same instant
		return k.value, k.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within) // for the others, too
	defer cancel()
	k.value, k.err = read(ctx)
	k.at = time.Now()
	return k.value, k.err
}

// forget has the value read again at its next use.
func (k *kept[T]) forget() {
	k.turn.lock()
	defer k.turn.leave()
	k.at = time.Time{}
}

// Limits of a shelf: what is kept may have bodies.
const (
	mostShelved = 200
	shelvedFor  = quiet // after its last use, while there is room
)

// A shelf keeps values by their names.
type shelf[T any] struct {
	mu sync.Mutex
	of map[string]*shelved[T]
}

// A shelved is a value on a shelf.
type shelved[T any] struct {
	used time.Time // guarded by the mutex of the shelf
	kept[T]
}

// get is get of the value of a name.
func (s *shelf[T]) get(ctx context.Context, name string, may keep, read func(context.Context) (T, error)) (T, error) {
	return s.place(name).get(ctx, may, read)
}

// place returns the place of a name: one that is not kept where the shelf is full.
func (s *shelf[T]) place(name string) *shelved[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k, there := s.of[name]
	if there {
		k.used = now
		return k
	}
	for other, o := range s.of {
		if now.Sub(o.used) > shelvedFor {
			delete(s.of, other)
		}
	}
	k = &shelved[T]{used: now}
	if s.of == nil {
		s.of = make(map[string]*shelved[T])
	}
	if len(s.of) < mostShelved {
		s.of[name] = k
	}
	return k
}

// forget has a value read again at its next use.
func (s *shelf[T]) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, name)
}

// clear has all values read again at their next use.
func (s *shelf[T]) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.of)
}

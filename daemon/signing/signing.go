// Package signing keeps the secret of a store for the gateways of a daemon, which sign with
// it what clients bring back: cookies of the console, and settle tokens of NATS. All
// daemons have the same secret; when it is rotated, they find out by themselves.
package signing

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// How old the secret may be that is known.
const (
	fresh = 5 * time.Second // nearly always: no daemon accepts for longer what was signed before a rotation
	again = time.Second     // for what it did not sign: another daemon may know a newer one
)

// A Secret is the secret of a store. It is read when it is needed, never by itself, and is
// safe for concurrent use.
type Secret struct {
	store *notify.Store

	reading sync.Mutex // held while it is read
	known   atomic.Pointer[reading]
}

// A reading is what reading the secret led to. Where that failed, text is what was known
// before, and err is set if there is none.
type reading struct {
	text []byte
	err  error
	at   time.Time
}

// New returns the secret of a store. It reads nothing yet.
func New(s *notify.Store) *Secret {
	secret := &Secret{store: s}
	secret.known.Store(&reading{})
	return secret
}

// Get returns the secret, to sign with it. While it cannot be read it is the last one
// known. Errors: a store.ErrNoSecret, or that of the connection.
func (s *Secret) Get(ctx context.Context) ([]byte, error) {
	if known := s.known.Load(); known.text != nil {
		if time.Since(known.at) < fresh || !s.reading.TryLock() { // another reads it: Redis may take long
			return known.text, nil
		}
	} else {
		s.reading.Lock()
	}
	defer s.reading.Unlock()
	return s.read(ctx, fresh)
}

// Verify reports whether the secret signed something, as signed says. The secret is read
// again before that is denied. Errors: a store.ErrNoSecret, or that of the connection.
func (s *Secret) Verify(ctx context.Context, signed func(secret []byte) bool) (bool, error) {
	text, err := s.Get(ctx)
	if err != nil || signed(text) {
		return err == nil, err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	text, err = s.read(ctx, again)
	return err == nil && signed(text), err
}

// read returns the secret, read at most so long ago. The caller holds reading.
func (s *Secret) read(ctx context.Context, fresh time.Duration) ([]byte, error) {
	known := s.known.Load()
	if known.err != nil {
		fresh = again
	}
	if time.Since(known.at) < fresh {
		return known.text, known.err
	}
	text, err := s.store.Home().Secret(ctx)
	next := &reading{text: []byte(text), at: time.Now()}
	switch {
	case err != nil && known.text != nil && !errors.Is(err, store.ErrNoSecret):
		next.text = known.text
	case err != nil:
		next.text, next.err = nil, err
	}
	if ctx.Err() == nil { // else the caller gave up, and the next one reads
		s.known.Store(next)
	}
	return next.text, next.err
}

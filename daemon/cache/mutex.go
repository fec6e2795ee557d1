package cache

import (
	"context"
	"sync"
	"time"
)

// A Mutex is one for which a caller may wait as long as a context permits. The zero Mutex is free.
type Mutex struct {
	once sync.Once
	held chan struct{}
}

// Lock waits until the Mutex is free, and locks it.
func (m *Mutex) Lock() { m.holds() <- struct{}{} }

// LockWithin is Lock for at most a time. The error is that of the context.
func (m *Mutex) LockWithin(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case m.holds() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock frees the Mutex, which its caller has locked.
func (m *Mutex) Unlock() { <-m.held }

// holds returns the channel that holds a value while the Mutex is locked.
func (m *Mutex) holds() chan struct{} {
	m.once.Do(func() { m.held = make(chan struct{}, 1) })
	return m.held
}

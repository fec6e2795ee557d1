// Package cache keeps what many ask for: one of them reads it, and the others wait.
package cache

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// ReadWithin is how long reading a value may take, unless Keep says so. Tests give a busy machine more.
var ReadWithin = 2 * time.Second

// retryAfter is when what could not be read is read again.
const retryAfter = time.Second

// slack is how long before its time a value is read again: those who ask in a rhythm do not do so at the same instant.
const slack = 100 * time.Millisecond

// Keep says how old a value may be, but for the slack, and how long reading it may take; zero: ReadWithin.
type Keep struct{ Age, Within time.Duration }

// A Value is a value that is kept, or why it could not be read.
type Value[T any] struct {
	mutex Mutex
	value T
	err   error
	at    time.Time
}

// Get returns the value unless it is older than may be; then it is read, while others wait.
func (v *Value[T]) Get(ctx context.Context, may Keep, read func(context.Context) (T, error)) (T, error) {
	within := cmp.Or(may.Within, ReadWithin)
	if err := v.mutex.LockWithin(ctx, within); err != nil {
		var none T
		return none, err
	}
	defer v.mutex.Unlock()
	age := may.Age
	if v.err != nil {
		age = min(age, retryAfter) // what is away may be back
	}
	if time.Since(v.at) < age-slack {
		return v.value, v.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within) // for the others, too
	defer cancel()
	v.value, v.err = read(ctx)
	v.at = time.Now()
	return v.value, v.err
}

// Forget has the value read again at its next use.
func (v *Value[T]) Forget() {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.at = time.Time{}
}

// Limits of a Map: what is kept may have bodies.
const (
	mostKept = 200
	keptFor  = 15 * time.Second // after its last use, while there is room
)

// A Map keeps values by their names. The zero Map is empty.
type Map[T any] struct {
	mu sync.Mutex
	of map[string]*named[T]
}

// A named is a value in a Map.
type named[T any] struct {
	used time.Time // guarded by the mutex of the Map
	Value[T]
}

// Get is [Value.Get] for the value of a name.
func (m *Map[T]) Get(ctx context.Context, name string, may Keep, read func(context.Context) (T, error)) (T, error) {
	return m.place(name).Get(ctx, may, read)
}

// place returns the value of a name: one that is not kept where the Map is full.
func (m *Map[T]) place(name string) *named[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	v, there := m.of[name]
	if there {
		v.used = now
		return v
	}
	for other, o := range m.of {
		if now.Sub(o.used) > keptFor {
			delete(m.of, other)
		}
	}
	v = &named[T]{used: now}
	if m.of == nil {
		m.of = make(map[string]*named[T])
	}
	if len(m.of) < mostKept {
		m.of[name] = v
	}
	return v
}

// Forget has a value read again at its next use.
func (m *Map[T]) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
}

// Clear has all values read again at their next use.
func (m *Map[T]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.of)
}

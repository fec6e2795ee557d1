// Package budget bounds what handlers have in hand together, also of several topics and listeners.
package budget

import (
	"math"
	"sync"

	"github.com/bellhopd/bellhop/notify"
)

// muchBody is how many bytes of bodies one claim brings, and one body more.
const muchBody = 4 << 20

// A Budget bounds what handlers have in hand together, of any topics and of named listeners: how many messages and broadcasts, and the
// bytes of their bodies. Where it is used up they claim nothing, so that what is there waits in Redis, or goes to another process. What
// one claim brings counts with its size when that is known: so the bytes may be exceeded by one claim, of 4 MiB and one body more.
type Budget struct {
	of            *Budget // of which this one is a part; nil: of none
	pieces, bytes int64   // all that there is

	mu      *sync.Mutex // of all parts
	inHand  int64       // pieces
	size    int64       // of their bodies, in bytes
	waiting map[chan struct{}]bool
}

// New returns a budget of so many messages and broadcasts, and of so many bytes; zero: of any number.
func New(pieces int, bytes int64) *Budget {
	return &Budget{pieces: boundOf(int64(pieces)), bytes: boundOf(bytes), mu: new(sync.Mutex), waiting: make(map[chan struct{}]bool)}
}

func boundOf(n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return n
}

// Part returns a budget that is a part of this one: what it has in hand counts for both.
func (b *Budget) Part(pieces int, bytes int64) *Budget {
	part := New(pieces, bytes)
	part.of, part.mu = b, b.mu
	return part
}

// A Grant is what a budget grants for a claim.
type Grant struct {
	Pieces int
	Bytes  int64
}

// Take grants up to n pieces. If there is room for none, freed is signalled when there may be.
func (b *Budget) Take(n int, freed chan struct{}) Grant {
	if b == nil || n == 0 {
		return Grant{Pieces: n}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for one := b; one != nil; one = one.of {
		if n = min(n, one.room()); n == 0 {
			one.waiting[freed] = true
			return Grant{}
		}
	}
	g := Grant{n, min(int64(n)*notify.DefaultMaxBody, muchBody)}
	b.add(g)
	return g
}

// room returns for how many pieces there is room: for one at the least, if there is none in hand. The mutex is held.
func (b *Budget) room() int {
	left, bytes := b.pieces-b.inHand, b.bytes-b.size
	if bytes < muchBody {
		left = min(left, bytes/notify.DefaultMaxBody)
	}
	if b.inHand == 0 {
		left = max(left, 1)
	}
	return int(max(min(left, math.MaxInt32), 0))
}

// add counts a Grant. The mutex is held.
func (b *Budget) add(g Grant) {
	for one := b; one != nil; one = one.of {
		one.inHand += int64(g.Pieces)
		one.size += g.Bytes
	}
}

// TryOne takes one piece of a size, and reports whether there was room.
func (b *Budget) TryOne(size int) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for one := b; one != nil; one = one.of {
		if one.room() == 0 {
			return false
		}
	}
	b.add(Grant{1, int64(size)})
	return true
}

// Give gives back a Grant, or a part of one.
func (b *Budget) Give(g Grant) {
	if b == nil || g == (Grant{}) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(Grant{-g.Pieces, -g.Bytes})
	for one := b; one != nil; one = one.of {
		for freed := range one.waiting {
			select {
			case freed <- struct{}{}:
			default: // it is signalled
			}
		}
		clear(one.waiting)
	}
}

package subscribers

import (
	"bytes"
	"weak"

	"github.com/bellhopd/bellhop/notify"
)

// sharedBody is the least size of a body that listeners share, though each read the broadcast by itself.
const sharedBody = 4 << 10

// larges are the broadcasts with large bodies that the window or a listener holds now. Listeners that are behind read much the same, and any of them
// may hold what it read for as long as its handler takes.
type larges struct {
	held  map[notify.Position]weak.Pointer[Broadcast]
	sweep int // how many there may be before forget is called
}

// one returns the broadcast that all equal ones share.
func (l *larges) one(b *Broadcast) *Broadcast {
	if held := l.held[b.Position].Value(); held != nil && held.Topic == b.Topic && held.ID == b.ID && bytes.Equal(held.Body, b.Body) {
		return held
	}
	if len(l.held) >= l.sweep {
		l.forget()
	}
	l.held[b.Position] = weak.Make(b)
	return b
}

// forget removes the broadcasts that are no longer in use.
func (l *larges) forget() {
	if l.held == nil {
		l.held = make(map[notify.Position]weak.Pointer[Broadcast])
	}
	for at, one := range l.held {
		if one.Value() == nil {
			delete(l.held, at)
		}
	}
	l.sweep = 2*len(l.held) + 64
}

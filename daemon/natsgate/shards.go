package natsgate

import (
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/progress"
)

// shards are the numbers of some shards. The zero value has none.
type shards struct {
	mu  sync.Mutex
	all map[int]bool
}

func (s *shards) add(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[int]bool)
	}
	s.all[number] = true
}

func (s *shards) has(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// hintBound is how long a loop that sends hints takes at most to come around.
const hintBound = time.Minute

// loops are the loops that send hints, one for each shard.
type loops struct {
	mu  sync.Mutex
	all map[*progress.Loop]bool
}

// begin returns a loop that runs until end is called.
func (l *loops) begin() (loop *progress.Loop, end func()) {
	loop = progress.New("hints", hintBound)
	loop.Note()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[*progress.Loop]bool)
	}
	l.all[loop] = true
	return loop, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, loop)
	}
}

// slowest returns the loop that came around the longest ago; nil: none runs.
func (l *loops) slowest() (slowest *progress.Loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for loop := range l.all {
		if slowest == nil || loop.Last().Before(slowest.Last()) {
			slowest = loop
		}
	}
	return slowest
}

// last returns when the slowest loop last came around; zero: none runs.
func (l *loops) last() time.Time {
	if loop := l.slowest(); loop != nil {
		return loop.Last()
	}
	return time.Time{}
}

// alive returns an error if a loop is stuck.
func (l *loops) alive() error {
	if loop := l.slowest(); loop != nil {
		return loop.Alive()
	}
	return nil
}

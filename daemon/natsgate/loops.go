package natsgate

import (
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/progress"
)

// hintBound is how long a loop that sends hints takes at most to come around.
const hintBound = time.Minute

// loops are the loops that send hints, one for each shard.
type loops struct {
	all sync.Map // of *progress.Loop
}

// begin returns a loop that runs until end is called.
func (l *loops) begin() (loop *progress.Loop, end func()) {
	loop = progress.New("hints", hintBound)
	loop.Note()
	l.all.Store(loop, true)
	return loop, func() { l.all.Delete(loop) }
}

// slowest returns the loop that came around the longest ago; nil: none runs.
func (l *loops) slowest() (slowest *progress.Loop) {
	for one := range l.all.Range {
		if loop := one.(*progress.Loop); slowest == nil || loop.Last().Before(slowest.Last()) {
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

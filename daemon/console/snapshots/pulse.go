package snapshots

import (
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// A pulse is what a store's totals were while somebody looked.
type pulse struct {
	mu    sync.Mutex
	beats []beat // oldest first
}

// A beat is the totals of a store at a time of Redis's clock.
type beat struct {
	at time.Time
	ever
}

const rateOver = 5 * time.Second // a rate of one second would not stand still

// add notes the totals of a survey.
func (p *pulse) add(s notify.Survey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.beats); n > 0 && !s.Now.After(p.beats[n-1].at) {
		p.beats = nil // the clock was set back
	}
	p.beats = append(p.beats, beat{s.Now, ever{s.Published, s.Acked, s.Sent, s.Died}})
	for s.Now.Sub(p.beats[0].at) > 2*rateOver {
		p.beats = p.beats[1:]
	}
}

// Rates returns how many messages come and go a second at present; nil: it is unknown yet.
func (p *pulse) Rates() *Rates {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.beats) < 2 {
		return nil
	}
	last := p.beats[len(p.beats)-1]
	first := p.beats[len(p.beats)-2]
	for i := len(p.beats) - 3; i >= 0 && last.at.Sub(p.beats[i].at) <= rateOver; i-- {
		first = p.beats[i]
	}
	return first.until(last.ever, last.at.Sub(first.at))
}

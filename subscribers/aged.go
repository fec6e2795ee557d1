package subscribers

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// lull is for how long rings are not looked at after a claim for messages of an
// age found none: on a busy topic each message rings, and hardly any gets old.
const lull = 50 * time.Millisecond

// waitAged is Claim for messages of an age, until the timer ends. It claims
// again exactly when the oldest that is ready has that age, and when something
// becomes ready, which may be older: a message that was given back.
func (p *Poller) waitAged(ctx context.Context, topic string, o ClaimOptions, end <-chan time.Time) ([]Delivery, error) {
	bell := make(chan struct{}, 1)
	if err := p.hang(bell, topic); err != nil {
		return nil, err
	}
	defer p.unhang(bell)
	for {
		ds, next, err := p.take(context.WithoutCancel(ctx), topic, o.Max, o.Lease, o.MinAge)
		if err != nil || len(ds) > 0 {
			return ds, err
		}
		var ripe <-chan time.Time
		if next >= 0 {
			ripe = time.After(next)
		}
		var rung <-chan struct{}
		quiet := time.After(min(lull, o.MinAge)) // nothing that becomes due meanwhile has the age before
		for waits := true; waits; {
			select {
			case <-quiet:
				rung = bell
			case <-rung:
				waits = false
			case <-ripe:
				waits = false
			case <-end:
				return nil, nil
			case <-p.ended.Done():
				return nil, ErrStopping
			case <-ctx.Done():
				return nil, nil
			}
		}
	}
}

// hang has a bell ring when something of a topic may have become ready. Those
// who wait for messages of an age stand in no waiting list: who is rung there
// takes the message at once. They hear what is told to programs of any
// language, over one connection that stands while there are any.
func (p *Poller) hang(bell chan struct{}, topic string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasEnded() {
		return ErrStopping
	}
	p.bells[bell] = topic
	if p.deafen == nil {
		ctx, cancel := context.WithCancel(context.Background())
		p.deafen = cancel
		p.tasks.Go(func() { p.store.Hear(ctx, p.ringBells, p.store.Only().Wakes()) })
	}
	return nil
}

func (p *Poller) unhang(bell chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.bells, bell)
	if len(p.bells) == 0 {
		p.deafen()
		p.deafen = nil
	}
}

// ringBells rings those whose topic may have something; a connection that
// stands anew may have missed it.
func (p *Poller) ringBells(e store.Event) {
	if e.Kind != store.Subscribed && e.Kind != store.Heard {
		return
	}
	heard, _ := p.store.Only().Woken(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	for bell, topic := range p.bells {
		if e.Kind == store.Subscribed || topic == heard {
			signal(bell)
		}
	}
}

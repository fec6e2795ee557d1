package model_test

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var plans = flag.Int("model.plans", 5, "how many random plans are made by a clock that is moved by hand")

// turns is how often a plan publishes or changes something, or claims and settles.
const turns = 30

// Random plans by a clock that stands still but between two calls: all answers agree with the model, to the microsecond, and what is due by
// then was carried.
func TestPlans(t *testing.T) {
	storetest.OneShard(t, "a Redis in memory holds one")
	for n := range *plans {
		if !t.Run(fmt.Sprint(n), func(t *testing.T) {
			server, db := storetest.Trial(t, "plans")
			storetest.Found(t, db)
			clock, err := server.StandStill(t.Context(), db.Keys(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
			storetest.Must(t, err)
			t.Cleanup(clock.Close)
			carriertest.Run(t, db, carrier.Options{Logger: slog.New(slog.DiscardHandler)})
			(&plan{T: t, hands: clock}).play(n, db)
		}) {
			return
		}
	}
}

// A plan is what one player does.
type plan struct {
	*testing.T
	player
	hands *memory.Clock
	calls map[id][]call
}

// play plays a plan in a topic of its own, and checks what was answered.
func (p *plan) play(n int, db *notify.Store) {
	p.calls = make(map[id][]call)
	p.player = player{
		store: db, key: int64(n) * 1e9, rand: rand.New(rand.NewPCG(0, uint64(n))), topic: func() int { return n },
		write: p.note, clock: func() int64 { return p.hands.Now().UnixMicro() },
	}
	storetest.Must(p, p.open())
	for range turns {
		turn := p.publishOrChange
		if p.rand.IntN(2) == 0 {
			turn = p.claimOrSettle
		}
		storetest.Must(p, turn())
	}
	for i := range ids {
		storetest.Must(p, p.makeOne(call{Kind: looking, Key: p.next(), Topic: n, ID: i}, p.see))
	}
	for of, calls := range p.calls {
		if err := check(calls); err != nil {
			p.Errorf("%s:%d: %v", topicOf(of.topic), of.id, err)
		}
	}
}

// note notes calls that were answered. Then time passes.
func (p *plan) note(calls []call) error {
	if len(calls) > 0 && !calls[0].Answered {
		return nil
	}
	for _, c := range calls {
		of := id{c.Topic, c.ID}
		p.calls[of] = append(p.calls[of], c)
	}
	to := p.hands.Now().Add(time.Duration(1+p.rand.IntN(60_000)) * time.Microsecond)
	if _, err := p.hands.Advance(p.Context(), memory.Advance{To: to, Force: true}); err != nil {
		return err
	}
	return p.overdue()
}

// overdue returns an error of what is due, and was not carried.
func (p *plan) overdue() error {
	topic, now := topicOf(p.topic()), p.hands.Now()
	for _, state := range []notify.State{notify.Scheduled, notify.Leased} {
		page, err := p.look.List(p.Context(), topic, state, 1, "")
		if err != nil {
			return err
		}
		for _, m := range page.Messages {
			if at := cmp.Or(m.Until, m.Due); !at.After(now) {
				return fmt.Errorf("it is %v, and still %s: %s, until %v", now, state, m.ID, at)
			}
		}
	}
	return nil
}

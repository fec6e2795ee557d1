package faults_test

import (
	"context"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// The topic that has branches: one subscriber of concurrency 1 handles one, and subscribers of which each third try fails the other.
const (
	branchedTopic = "branched"
	branchNames   = "steady,failing"
	steadyBranch  = branchedTopic + "@steady"
	failingBranch = branchedTopic + "@failing"
)

// branches returns the names of the branches in a round; none where the version before, which knows none, works beside.
func (p plan) branches() string {
	if p.Before != "" {
		return ""
	}
	return branchNames
}

// branch lets a message of the topic with branches have a key. Its id stays taken, else a publish that is repeated is copied again.
func (p *publishing) branch(m *notify.Message) {
	m.UniqueFor = keep
	if p.rnd.IntN(4) == 0 {
		m.Key, m.MaxAttempts = []string{"a", "b"}[p.rnd.IntN(2)], hookedAttempts
	}
}

// handleCopies handles what is copied into branches.
func (a *actor) handleCopies(sub *subscribers.Subscriber, dice *dice) error {
	if !a.branches {
		return nil
	}
	if a.name == orderly {
		handle := func(ctx context.Context, d *subscribers.Delivery) error { return a.handle(ctx, d, dice, false) }
		if err := sub.Handle(steadyBranch, handle, subscribers.HandleOptions{Concurrency: 1}); err != nil {
			return err
		}
	}
	return sub.Handle(failingBranch, func(ctx context.Context, d *subscribers.Delivery) error {
		if dice.roll(3) > 0 {
			return a.handle(ctx, d, dice, true)
		}
		op := a.Call(handling(d))
		op.End(history.No, history.Record{Error: errNotThisTime.Error()})
		return errNotThisTime
	}, subscribers.HandleOptions{Concurrency: 16})
}

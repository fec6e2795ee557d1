package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// keep is how long a message is kept with its result: longer than a round, also when Redis's
// clock is set ahead.
const keep = 24 * time.Hour

// ackWith acknowledges a message, and has it kept with a result that no other call gives.
func (c *claiming) ackWith(ctx context.Context, d subscribers.Delivery) {
	result := fmt.Sprintf("%s %d", c.process, d.Receipt)
	op := c.Call(history.Record{Op: history.Ack, Topic: d.Topic, ID: d.ID, Receipt: int64(d.Receipt), Keep: keep.Milliseconds(), Result: result})
	forgotten, err := d.AckWith(ctx, notify.AckResult{Body: []byte(result), Keep: keep})
	op.End(phase(err), history.Record{Forgotten: forgotten, Error: text(err)})
}

// awaits are awaits under way, each in a goroutine of its own.
type awaits struct {
	*actor
	ctx context.Context
	all sync.WaitGroup
}

// begin waits for the end of a message.
func (w *awaits) begin(m notify.Message, wait time.Duration) {
	w.all.Go(func() {
		ctx, stop := context.WithTimeout(w.ctx, wait)
		defer stop()
		op := w.Call(history.Record{Op: history.Await, Topic: m.Topic, ID: m.ID, Wait: wait.Milliseconds()})
		info, err := api.Awaited(w.inspector.Await(ctx, m.Topic, m.ID))
		switch {
		case errors.Is(err, notify.ErrGone):
			op.End(history.OK, history.Record{State: "gone"})
		case err != nil:
			op.End(phase(err), history.Record{Error: text(err)})
		default:
			op.End(history.OK, history.Record{State: info.State.String(), Result: string(info.Result), Error: text(info.Fault)})
		}
	})
}

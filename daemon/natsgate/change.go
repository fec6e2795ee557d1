package natsgate

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
)

// cancel cancels a message, or the one that follows it.
func (g *Gate) cancel(ctx context.Context, r request) (*nats.Msg, error) {
	var of api.Cancel
	if err := api.Decode(r.data, &of); err != nil {
		return nil, err
	}
	was, err := api.CancelIt(ctx, g.pub, r.name, of.ID, of.Next)
	if err != nil {
		return nil, err
	}
	return jsonMessage(api.CancelledOf(was)), nil
}

// reschedule gives a message another due time.
func (g *Gate) reschedule(ctx context.Context, r request) (*nats.Msg, error) {
	var to api.Reschedule
	if err := api.Decode(r.data, &to); err != nil {
		return nil, err
	}
	delay, due, err := to.When()
	if err != nil {
		return nil, err
	}
	p, err := api.RescheduleTo(ctx, g.pub, r.name, to.ID, delay, due)
	return publication(p, err)
}

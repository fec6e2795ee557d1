package natsgate

import (
	"context"
	"reflect"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
)

// inspect returns the state of a message; with a wait once it has ended.
func (g *Gate) inspect(ctx context.Context, r request) (*nats.Msg, error) {
	var in calls.InspectInput
	if err := calls.ReadJSON(calls.Inspect.Params(), r.name, r.data, reflect.ValueOf(&in).Elem()); err != nil {
		return nil, err
	}
	if in.Wait == 0 {
		return inspected(g.o.Service.Inspector.Inspect(ctx, r.name, in.ID))
	}
	return nil, g.wait(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, in.Wait)
		defer cancel()
		g.inspectAtLast(ctx, r, in.ID)
	})
}

// inspectAtLast answers with the state of a message once it has ended, or ctx has. Thousands
// may end at once: those without a turn give their bodies up, and are read again in their turn.
func (g *Gate) inspectAtLast(ctx context.Context, r request, id string) {
	info, err := api.Awaited(g.o.Service.Inspector.Await(ctx, r.name, id))
	if err != nil {
		r.finish(nil, err)
		return
	}
	if !g.reads.try() {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		if err := g.reads.take(again); err != nil {
			r.finish(nil, err)
			return
		}
		info, err = g.o.Service.Inspector.Inspect(again, r.name, id)
	}
	defer g.reads.end()
	r.finish(inspected(info, err))
}

func inspected(info notify.Info, err error) (*nats.Msg, error) {
	if err != nil {
		return nil, err
	}
	return jsonMessage(api.MessageOf(info)), nil
}

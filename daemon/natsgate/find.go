package natsgate

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const findLimit = 10 // messages of an answer unless the request says else: many fit into few payloads

// find finds messages of one topic by what they hold.
func (g *Gate) find(ctx context.Context, r request) (*nats.Msg, error) {
	if err := record.CheckTopic(r.name); err != nil {
		return nil, err
	}
	return g.search(ctx, r, func(topic string) bool { return topic == r.name })
}

// findAll finds messages of all topics.
func (g *Gate) findAll(ctx context.Context, r request) (*nats.Msg, error) {
	return g.search(ctx, r, nil)
}

// search finds messages of the topics that may be looked at.
func (g *Gate) search(ctx context.Context, r request, may func(topic string) bool) (*nats.Msg, error) {
	of := api.Find{Limit: findLimit}
	if err := api.Decode(r.data, &of); err != nil {
		return nil, err
	}
	q, err := find.Parse(of.Q)
	if err == nil {
		err = fault.Within("limit", "limit", of.Limit, 1, find.MaxLimit)
	}
	if err != nil {
		return nil, err
	}
	done, admitted := g.searches.Begin(g.o.Logger, q, "by", "nats", "subject", r.name)
	if !admitted {
		return nil, fmt.Errorf("%w: %d searches of bodies are under way; send it again", api.ErrBusy, find.MaxOfBodies)
	}
	defer done()
	return g.page(ctx, q, find.Options{Limit: of.Limit, Size: g.maxPayload(), Cursor: of.Cursor, May: may})
}

// page returns a page that fits into an answer, or of one message.
func (g *Gate) page(ctx context.Context, q find.Query, o find.Options) (*nats.Msg, error) {
	for ; ; o.Limit /= 2 {
		page, err := g.o.Finder.Find(ctx, q, o)
		missing, err := api.MissingOf(err)
		if err != nil {
			return nil, err
		}
		reply := jsonMessage(api.FoundOf(page, missing))
		if o.Limit = min(o.Limit, len(page.Messages)); o.Limit < 2 || int64(wireSize(reply)) <= g.maxPayload() {
			return reply, nil
		}
	}
}

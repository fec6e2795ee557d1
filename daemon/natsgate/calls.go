package natsgate

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// offered returns the endpoints of a call of the table.
func (g *Gate) offered(c calls.Call, searches, lists turns) (all []endpoint) {
	e := endpoint{name: c.Subject(), most: maxSmallSize}
	switch {
	case c.Long:
		e.turns = searches
	case c.Lists:
		e.turns = lists
	}
	if c.NATS == calls.ByTopic || c.NATS == calls.ByTopicOrAll {
		one := e
		one.rest = ">"
		one.handle = func(ctx context.Context, r request) (*nats.Msg, error) { return g.ofTopic(ctx, c, r) }
		all = append(all, one)
	}
	if c.NATS == calls.ByTopicOrAll {
		e.name += "-all"
	}
	if c.NATS == calls.Plain || c.NATS == calls.ByTopicOrAll {
		e.handle = func(ctx context.Context, r request) (*nats.Msg, error) { return g.do(ctx, c, g.anybody, "", r.data) }
		all = append(all, e)
	}
	return all
}

// ofTopic makes a call whose subject names a topic: its client may use that alone. A literal
// * or > is no topic, so the right to one subject includes no other.
func (g *Gate) ofTopic(ctx context.Context, c calls.Call, r request) (*nats.Msg, error) {
	if err := record.CheckTopic(r.name); err != nil {
		return nil, err
	}
	topic, err := notify.ParsePattern(r.name)
	if err != nil {
		return nil, err
	}
	client := g.anybody
	client.Everything, client.Patterns = false, []notify.Pattern{topic}
	return g.do(ctx, c, client, r.name, r.data)
}

// settings reads the settings of a topic, or changes them if there is data.
func (g *Gate) settings(ctx context.Context, r request) (*nats.Msg, error) {
	return g.ofTopic(ctx, settingsCall(r), r)
}

// defaults does the same for the settings of all topics that have none of their own.
func (g *Gate) defaults(ctx context.Context, r request) (*nats.Msg, error) {
	return g.do(ctx, settingsCall(r), g.anybody, notify.AllTopics, r.data)
}

func settingsCall(r request) calls.Call {
	if len(r.data) > 0 {
		return calls.ChangeSettings
	}
	return calls.Settings
}

// do makes a call. An answer that does not fit into one message is asked for again with half
// of its elements.
func (g *Gate) do(ctx context.Context, c calls.Call, client calls.Client, topic string, data []byte) (*nats.Msg, error) {
	r := &calls.Request{Client: &client, Room: g.maxPayload()}
	if c.Lasts {
		var done func()
		ctx, done = context.WithTimeout(g.running, max(requestTimeout, c.Takes))
		defer done()
	}
	for {
		reply, err := c.DoJSON(ctx, g.o.Service, r, topic, data)
		switch {
		case err != nil:
			return nil, err
		case reply == nil:
			return nats.NewMsg(""), nil
		}
		listing, lists := reply.(calls.Listing)
		if lists {
			r.Most = min(r.Most, listing.N)
		}
		if r.Most < 2 || listing.Bytes <= g.maxPayload() { // else its JSON is not made
			if m := jsonMessage(reply); r.Most < 2 || int64(wireSize(m)) <= g.maxPayload() {
				return m, nil
			}
		}
		r.Most /= 2
	}
}

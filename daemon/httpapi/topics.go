package httpapi

import (
	"context"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

type topicsInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"any topic" maxLength:"134" pattern:"^(\\$dead\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" doc:"cursor of the previous page; missing: from the beginning"`
}

// topics counts the messages of the topics that the token permits, by name, a page at a time.
func (g *Gate) topics(ctx context.Context, c *call, in *topicsInput) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	counts, next, err := g.inspector.TopicsAfter(ctx, in.Cursor, in.Limit, c.grant.Patterns...)
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return api.TopicsOf(counts, next, missing), nil
}

// topic counts the messages of a topic.
func (g *Gate) topic(ctx context.Context, c *call, in *ofTopic) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	counts, err := g.inspector.Count(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	return api.TopicOf(counts[0]), nil
}

// pause stops handing out the messages of a topic.
func (g *Gate) pause(ctx context.Context, c *call, in *ofTopic) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	return nil, g.inspector.Pause(ctx, in.Topic)
}

// resume hands out the messages of a topic again.
func (g *Gate) resume(ctx context.Context, c *call, in *ofTopic) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	return nil, g.inspector.Resume(ctx, in.Topic)
}

// rotateSecret replaces the secret with which the daemons of the store sign.
func (g *Gate) rotateSecret(ctx context.Context, c *call, _ *struct{}) (any, error) {
	if err := c.enterTopic(">"); err != nil {
		return nil, err
	}
	if err := g.store.Home().RotateSecret(ctx); err != nil {
		return nil, err
	}
	g.o.Logger.Info("secret rotated", "token", c.grant.Name)
	return nil, nil
}

// ofSettings is the input of a call about settings.
type ofSettings struct {
	Topic string `path:"topic" is:"topic or *" maxLength:"128" pattern:"^(\\*|[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*)$" example:"order.timeout" doc:"a topic, which need not exist yet; * for the defaults of topics without settings of their own, which needs a token for all topics"`
}

// settings answers with the settings of a topic, or with the defaults of all topics.
func (g *Gate) settings(ctx context.Context, c *call, in *ofSettings) (any, error) {
	if err := c.grant.AllowSettings(in.Topic); err != nil {
		return nil, err
	}
	if err := c.noBody(); err != nil {
		return nil, err
	}
	return settingsOf(in.Topic)(g.inspector.Settings(ctx, in.Topic))
}

// changeSettings changes settings, and answers with the new ones.
func (g *Gate) changeSettings(ctx context.Context, c *call, in *ofSettings) (any, error) {
	if err := c.grant.AllowSettings(in.Topic); err != nil {
		return nil, err
	}
	body, err := c.body(maxJSON)
	if err != nil {
		return nil, err
	}
	change, err := api.DecodeSettings(in.Topic, body)
	if err != nil {
		return nil, err
	}
	return settingsOf(in.Topic)(g.inspector.Set(ctx, in.Topic, change))
}

// settingsOf returns a function that converts the settings of a topic to their JSON form.
func settingsOf(topic string) func(notify.TopicSettings, error) (any, error) {
	return func(s notify.TopicSettings, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return api.SettingsOf(topic, s), nil
	}
}

type deadListInput struct {
	ofTopic
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous page; missing: from the beginning"`
}

// listDead lists dead letters, oldest death first.
func (g *Gate) listDead(ctx context.Context, c *call, in *deadListInput) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	return c.page(g.inspector.List(ctx, in.Topic, notify.Dead, in.Limit, in.Cursor))
}

type deadInput struct {
	ofTopic
	ID  string `query:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"id of one dead letter; give this or all=true"`
	All string `query:"all" without:"id" enum:"true" doc:"all present dead letters of the topic"`
}

// requeueDead makes dead letters ready again.
func (g *Gate) requeueDead(ctx context.Context, c *call, in *deadInput) (any, error) {
	return c.onDead(ctx, in, g.inspector.Requeue, g.inspector.RequeueAll)
}

// purgeDead removes dead letters for good.
func (g *Gate) purgeDead(ctx context.Context, c *call, in *deadInput) (any, error) {
	return c.onDead(ctx, in, g.inspector.Purge, g.inspector.PurgeAll)
}

// onDead calls one for a dead letter of a topic, or all for all of them.
func (c *call) onDead(ctx context.Context, in *deadInput,
	one func(context.Context, string, ...string) (int, error), all func(context.Context, string, func(int)) (int, error),
) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	var n int
	var err error
	switch {
	case in.ID != "":
		n, err = one(ctx, in.Topic, in.ID)
	case in.All == "":
		err = fault.New("all", "parameters id and all: none is given; name a dead letter, or give all=true for all of them")
	default:
		n, err = all(ctx, in.Topic, func(int) { _ = c.writeWithin(c.gate.timing.answer) }) // extended as long as there is progress
	}
	if err != nil {
		return nil, err
	}
	return api.Count{Count: n}, nil
}

// carrier answers with the elected carrier of each shard.
func (g *Gate) carrier(ctx context.Context, c *call, _ *struct{}) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	all, err := store.Gather(ctx, g.store, func(ctx context.Context, shard store.Shard) (api.ShardCarrier, error) {
		status, err := carrier.Look(ctx, shard)
		return api.ShardCarrier{Shard: shard.Number(), Carrier: api.CarrierOf(status)}, err
	})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return api.CarriersOf(all, missing), nil
}

type listenersInput struct {
	Topic  string `query:"topic" is:"any topic" maxLength:"128" pattern:"^(\\$dead\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" example:"prices.gold" doc:"only those that get the broadcasts of this topic; missing: all"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" doc:"cursor of the previous page; missing: from the beginning"`
}

// listNamed lists the named listeners whose topics the token permits. Only a token for metrics
// learns the names of workers.
func (g *Gate) listNamed(ctx context.Context, c *call, in *listenersInput) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	if in.Topic != "" {
		if err := c.grant.AllowTopic(in.Topic); err != nil {
			return nil, err
		}
	}
	page, err := api.ListListeners(ctx, g.inspector, api.AskListeners{Topic: in.Topic, Limit: in.Limit, Cursor: in.Cursor}, c.grant.Covers)
	if err == nil && c.grant.AllowRights([]tokens.Right{tokens.MayMetrics}) != nil {
		page = page.WithoutWorkers()
	}
	return page, err
}

// workers lists the daemons, workers and listeners that are there, as far as the token
// permits their topics.
func (g *Gate) workers(ctx context.Context, c *call, _ *struct{}) (any, error) {
	if err := c.noBody(); err != nil {
		return nil, err
	}
	all, err := g.inspector.Workers(ctx)
	if err != nil {
		return nil, err
	}
	hand, err := store.InHandOf(ctx, g.store)
	if err != nil {
		return nil, err
	}
	if c.grant.CoversAll() {
		return api.WorkersOf(all, hand, nil), nil
	}
	return api.WorkersOf(all, hand, func(pattern string) bool { return c.grant.AllowTopic(pattern) == nil }), nil
}

package calls

import (
	"context"
	"net/http"
	"slices"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/receivers"
	"github.com/bellhopd/bellhop/notify/store"
)

type nothing struct{}

var _ = define(Call{
	Name: "carrier", Method: "GET", Path: "/v1/carrier", Tag: TagOperate, Status: http.StatusOK, Reply: api.Carriers{}, NATS: Plain,
	Summary: "Get the elected carrier, of each shard if there are several",
}, func(ctx context.Context, s *Service, _ *Request, _ *nothing) (any, error) {
	all, err := store.Gather(ctx, s.Store, func(ctx context.Context, shard store.Shard) (api.ShardCarrier, error) {
		status, err := carrier.Look(ctx, shard)
		return api.ShardCarrier{Shard: shard.Number(), Carrier: api.CarrierOf(status)}, err
	})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return api.CarriersOf(all, missing), nil
})

var _ = define(Call{
	Name: "workers", Method: "GET", Path: "/v1/workers", Tag: TagOperate, Status: http.StatusOK, Reply: api.Workers{}, NATS: Plain,
	Rights: []Right{MayMetrics}, Summary: "List the daemons, workers and listeners that are there",
	Description: "A token that does not permit all topics gets those that are there for its topics. A worker that claims over HTTP or NATS is there if its claims name it.",
}, func(ctx context.Context, s *Service, r *Request, _ *nothing) (any, error) {
	all, err := s.Inspector.Workers(ctx)
	if err != nil {
		return nil, err
	}
	hand, err := store.InHandOf(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	if r.CoversAll() {
		return api.WorkersOf(all, hand, nil), nil
	}
	return api.WorkersOf(all, hand, func(pattern string) bool { return r.AllowTopic(pattern) == nil }), nil
})

type listenersInput struct {
	Topic  string `query:"topic" is:"any topic" maxLength:"128" pattern:"^(\\$dead\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" example:"prices.gold" doc:"only those that get the broadcasts of this topic; missing: all"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"listener" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" doc:"cursor of the previous page; missing: from the beginning"`
}

var _ = define(Call{
	Name: "listeners", Method: "GET", Path: "/v1/listeners", Tag: TagOperate, Status: http.StatusOK, Reply: api.Listeners{}, NATS: Plain,
	Summary:     "List the named listeners, how far behind each is, and who holds what",
	Description: "A token gets those whose patterns it permits whole. The names of workers, in by and held_by, are for tokens with the right metrics.",
}, func(ctx context.Context, s *Service, r *Request, in *listenersInput) (any, error) {
	var shown []string
	more := false
	all, err := s.Inspector.Listeners(ctx, func(name, pattern string) bool { // only those of the page are measured
		p, err := notify.ParsePattern(pattern)
		if more || err != nil || name <= in.Cursor || !r.Covers(p) || in.Topic != "" && !p.Match(in.Topic) {
			return false
		}
		if more = len(shown) == in.Limit; more {
			return false
		}
		shown = append(shown, name)
		return true
	})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	page := api.Listeners{Listeners: all, Missing: missing}
	if more {
		page.Cursor = shown[len(shown)-1]
	}
	if !r.Has(MayMetrics) {
		page = page.WithoutWorkers()
	}
	return page, nil
})

var _ = define(Call{
	Name: "rotateSecret", Method: "POST", Path: "/v1/secret/rotate", Tag: TagOperate, Status: http.StatusNoContent,
	NoNATS: "it is for an operator alone, and whoever may use every subject is not one",
	Rights: []Right{MayAdmin}, Summary: "Replace the secret with which the daemons sign",
	Description: "The token must permit all topics. Within some seconds all daemons refuse what was signed before: cookies of the console, and settle tokens of NATS, whose messages are delivered again when their leases end.",
}, func(ctx context.Context, s *Service, r *Request, _ *nothing) (any, error) {
	if err := r.AllowAll(); err != nil {
		return nil, err
	}
	if err := s.Store.Home().RotateSecret(ctx); err != nil {
		return nil, err
	}
	s.Logger.Info("secret rotated", "token", r.Name)
	return nil, nil
})

var _ = define(Call{
	Name: "receivers", Method: "GET", Path: "/v1/broadcasts/{topic}/{id}", Tag: TagOperate, Status: http.StatusOK, Reply: receivers.Report{}, NATS: ByTopic, Lasts: true,
	Rights: []Right{MayPublish, MayListen}, Errors: []int{404}, Summary: "Get how far the named listeners are with a broadcast",
	Description: "It is found while the log of its topic keeps it, or as long as it waits. The names of workers are for tokens with the right metrics, and a token gets the listeners whose patterns it permits whole.",
}, func(ctx context.Context, s *Service, r *Request, in *OfMessage) (any, error) {
	b, err := receivers.Look(ctx, s.Store, in.Topic, in.ID)
	b.Listeners = slices.DeleteFunc(b.Listeners, func(l receivers.Receiver) bool { return r.AllowTopic(l.Pattern) != nil })
	for i := range b.Listeners {
		if !r.Has(MayMetrics) {
			b.Listeners[i].Worker = ""
		}
	}
	return reply(b, err)
})

package calls

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/receivers"
	"github.com/bellhopd/bellhop/notify/store"
)

type nothing struct{}

var _ = define(Call{
	Name: "carrier", Method: "GET", Path: "/v1/carrier", Tag: TagOperate, Status: http.StatusOK, Reply: Carriers{}, NATS: Plain,
	Summary: "Get the elected carrier, of each shard if there are several",
}, func(ctx context.Context, s *Service, _ *Request, _ *nothing) (any, error) {
	all, err := store.Gather(ctx, s.Store, func(ctx context.Context, shard store.Shard) (ShardCarrier, error) {
		status, err := carrier.Look(ctx, shard)
		return ShardCarrier{Shard: shard.Number(), Carrier: carrierOf(status)}, err
	})
	missing, err := api.MissingOf(err)
	if err != nil {
		return nil, err
	}
	return carriersOf(all, missing), nil
})

var _ = define(Call{
	Name: "workers", Method: "GET", Path: "/v1/workers", Tag: TagOperate, Status: http.StatusOK, Reply: Workers{}, NATS: Plain,
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
		return WorkersOf(all, hand, nil), nil
	}
	return WorkersOf(all, hand, func(pattern string) bool { return r.AllowTopic(pattern) == nil }), nil
})

type listenersInput struct {
	Topic  string `query:"topic" is:"any topic" maxLength:"134" pattern:"^(\\$dead\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_-]+)?$" example:"prices.gold" doc:"only those that get the broadcasts of this topic; missing: all"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"cursor of listeners" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" doc:"cursor of the previous page; missing: from the beginning"`
}

var _ = define(Call{
	Name: "listeners", Method: "GET", Path: "/v1/listeners", Tag: TagOperate, Status: http.StatusOK, Reply: Listeners{}, NATS: Plain,
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
	page := Listeners{Listeners: all, Missing: missing}
	if more {
		page.Cursor = shown[len(shown)-1]
	}
	for i := range all {
		if !r.Has(MayMetrics) {
			all[i].By, all[i].HeldBy = nil, nil
		}
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

// Listeners is a page of named listeners.
type Listeners struct {
	Listeners []notify.ListenerInfo `json:"listeners" nullable:"false" doc:"sorted by name"`
	Cursor    string                `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
	api.Missing
}

// WhoListens returns who listens under a name, for people: each worker that does or that holds
// broadcasts, with how many it holds.
func WhoListens(n notify.ListenerInfo) string {
	workers := slices.Clone(n.By)
	held := make(map[string]int64)
	for _, o := range n.HeldBy {
		held[o.Worker] = o.Held
		workers = append(workers, o.Worker) // it may have stopped, or just come
	}
	slices.Sort(workers)
	workers = slices.Compact(workers)
	for i, worker := range workers {
		if held[worker] > 0 {
			workers[i] = fmt.Sprintf("%s (%d held)", worker, held[worker])
		}
	}
	switch {
	case len(workers) > 0:
		return strings.Join(workers, ", ")
	case n.Active:
		return "somebody" // who just came, or may not be named
	}
	return "nobody"
}

// Carrier is the elected carrier.
type Carrier struct {
	Name    string     `json:"name" doc:"name of the elected carrier; empty: nobody is elected"`
	Epoch   int64      `json:"epoch" doc:"number of its election"`
	Since   *time.Time `json:"since,omitempty" doc:"when it was elected"`
	LeaseMs int64      `json:"lease_ms" doc:"time left of its lease" example:"2400"`
	Next    *time.Time `json:"next,omitempty" doc:"when the next message or broadcast is due; missing: nothing is scheduled"`
}

// carrierOf returns the status of the carrier in its JSON form.
func carrierOf(s carrier.Status) Carrier {
	return Carrier{Name: s.Name, Epoch: s.Epoch, Since: api.Given(s.Since), LeaseMs: api.Ms(s.Lease), Next: api.Given(s.Next)}
}

// Carriers are the elected carrier, and in a store of several shards that of each.
type Carriers struct {
	Carrier
	Shards []ShardCarrier `json:"shards,omitempty" doc:"the carrier of each shard that answered, of a store of several; the fields beside are those of the first of them, but for next, which is the earliest of all"`
	api.Missing
}

// ShardCarrier is the elected carrier of a shard.
type ShardCarrier struct {
	Shard int `json:"shard" doc:"number of the shard, from 0 on" example:"3"`
	Carrier
}

// carriersOf returns the status of the carriers of the shards that answered in their JSON
// form; there is at least one.
func carriersOf(all []ShardCarrier, missing api.Missing) Carriers {
	c := Carriers{Carrier: all[0].Carrier, Missing: missing}
	if len(all)+len(missing.Missing) == 1 {
		return c
	}
	c.Shards = all
	for _, one := range all {
		if one.Next != nil && (c.Next == nil || one.Next.Before(*c.Next)) {
			c.Next = one.Next
		}
	}
	return c
}

// Worker is a daemon, a worker or a listener that is there.
type Worker struct {
	ID      string    `json:"id" doc:"of its subscription to Redis, which no other has"`
	Name    string    `json:"name" example:"shop-1" doc:"as its operator calls it, or HOST-PID"`
	Kind    string    `json:"kind" example:"worker" doc:"daemon, worker or listener"`
	Host    string    `json:"host" example:"shop.example.com" doc:"its machine; empty for a worker that claims over HTTP or NATS"`
	Via     []string  `json:"via,omitempty" doc:"names of the daemons that it claims through, over HTTP or NATS with worker: it is listed while a claim waits, and then until the lease that it got would end, a minute at least. A daemon lists up to 100"`
	Version string    `json:"version,omitempty" example:"1.2.3" doc:"of the program"`
	Topics  []string  `json:"topics" nullable:"false" example:"[\"order.timeout\"]" doc:"topics and patterns that it is there for, as far as the token permits them; a daemon has none"`
	Since   time.Time `json:"since" doc:"since when, by the clock of Redis"`
	Leased  *int64    `json:"leased,omitempty" doc:"messages that were claimed under its name and are not settled, of topics that the token permits; missing for a listener"`
	Least   bool      `json:"leased_least,omitempty" doc:"leased may be more: there are more than 5,000 leases in a shard, or one is away"`
}

// Place returns where a worker is: its machine, or the daemons that it claims through.
func (w Worker) Place() string {
	if len(w.Via) > 0 {
		return "via " + strings.Join(w.Via, " ")
	}
	return w.Host
}

// Workers are those that are there.
type Workers struct {
	Workers []Worker `json:"workers" nullable:"false" doc:"sorted by name"`
}

// WorkersOf returns workers in their JSON form, with what they have in hand: those that are
// there for topics and patterns that show permits, with these alone. With a nil show it is all.
func WorkersOf(all []notify.Worker, hand store.InHand, show func(pattern string) bool) Workers {
	w := Workers{Workers: []Worker{}}
	permits := func(topic string) bool { return show == nil || show(topic) }
	for _, one := range all {
		topics := slices.DeleteFunc(append([]string{}, one.Topics...), func(topic string) bool { return !permits(topic) })
		if show != nil && len(topics) == 0 {
			continue
		}
		worker := Worker{
			ID: one.ID, Name: one.Name, Kind: one.Kind, Host: one.Host, Via: one.Via, Version: one.Version,
			Topics: topics, Since: one.Since.UTC(),
		}
		if one.Kind != "listener" {
			worker.Leased, worker.Least = new(hand.By(one.Name, permits)), hand.Least
		}
		w.Workers = append(w.Workers, worker)
	}
	return w
}

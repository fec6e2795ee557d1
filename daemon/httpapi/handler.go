package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/rs/cors"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
)

// handler returns the handler of all requests.
func (g *Gate) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	g.mux = mux
	doc := newDocument(g.o.Version)
	g.register(mux, doc)
	spec := sync.OnceValues(func() ([]byte, error) { return json.Marshal(doc) }) // few clients read it, and it takes milliseconds
	mux.HandleFunc("GET /v1/openapi.json", g.plain(func(c *call) error {
		if _, err := g.keys.Admit(c.r); err != nil {
			return err
		}
		text, err := spec()
		if err != nil {
			return fmt.Errorf("describe the API: %w", err)
		}
		return c.write(http.StatusOK, "application/json", json.RawMessage(text))
	}))
	mux.HandleFunc("GET /healthz", g.plain(g.healthz))
	mux.HandleFunc("GET /readyz", g.plain(g.readyz))
	if g.o.Metrics != nil {
		mux.Handle("GET /metrics", g.metrics())
	}
	if err := g.addConsole(mux); err != nil {
		return nil, err
	}
	mux.HandleFunc("/", g.plain((*call).elsewhere))
	all := g.cors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw := r.URL.EscapedPath(); raw != console.Root && path.Clean(raw) != raw || raw[0] != '/' { // the mux would redirect it, or refuse it without a problem
			g.plain(func(*call) error { return errNoSuchCall })(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	if g.o.TokensFile == "" {
		all = g.ownHost(all)
	}
	return all, nil
}

// metrics answers /metrics, which shows the names of topics. It requires a token with the
// right metrics if so configured, else a Host that names this machine.
func (g *Gate) metrics() http.Handler {
	if !g.o.MetricsNeedToken {
		return g.ownHost(g.o.Metrics)
	}
	return g.plain(func(c *call) error {
		grant, err := g.keys.Admit(c.r)
		if err == nil {
			err = errors.Join(grant.AllowRights([]tokens.Right{tokens.MayMetrics}), grant.AllowTopic(">"))
		}
		if err == nil {
			guard.OnSlot(c.r.Context(), (*guard.Slot).Authenticate)
			g.o.Metrics.ServeHTTP(c.w, c.r)
		}
		return err
	})
}

// existedText describes the answer to a publish that created no message.
const existedText = "With if_exists: there was a message of this id. outcome says what became of it."

// register registers every call of the API.
func (g *Gate) register(mux *http.ServeMux, doc *huma.OpenAPI) {
	const topic, message = "/v1/topics/{topic}", "/v1/topics/{topic}/messages/{id}"
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/messages", id: "publish", tag: tagPublish, keeps: true, status: http.StatusCreated, reply: api.Publication{}, requestType: "*/*",
		rights: []tokens.Right{tokens.MayPublish}, errors: []int{409, 413}, summary: "Publish a message to one worker",
		description: "The body is that of the message, verbatim, and may be empty. Headers Bellhop-Header-NAME are kept with the message. With an id a publish may be repeated: the second one is refused with 409, or does what if_exists says.",
		also:        existedText,
	}, g.publish)
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/broadcasts", id: "broadcast", tag: tagPublish, keeps: true, status: http.StatusCreated, reply: api.Publication{}, requestType: "*/*",
		rights: []tokens.Right{tokens.MayPublish}, errors: []int{409, 413}, summary: "Broadcast a message to everyone who listens", also: existedText,
	}, g.broadcast)
	register(g, mux, doc, operation{
		method: "POST", path: "/v1/messages", id: "publishMany", tag: tagPublish, status: http.StatusOK, replyType: ndjson, reply: bulkResult{}, request: notify.Line{}, requestType: ndjson,
		rights: []tokens.Right{tokens.MayPublish}, errors: []int{413}, summary: "Publish many messages and broadcasts",
		description: "A line of JSON each, up to 10,000 lines and 16 MiB. The answer has a line for each, in the same order: a publication, or an error. A refused line does not affect the others.",
	}, g.bulk)
	register(g, mux, doc, operation{
		method: "GET", path: message, id: "inspect", tag: tagPublish, status: http.StatusOK, reply: api.Message{},
		rights: []tokens.Right{tokens.MayPublish, tokens.MayConsume}, errors: []int{404, 410}, summary: "Inspect a message, and wait for its end",
		description: "With wait the answer comes when the message is dead, or done and kept; when the wait is over it is answered as it is. A message that ended without being kept is answered with 410, and one that is unknown at first with 404 at once.",
	}, g.inspect)
	register(g, mux, doc, operation{
		method: "PATCH", path: message, id: "reschedule", tag: tagPublish, status: http.StatusOK, reply: api.Publication{},
		rights: []tokens.Right{tokens.MayPublish}, errors: []int{404, 409}, summary: "Give a message another due time",
		description: "With neither a delay nor a due time the message is due at once.",
	}, g.reschedule)
	register(g, mux, doc, operation{
		method: "DELETE", path: message, id: "cancel", tag: tagPublish, status: http.StatusOK, reply: api.Cancelled{},
		rights: []tokens.Right{tokens.MayPublish}, errors: []int{404, 409}, summary: "Cancel a message",
	}, g.cancel)
	register(g, mux, doc, operation{
		method: "GET", path: topic + "/messages", id: "list", long: true, tag: tagPublish, status: http.StatusOK, reply: api.Page{},
		rights: []tokens.Right{tokens.MayPublish, tokens.MayConsume}, summary: "List messages, a page at a time, by time",
	}, g.list)
	g.registerClaims(mux, doc)
	g.registerTopics(mux, doc)
	g.registerArchive(mux, doc)
	g.registerPlots(mux, doc)
	g.registerFind(mux, doc)
}

// registerClaims registers the calls of workers and listeners.
func (g *Gate) registerClaims(mux *http.ServeMux, doc *huma.OpenAPI) {
	const topic, message = "/v1/topics/{topic}", "/v1/topics/{topic}/messages/{id}"
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/claim", id: "claim", tag: tagConsume, lasts: true, raw: true, status: http.StatusOK, reply: api.Claimed{},
		rights: []tokens.Right{tokens.MayConsume}, summary: "Claim messages, and wait until there is one",
		description: "Messages are leased: acknowledge each with its receipt before its lease ends, or it is delivered again.",
	}, g.claim)
	register(g, mux, doc, operation{
		method: "POST", path: "/v1/claim", id: "claimAny", tag: tagConsume, lasts: true, raw: true, status: http.StatusOK, reply: api.Claimed{},
		rights: []tokens.Right{tokens.MayConsume}, summary: "Claim messages of up to 32 topics, and wait until there is one",
		description: "Messages are leased as by a claim of one topic. A claim that waits is woken by any of the topics, and then gets what that one has ready. The token must permit each of the topics. An answer that has 4 MiB of bodies gets no more.",
	}, g.claimAny)
	register(g, mux, doc, operation{
		method: "POST", path: message + "/ack", id: "ack", tag: tagConsume, status: http.StatusNoContent, reply: api.LeftOut{}, requestType: "*/*",
		rights: []tokens.Right{tokens.MayConsume}, errors: []int{409, 413}, summary: "Acknowledge a message as done",
		description: "With keep the body, of up to 64 KiB, is its result: the message stays as done, and whoever inspects it gets both. Without keep there is no body.",
		also:        "With keep: the message is acknowledged, and is not kept: Redis is short of memory, or a message follows it.",
	}, g.ack)
	register(g, mux, doc, operation{
		method: "POST", path: message + "/nack", id: "nack", tag: tagConsume, status: http.StatusNoContent, reply: api.LeftOut{},
		rights: []tokens.Right{tokens.MayConsume}, errors: []int{409}, summary: "Reject a message: it is delivered again, or dies",
		also: "The message is rejected, and Redis is short of memory to note the attempt in its history.",
	}, g.nack)
	register(g, mux, doc, operation{
		method: "POST", path: message + "/extend", id: "extend", tag: tagConsume, status: http.StatusOK, reply: api.Extended{},
		rights: []tokens.Right{tokens.MayConsume}, errors: []int{409}, summary: "Extend the lease of a message, counted from now",
		description: "The receipt stays the same, however often the lease is extended: a worker extends it while its handler runs, and acknowledges with the receipt of its claim.",
	}, g.extend)
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/ack", id: "ackMany", tag: tagConsume, status: http.StatusOK, reply: api.Acked{}, request: []api.Receipt{},
		rights: []tokens.Right{tokens.MayConsume}, errors: []int{413}, summary: "Acknowledge up to 10,000 messages of a topic",
	}, g.ackMany)
	register(g, mux, doc, operation{
		method: "GET", path: topic + "/broadcasts", id: "listen", tag: tagListen, lasts: true, status: http.StatusOK, replyType: eventStream, reply: api.Broadcast{},
		rights: []tokens.Right{tokens.MayListen}, errors: []int{429}, summary: "Listen for broadcasts, as server-sent events",
		description: "The data of an event broadcast is a broadcast, and its id is the broadcast's position. An event gap reports which broadcasts were removed before they could be sent. It also reports up to where some may be missing because Redis lost its data; then its topic is the requested topic or pattern. A comment is sent after every 15 s without an event.",
	}, g.listen)
}

// registerTopics registers the calls of an operator.
func (g *Gate) registerTopics(mux *http.ServeMux, doc *huma.OpenAPI) {
	const topic = "/v1/topics/{topic}"
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/topics", id: "listTopics", tag: tagOperate, status: http.StatusOK, reply: api.Topics{}, summary: "Count the messages of every topic, a page at a time",
	}, g.topics)
	register(g, mux, doc, operation{
		method: "GET", path: topic, id: "countTopic", tag: tagOperate, status: http.StatusOK, reply: api.Topic{}, summary: "Count the messages of a topic",
	}, g.topic)
	register(g, mux, doc, operation{
		method: "GET", path: topic + "/settings", id: "settings", tag: tagOperate, status: http.StatusOK, reply: api.Settings{}, summary: "Get the settings of a topic",
	}, g.settings)
	register(g, mux, doc, operation{
		method: "PATCH", path: topic + "/settings", id: "changeSettings", tag: tagOperate, status: http.StatusOK, reply: api.Settings{}, request: settingsChange{}, requestType: mergePatch,
		rights: []tokens.Right{tokens.MayAdmin}, errors: []int{413}, summary: "Change settings of a topic",
		description: "A setting that is not given stays as it is. null restores the default: that of the topic *, or else a built-in one. Settings stay when nothing else is left of the topic. Values that a message or a claim gives itself take precedence. Leased messages keep the lease of their claim.",
	}, g.changeSettings)
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/pause", id: "pause", tag: tagOperate, status: http.StatusNoContent, rights: []tokens.Right{tokens.MayAdmin}, summary: "Stop handing out the messages of a topic",
	}, g.pause)
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/resume", id: "resume", tag: tagOperate, status: http.StatusNoContent, rights: []tokens.Right{tokens.MayAdmin}, summary: "Resume handing out the messages of a topic",
	}, g.resume)
	register(g, mux, doc, operation{
		method: "GET", path: topic + "/dead", id: "listDead", long: true, tag: tagOperate, status: http.StatusOK, reply: api.Page{},
		rights: []tokens.Right{tokens.MayConsume}, summary: "List dead letters, oldest death first",
	}, g.listDead)
	register(g, mux, doc, operation{
		method: "POST", path: topic + "/dead/requeue", id: "requeueDead", tag: tagOperate, lasts: true, status: http.StatusOK, reply: api.Count{},
		rights: []tokens.Right{tokens.MayAdmin}, summary: "Requeue dead letters: ready again, with all their attempts",
	}, g.requeueDead)
	register(g, mux, doc, operation{
		method: "DELETE", path: topic + "/dead", id: "purgeDead", tag: tagOperate, lasts: true, status: http.StatusOK, reply: api.Count{},
		rights: []tokens.Right{tokens.MayAdmin}, summary: "Remove dead letters for good",
	}, g.purgeDead)
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/carrier", id: "carrier", tag: tagOperate, status: http.StatusOK, reply: api.Carriers{}, summary: "Get the elected carrier, of each shard if there are several",
	}, g.carrier)
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/workers", id: "workers", tag: tagOperate, status: http.StatusOK, reply: api.Workers{},
		rights: []tokens.Right{tokens.MayMetrics}, summary: "List the daemons, workers and listeners that are there",
		description: "A token that does not permit all topics gets those that are there for its topics. A worker that claims over HTTP or NATS is there if its claims name it.",
	}, g.workers)
	register(g, mux, doc, operation{
		method: "GET", path: "/v1/listeners", id: "listeners", tag: tagOperate, status: http.StatusOK, reply: api.Listeners{},
		summary:     "List the named listeners, how far behind each is, and who holds what",
		description: "A token gets those whose patterns it permits whole. The names of workers, in by and held_by, are for tokens with the right metrics.",
	}, g.listNamed)
	register(g, mux, doc, operation{
		method: "POST", path: "/v1/secret/rotate", id: "rotateSecret", tag: tagOperate, status: http.StatusNoContent,
		rights: []tokens.Right{tokens.MayAdmin}, summary: "Replace the secret with which the daemons sign",
		description: "The token must permit all topics. Within some seconds all daemons refuse what was signed before: cookies of the console, and settle tokens of NATS, whose messages are delivered again when their leases end.",
	}, g.rotateSecret)
}

// plain returns a handler for a request that is no operation of the API.
func (g *Gate) plain(handle func(c *call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: &recorder{ResponseWriter: w}, r: r, gate: g}
		if err := handle(c); err != nil {
			c.refuse(err)
		}
	}
}

// otherMethod refuses a method that no call has, and names the allowed ones.
func (c *call) otherMethod() error {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PATCH", "DELETE"} {
		other := *c.r
		other.Method = method
		if _, pattern := c.gate.mux.Handler(&other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return errNoSuchCall
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return fmt.Errorf("%w: use %s", errMethod, strings.Join(allowed, " or "))
}

// sameOrigin refuses requests of web pages of another origin that would change
// something. A browser sends some of these without asking first, and only hides the
// answer from the page; listening on loopback does not keep them out. Programs other
// than browsers need no header for this.
func (g *Gate) sameOrigin(next http.Handler, allowed func(*http.Request) bool) http.Handler {
	protection := http.NewCrossOriginProtection()
	refused := g.plain(func(*call) error { return errOrigin })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if protection.Check(r) != nil && !allowed(r) {
			refused(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cors lets pages of other origins call, if so configured.
func (g *Gate) cors(next http.Handler) http.Handler {
	if len(g.o.CORSOrigins) == 0 {
		return g.sameOrigin(next, func(*http.Request) bool { return false })
	}
	c := cors.New(cors.Options{
		AllowedOrigins: g.o.CORSOrigins,
		AllowedMethods: []string{"GET", "POST", "PATCH", "DELETE"},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"*"}, // those of a message have arbitrary names
		MaxAge:         600,
	})
	return c.Handler(g.sameOrigin(next, c.OriginAllowed))
}

// healthz reports whether the process makes progress, whatever Redis does.
func (g *Gate) healthz(c *call) error {
	if err := g.o.Alive(); err != nil {
		return c.write(http.StatusServiceUnavailable, problemType, api.NewProblem("stuck", "a part of the daemon is stuck", http.StatusServiceUnavailable, err))
	}
	return c.answer(http.StatusOK, health{Status: "ok"})
}

type health struct {
	Status string `json:"status"`
}

const (
	readyWithin = 2 * time.Second        // how long Redis and its pub/sub may take for a round trip
	fullWithin  = 200 * time.Millisecond // how long all servers may take to say how full they are
)

// readiness names the carriers whose beats arrive, without which calls work, too, a Redis
// that is full, and the shards that do not answer.
type readiness struct {
	health
	Carrier *carrierEpoch `json:"carrier"`
	Full    string        `json:"full,omitempty"`
	api.Missing
}

// carrierEpoch is that of the first shard that has a carrier. Missing are the shards that
// have none, where there are several.
type carrierEpoch struct {
	Epoch int64 `json:"epoch"`
	api.Missing
}

// carrierOf returns what is known of the carriers of all shards by their epochs; nil: no
// shard has one.
func carrierOf(heard []int64) *carrierEpoch {
	c := &carrierEpoch{}
	for shard, epoch := range heard {
		if epoch == 0 {
			c.Missing.Missing = append(c.Missing.Missing, shard)
		}
		c.Epoch = cmp.Or(c.Epoch, epoch)
	}
	if c.Epoch == 0 {
		return nil
	}
	return c
}

// readyz checks that Redis takes writes, and that a ring comes back through its pub/sub. Of
// several shards one is enough: a part of Redis that is away must not take every daemon
// out of a load balancer.
func (g *Gate) readyz(c *call) error {
	if g.draining.Load() {
		return errDraining
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), readyWithin)
	defer cancel()
	missing, err := api.MissingOf(g.claimer.Ping(ctx))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotReady, err)
	}
	return c.answer(http.StatusOK, readiness{health{Status: "ready"}, carrierOf(g.o.Heard()), g.full(ctx), missing})
}

// full says what a Redis that is full refuses, and what to do; empty: none is known to be
// full. A daemon is ready all the same: acknowledgements, which go through it, make room.
func (g *Gate) full(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, fullWithin)
	defer cancel()
	servers, _ := g.store.Servers(ctx)
	for _, s := range servers {
		info, err := s.Info(ctx, "memory")
		if m := g.store.MemoryOf(info); err == nil && !s.IsReplica && m.IsFull() {
			return "Redis is full, so publishes are refused: have messages handled, cancelled or purged, or raise maxmemory"
		}
	}
	return ""
}

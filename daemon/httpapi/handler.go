package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/rs/cors"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
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
			err = errors.Join(grant.AllowRights([]calls.Right{calls.MayMetrics}), grant.AllowTopic(">"))
		}
		if err == nil {
			guard.OnSlot(c.r.Context(), (*guard.Slot).Authenticate)
			g.o.Metrics.ServeHTTP(c.w, c.r)
		}
		return err
	})
}

// register adds every call of the API.
func (g *Gate) register(mux *http.ServeMux, doc *huma.OpenAPI) {
	register(g, mux, doc, calls.Publish, g.publish)
	register(g, mux, doc, calls.Broadcast, g.broadcast)
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: "/v1/messages", Name: "publishMany", Tag: calls.TagPublish, Status: http.StatusOK, ReplyType: ndjson, Reply: bulkResult{}, Request: notify.Line{}, RequestType: ndjson,
		Rights: []calls.Right{calls.MayPublish}, Errors: []int{413}, Summary: "Publish many messages and broadcasts",
		Description: "A line of JSON each, up to 10,000 lines and 16 MiB. The answer has a line for each, in the same order: a publication, or an error. A refused line does not affect the others.",
	}, g.bulk)
	register(g, mux, doc, calls.Inspect, g.inspect)
	g.registerClaims(mux, doc)
	for _, one := range calls.Table() {
		g.offer(mux, doc, one)
	}
}

// registerClaims adds the calls of workers and listeners.
func (g *Gate) registerClaims(mux *http.ServeMux, doc *huma.OpenAPI) {
	const topic, message = calls.PathTopic, calls.PathMessage
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: topic + "/claim", Name: "claim", Tag: calls.TagConsume, Lasts: true, Raw: true, Status: http.StatusOK, Reply: api.Claimed{},
		Rights: []calls.Right{calls.MayConsume}, Summary: "Claim messages, and wait until there is one",
		Description: "Messages are leased: acknowledge each with its receipt before its lease ends, or it is delivered again.",
	}, g.claim)
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: "/v1/claim", Name: "claimAny", Tag: calls.TagConsume, Lasts: true, Raw: true, Status: http.StatusOK, Reply: api.Claimed{},
		Rights: []calls.Right{calls.MayConsume}, Summary: "Claim messages of up to 32 topics, and wait until there is one",
		Description: "Messages are leased as by a claim of one topic. A claim that waits is woken by any of the topics, and then gets what that one has ready. The token must permit each of the topics. An answer that has 4 MiB of bodies gets no more.",
	}, g.claimAny)
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: message + "/ack", Name: "ack", Tag: calls.TagConsume, Status: http.StatusNoContent, Reply: api.LeftOut{}, RequestType: "*/*",
		Rights: []calls.Right{calls.MayConsume}, Errors: []int{409, 413}, Summary: "Acknowledge a message as done",
		Description: "With keep the body, of up to 64 KiB, is its result: the message stays as done, and whoever inspects it gets both. Without keep there is no body.",
		Also:        "With keep: the message is acknowledged, and is not kept: Redis is short of memory, or a message follows it.",
	}, g.ack)
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: message + "/nack", Name: "nack", Tag: calls.TagConsume, Status: http.StatusNoContent, Reply: api.LeftOut{},
		Rights: []calls.Right{calls.MayConsume}, Errors: []int{409}, Summary: "Reject a message: it is delivered again, or dies",
		Also: "The message is rejected, and Redis is short of memory to note the attempt in its history.",
	}, g.nack)
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: message + "/extend", Name: "extend", Tag: calls.TagConsume, Status: http.StatusOK, Reply: api.Extended{},
		Rights: []calls.Right{calls.MayConsume}, Errors: []int{409}, Summary: "Extend the lease of a message, counted from now",
		Description: "The receipt stays the same, however often the lease is extended: a worker extends it while its handler runs, and acknowledges with the receipt of its claim.",
	}, g.extend)
	register(g, mux, doc, calls.Call{
		Method: "POST", Path: topic + "/ack", Name: "ackMany", Tag: calls.TagConsume, Status: http.StatusOK, Reply: api.Acked{}, Request: []api.Receipt{},
		Rights: []calls.Right{calls.MayConsume}, Errors: []int{413}, Summary: "Acknowledge up to 10,000 messages of a topic",
	}, g.ackMany)
	register(g, mux, doc, calls.Call{
		Method: "GET", Path: topic + "/broadcasts", Name: "listen", Tag: calls.TagListen, Lasts: true, Status: http.StatusOK, ReplyType: eventStream, Reply: api.Broadcast{},
		Rights: []calls.Right{calls.MayListen}, Errors: []int{429}, Summary: "Listen for broadcasts, as server-sent events",
		Description: "The data of an event broadcast is a broadcast, and its id is an opaque bookmark, by which a client resumes. An event gap reports which broadcasts were removed before they could be sent. It also reports up to where some may be missing because Redis lost its data; then its topic is the requested topic or pattern. A comment is sent after every 15 s without an event.",
	}, g.listen)
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
		AllowedMethods: []string{"GET", "POST", "PUT", "PATCH", "DELETE"},
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

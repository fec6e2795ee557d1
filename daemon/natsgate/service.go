package natsgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
)

const (
	maxConcurrent    = 256      // slots: requests that are handled at the same time
	slotBytes        = 64 << 10 // bytes of a request for each slot that it takes
	maxWaiting       = 65_536   // waiting requests of an endpoint, beyond which the newest are lost
	maxWaitingSize   = 64 << 20 // bytes of them, if they have bodies
	maxSmallSize     = 8 << 20  // bytes of them, if they have none
	throttleInterval = time.Minute
)

// A request is a request over NATS.
type request struct {
	conn   *connection
	name   string // the rest of its subject behind the endpoint: a topic, or what names a claimed message
	reply  string
	header nats.Header
	data   []byte

	finish func(*nats.Msg, error) // answers it, where the handler returned neither a reply nor an error
}

// An endpoint handles the requests of one kind.
type endpoint struct {
	name   string // also the token behind the prefix in its subjects
	rest   string // wildcard at the end of its subject; empty: none
	silent bool   // accepts requests without a reply subject
	most   int    // bytes of waiting requests
	turns  turns  // that requests take until they are answered; nil: their answers have no bodies
	handle func(context.Context, request) (*nats.Msg, error)
	tally  *tally
}

func (g *Gate) makeEndpoints() []endpoint {
	searches := make(turns, maxSearches)
	all := []endpoint{
		{name: "publish", rest: ">", handle: g.publish, most: maxWaitingSize},
		{name: "publish-broadcast", rest: ">", handle: g.publishBroadcast, most: maxWaitingSize},
		{name: "claim", rest: ">", handle: g.claim, most: maxSmallSize, turns: make(turns, maxClaims)},
		{name: "settle", rest: "*.*", handle: g.settle, silent: true, most: maxSmallSize},
		{name: calls.Inspect.Subject(), rest: ">", handle: g.inspect, most: maxSmallSize, turns: g.reads},
		{name: calls.Settings.Subject(), rest: ">", handle: g.settings, most: maxSmallSize},
		{name: "defaults", handle: g.defaults, most: maxSmallSize},
	}
	for _, c := range calls.Table() {
		all = append(all, g.offered(c, searches)...)
	}
	for i := range all {
		all[i].tally = new(tally)
	}
	return all
}

// addService offers the endpoints on a connection. It fails if the connection
// is lost already.
func (g *Gate) addService(work context.Context, conn *connection) (*service, error) {
	s := newService()
	for _, e := range g.endpoints {
		sub, err := conn.nc.QueueSubscribe(g.subject(e), serviceName, g.handler(work, conn, e))
		if err := s.add(sub, err, maxWaiting, e.most); err != nil {
			_ = s.stop() // the connection is lost, which is logged
			return nil, fmt.Errorf("offer %s: %w", e.name, err)
		}
	}
	if err := g.addDiscovery(s, conn.nc); err != nil {
		_ = s.stop()
		return nil, err
	}
	return s, nil
}

// subject returns the subject that an endpoint subscribes to.
func (g *Gate) subject(e endpoint) string {
	subject := g.o.Prefix + "." + e.name
	if e.rest != "" {
		subject += "." + e.rest
	}
	return subject
}

// handler returns the callback for an endpoint's requests. It blocks while there is no turn or all slots are taken; meanwhile
// requests wait in the connection. The turn comes first: the slots are there for all endpoints, and none waits in one for its turn.
func (g *Gate) handler(work context.Context, conn *connection, e endpoint) nats.MsgHandler {
	prefix := g.o.Prefix + "." + e.name + "."
	return func(m *nats.Msg) {
		r := request{conn: conn, name: strings.TrimPrefix(m.Subject, prefix), reply: m.Reply, header: m.Header, data: m.Data}
		r.finish = func(reply *nats.Msg, err error) { g.finish(e, r.reply, reply, err) }
		e.tally.requests.Add(1)
		if !(r.reply == "" && e.silent) && !g.mayReply(e.name, r.reply) {
			e.tally.refused.Add(1)
			return
		}
		if err := e.turns.take(g.slots.open); err != nil {
			r.finish(nil, err)
			return
		}
		handled := g.slots.run(wireSize(m), func() {
			defer e.turns.end()
			g.handle(work, e, r)
		})
		if !handled {
			e.turns.end()
		}
	}
}

// handle handles one request.
func (g *Gate) handle(ctx context.Context, e endpoint, r request) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if reply, err := e.handle(ctx, r); reply != nil || err != nil {
		r.finish(reply, err)
	}
}

// finish answers a request, with a reply or an error.
func (g *Gate) finish(e endpoint, to string, reply *nats.Msg, err error) {
	if err != nil {
		reply = g.refuse(e, err)
	}
	if to != "" {
		g.answer(e, to, reply)
	}
}

// mayReply reports whether a request may be answered to its reply subject. If not, the requester cannot be told: the
// request is counted, and logged at most once a minute.
func (g *Gate) mayReply(endpoint, reply string) bool {
	switch {
	case reply == "":
		g.count.noReply.Add(1)
		if n := g.noReply.ToLog(throttleInterval); n > 0 {
			g.o.Logger.Warn("requests without a reply subject are refused: send them as requests", "endpoint", endpoint, "requests", n)
		}
	case !g.allowedReply(reply):
		g.count.refusedReplies.Add(1)
		if n := g.badReply.ToLog(throttleInterval); n > 0 {
			g.o.Logger.Warn("requests with a reply subject of nats or of bellhop are refused: have them answered to an inbox",
				"endpoint", endpoint, "reply", fmt.Sprintf("%.200s", reply), "requests", n)
		}
	default:
		return true
	}
	return false
}

// allowedReply reports whether a reply subject may be the requester's own. The gateway publishes there with its own rights, and
// often what the requester chose. So it refuses subjects of NATS itself, subjects under the gateway's prefix, where an answer would
// be a request or pass for a message of the gateway, those of pushes, and patterns.
func (g *Gate) allowedReply(reply string) bool {
	if strings.HasPrefix(reply, "$") || strings.HasPrefix(reply, g.o.Prefix+".") || g.isReserved(reply) {
		return false
	}
	for token := range strings.SplitSeq(reply, ".") {
		if token == "" || token == "*" || token == ">" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// refuse counts an error and returns the reply that reports it.
func (g *Gate) refuse(e endpoint, err error) *nats.Msg {
	p := api.ProblemOf(err)
	if p.Status < http.StatusInternalServerError {
		e.tally.refused.Add(1)
	} else {
		e.tally.failed.Add(1)
	}
	g.o.Logger.Debug("request refused", "endpoint", e.name, "status", p.Status, "error", err)
	return problemMessage(p)
}

// problemMessage returns an error reply of NATS services, with the problem as JSON.
func problemMessage(p api.Problem) *nats.Msg {
	m := jsonMessage(p)
	m.Header.Set("Content-Type", "application/problem+json")
	m.Header.Set(micro.ErrorHeader, p.Detail)
	m.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(p.Status))
	return m
}

// jsonMessage returns a reply of JSON.
func jsonMessage(v any) *nats.Msg {
	m := nats.NewMsg("")
	m.Header.Set("Content-Type", "application/json")
	m.Data, _ = json.Marshal(v) // of types that always can
	return m
}

// answer sends a reply. A reply that exceeds max_payload becomes an error.
func (g *Gate) answer(e endpoint, to string, reply *nats.Msg) {
	reply.Subject = to
	err := g.send(reply)
	if errors.Is(err, nats.ErrMaxPayload) {
		reply = g.refuse(e, fmt.Errorf("reply of %d bytes: the max_payload of nats is %d; ask over HTTP or Redis", wireSize(reply), g.maxPayload()))
		reply.Subject = to
		err = g.send(reply)
	}
	if err != nil {
		g.count.lostReplies.Add(1)
	}
}

// wireSize returns the bytes of a message that count towards max_payload: its header and data.
func wireSize(m *nats.Msg) int { return m.Size() - len(m.Subject) - len(m.Reply) }

// slots limit the requests that are handled at a time. A request takes one, and one more for every slotBytes bytes.
type slots struct {
	free  *semaphore.Weighted
	open  context.Context // ends with end: no more requests are handled
	close context.CancelFunc
}

func newSlots() slots {
	s := slots{free: semaphore.NewWeighted(maxConcurrent)}
	s.open, s.close = context.WithCancel(context.Background())
	return s
}

// run runs f, for a request of so many bytes, in a goroutine as soon as its slots are free. It reports false, and f does not run,
// after end.
func (s slots) run(bytes int, f func()) bool {
	n := min(1+int64(bytes/slotBytes), maxConcurrent)
	if s.free.Acquire(s.open, n) != nil {
		return false
	}
	go func() {
		defer s.free.Release(n)
		f()
	}()
	return true
}

// wait waits until all slots are free, or ctx ends.
func (s slots) wait(ctx context.Context) {
	if s.free.Acquire(ctx, maxConcurrent) == nil {
		s.free.Release(maxConcurrent)
	}
}

// end refuses further requests, and waits until all slots are free.
func (s slots) end() {
	s.close()
	_ = s.free.Acquire(context.Background(), maxConcurrent) // never fails: the context has no end
}

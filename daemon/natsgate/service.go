package natsgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"github.com/bellhopd/bellhop/daemon/api"
)

const (
	maxInHand      = 256      // requests that are handled at the same time
	sizeOfHand     = 64 << 10 // bytes of a request, of which a larger one counts as several
	maxWaiting     = 65_536   // requests of an endpoint that wait, beyond which the newest are lost
	maxWaitingSize = 64 << 20 // bytes of them, where they have bodies
	maxSmallSize   = 8 << 20  // bytes of them, where they have none
	seldomEvery    = time.Minute
)

// A request is one that came over NATS.
type request struct {
	name   string // what follows the endpoint in its subject: a topic, or a token
	reply  string
	header nats.Header
	data   []byte
}

// An endpoint handles the requests of one kind.
type endpoint struct {
	name   string // of the endpoint, and the word behind the prefix in its subjects
	rest   string // of its subject; empty: there is none
	silent bool   // a request without a reply subject is carried out
	most   int    // bytes of requests that wait
	handle func(context.Context, request) (*nats.Msg, error)
	tally  *tally
}

func (g *Gate) makeEndpoints() []endpoint {
	all := []endpoint{
		{name: "publish", rest: ">", handle: g.publish, most: maxWaitingSize},
		{name: "publish-broadcast", rest: ">", handle: g.publishBroadcast, most: maxWaitingSize},
		{name: "claim", rest: ">", handle: g.claim, most: maxSmallSize},
		{name: "settle", rest: "*", handle: g.settle, silent: true, most: maxSmallSize},
		{name: "cancel", rest: ">", handle: g.cancel, most: maxSmallSize},
		{name: "reschedule", rest: ">", handle: g.reschedule, most: maxSmallSize},
		{name: "inspect", rest: ">", handle: g.inspect, most: maxSmallSize},
		{name: "settings", rest: ">", handle: g.settings, most: maxSmallSize},
		{name: "defaults", handle: g.defaults, most: maxSmallSize},
	}
	for i := range all {
		all[i].tally = new(tally)
	}
	return all
}

// addService offers the endpoints on a connection. An error is that of a
// connection that is lost already.
func (g *Gate) addService(work context.Context, conn *nats.Conn) (*service, error) {
	s := newService()
	for _, e := range g.endpoints {
		sub, err := conn.QueueSubscribe(g.subject(e), serviceName, g.handler(work, e))
		if err := s.add(sub, err, maxWaiting, e.most); err != nil {
			_ = s.stop() // the connection is lost, and that is told
			return nil, fmt.Errorf("offer %s: %w", e.name, err)
		}
	}
	if err := g.addDiscovery(s, conn); err != nil {
		_ = s.stop()
		return nil, err
	}
	return s, nil
}

// subject returns what an endpoint subscribes to.
func (g *Gate) subject(e endpoint) string {
	subject := g.o.Prefix + "." + e.name
	if e.rest != "" {
		subject += "." + e.rest
	}
	return subject
}

// handler returns what takes the requests of an endpoint. It waits while all
// hands are full; meanwhile requests wait in the connection.
func (g *Gate) handler(work context.Context, e endpoint) nats.MsgHandler {
	prefix := g.o.Prefix + "." + e.name + "."
	return func(m *nats.Msg) {
		r := request{name: strings.TrimPrefix(m.Subject, prefix), reply: m.Reply, header: m.Header, data: m.Data}
		g.hands.take(wireSize(m), func() { g.handle(work, e, r) })
	}
}

// handle handles one request.
func (g *Gate) handle(ctx context.Context, e endpoint, r request) {
	e.tally.requests.Add(1)
	if !(r.reply == "" && e.silent) && !g.mayReply(e.name, r.reply) {
		e.tally.refused.Add(1)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	reply, err := e.handle(ctx, r)
	if err != nil {
		reply = g.refuse(e, err)
	}
	if r.reply != "" {
		g.answer(e, r.reply, reply)
	}
}

// mayReply reports whether a request may be answered to its reply subject. Else there is nowhere to say so: it is counted, and
// logged when it begins.
func (g *Gate) mayReply(endpoint, reply string) bool {
	switch {
	case reply == "":
		g.count.noReply.Add(1)
		if n := g.noReply.now(); n > 0 {
			g.o.Logger.Warn("requests without a reply subject are refused: send them as requests", "endpoint", endpoint, "since the last time", n)
		}
	case !g.isAskers(reply):
		g.count.refusedReplies.Add(1)
		if n := g.badReply.now(); n > 0 {
			g.o.Logger.Warn("requests with a reply subject of nats or of bellhop are refused: have them answered to an inbox",
				"endpoint", endpoint, "reply", fmt.Sprintf("%.200s", reply), "since the last time", n)
		}
	default:
		return true
	}
	return false
}

// isAskers reports whether a reply subject may be the asker's own. The gate publishes to it with rights of its own, and
// often what the asker chose: so it is none of NATS itself, none under the gate's prefix, where an answer is a
// request or passes for a message of the gate, and no pattern.
func (g *Gate) isAskers(reply string) bool {
	if strings.HasPrefix(reply, "$") || strings.HasPrefix(reply, g.o.Prefix+".") {
		return false
	}
	for token := range strings.SplitSeq(reply, ".") {
		if token == "" || token == "*" || token == ">" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// refuse counts an error and returns how a requester is told of it.
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

// problemMessage returns an error as services over NATS tell one, with the problem as JSON.
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

// answer sends a reply. One that does not fit becomes an error.
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

// wireSize returns how many bytes NATS counts of a message: its header and its data.
func wireSize(m *nats.Msg) int { return m.Size() - len(m.Subject) - len(m.Reply) }

// hands are what requests are handled with, so many at a time: one each, and one more for every sizeOfHand bytes.
type hands struct {
	free  *semaphore.Weighted
	open  context.Context // ends when nothing more is handled
	close context.CancelFunc
}

func newHands() hands {
	h := hands{free: semaphore.NewWeighted(maxInHand)}
	h.open, h.close = context.WithCancel(context.Background())
	return h
}

// take runs f, for a request of so many bytes, in a goroutine as soon as there are free hands.
func (h hands) take(bytes int, f func()) {
	n := min(1+int64(bytes/sizeOfHand), maxInHand)
	if h.free.Acquire(h.open, n) != nil {
		return
	}
	go func() {
		defer h.free.Release(n)
		f()
	}()
}

// wait waits until all hands are free, or ctx ends.
func (h hands) wait(ctx context.Context) {
	if h.free.Acquire(ctx, maxInHand) == nil {
		h.free.Release(maxInHand)
	}
}

// end waits until all hands are free, and handles nothing more.
func (h hands) end() {
	h.close()
	_ = h.free.Acquire(context.Background(), maxInHand) // which ends only with them
}

// seldom says when to log what may happen often.
type seldom struct {
	mu    sync.Mutex
	last  time.Time
	times int
}

// now returns how often it happened since it was logged last, zero if it was logged just now.
func (s *seldom) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times++
	if time.Since(s.last) < seldomEvery {
		return 0
	}
	n := s.times
	s.last, s.times = time.Now(), 0
	return n
}

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

	"github.com/bellhopd/bellhop/daemon/api"
)

const (
	serviceName    = "bellhop" // and its queue group
	serviceVersion = "1.0.0"   // of the contract: it changes when clients have to
	maxInHand      = 256       // requests that are handled at the same time
	maxWaiting     = 65_536    // requests of an endpoint that wait, beyond which the newest are lost
	maxWaitingSize = 64 << 20  // bytes of them
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
	rest   string // of its subject
	silent bool   // a request without a reply subject is carried out
	handle func(context.Context, request) (*nats.Msg, error)
	tally  *tally
}

func (g *Gate) makeEndpoints() []endpoint {
	all := []endpoint{
		{name: "publish", rest: ">", handle: g.publish},
		{name: "publish-broadcast", rest: ">", handle: g.publishBroadcast},
		{name: "claim", rest: ">", handle: g.claim},
		{name: "settle", rest: "*", handle: g.settle, silent: true},
		{name: "cancel", rest: ">", handle: g.cancel},
		{name: "reschedule", rest: ">", handle: g.reschedule},
		{name: "inspect", rest: ">", handle: g.inspect},
	}
	for i := range all {
		all[i].tally = new(tally)
	}
	return all
}

// addService offers the endpoints on a connection. An error is that of a
// connection that is lost already.
func (g *Gate) addService(work context.Context, conn *nats.Conn) (micro.Service, error) {
	service, err := micro.AddService(conn, micro.Config{
		Name: serviceName, Version: serviceVersion, QueueGroup: serviceName,
		Description:  "Delayed and broadcast notifications: publish, claim, settle.",
		Metadata:     map[string]string{"prefix": g.o.Prefix},
		StatsHandler: g.endpointStats,
	})
	if err != nil {
		return nil, fmt.Errorf("offer the service: %w", err)
	}
	for _, e := range g.endpoints {
		err := service.AddEndpoint(e.name, g.handler(work, e),
			micro.WithEndpointSubject(g.o.Prefix+"."+e.name+"."+e.rest), micro.WithEndpointPendingLimits(maxWaiting, maxWaitingSize))
		if err != nil {
			_ = service.Stop() // the connection is lost, and that is told
			return nil, fmt.Errorf("offer %s: %w", e.name, err)
		}
	}
	return service, nil
}

// endpointStats returns what an endpoint counted: it answers requests by
// itself, so the service does not see its errors.
func (g *Gate) endpointStats(of *micro.Endpoint) any {
	for _, e := range g.endpoints {
		if e.name == of.Name {
			return e.tally.read()
		}
	}
	return nil
}

// handler returns what takes the requests of an endpoint. It waits while all
// hands are full; meanwhile requests wait in the connection.
func (g *Gate) handler(work context.Context, e endpoint) micro.Handler {
	prefix := g.o.Prefix + "." + e.name + "."
	return micro.HandlerFunc(func(m micro.Request) {
		r := request{name: strings.TrimPrefix(m.Subject(), prefix), reply: m.Reply(), header: nats.Header(m.Headers()), data: m.Data()}
		g.hands.take(func() { g.handle(work, e, r) })
	})
}

// handle handles one request.
func (g *Gate) handle(ctx context.Context, e endpoint, r request) {
	e.tally.requests.Add(1)
	if r.reply == "" && !e.silent {
		e.tally.refused.Add(1)
		g.count.noReply.Add(1)
		if n := g.seldom.now(); n > 0 {
			g.o.Logger.Warn("requests without a reply subject are refused: send them as requests", "endpoint", e.name, "since the last time", n)
		}
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

// hands are what requests are handled with, so many at a time.
type hands struct {
	slots chan struct{}
	over  chan struct{} // closed when nothing more is handled
}

func newHands() hands {
	return hands{slots: make(chan struct{}, maxInHand), over: make(chan struct{})}
}

// take runs f in a goroutine, as soon as there is a free hand.
func (h hands) take(f func()) {
	select {
	case h.slots <- struct{}{}:
	case <-h.over:
		return
	}
	go func() {
		defer func() { <-h.slots }()
		f()
	}()
}

// wait waits until all hands are free, or ctx ends.
func (h hands) wait(ctx context.Context) {
	taken := 0
	for ; taken < maxInHand; taken++ {
		select {
		case h.slots <- struct{}{}:
			continue
		case <-ctx.Done():
		}
		break
	}
	for ; taken > 0; taken-- {
		<-h.slots
	}
}

// close waits until all hands are free, and handles nothing more.
func (h hands) close() {
	close(h.over)
	for range maxInHand {
		h.slots <- struct{}{}
	}
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

package natsgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/daemon/api"
)

// throttleInterval is how often at most a refusal is logged that no requester is told.
const throttleInterval = time.Minute

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
		handled := g.inSlots(wireSize(m), func() {
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

// subject returns the subject that an endpoint subscribes to.
func (g *Gate) subject(e endpoint) string {
	subject := g.o.Prefix + "." + e.name
	if e.rest != "" {
		subject += "." + e.rest
	}
	return subject
}

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/subscribers"
)

const reconnect = "retry: 1000\n" // ms until a client connects again

type listenInput struct {
	Pattern     string `path:"topic" is:"pattern" maxLength:"134" example:"prices.gold" doc:"a topic, or a pattern: * stands for any one token, and > at the end for one or more; $dead.TOPIC, which needs a token for just that, has the deaths of a topic while a named listener is registered for them"`
	Since       string `query:"since" maxLength:"4096" pattern:"^(now|beginning|[0-9]+-[0-9]{1,3}|[0-9]{1,3}\\.[A-Za-z0-9_-]+|[0-9]{4}-[0-9]{2}-[0-9]{2}T.+)$" example:"beginning" doc:"where to begin: beginning, now, a time, or after the event of an id; missing: now"`
	LastEventID string `header:"Last-Event-ID" maxLength:"4096" pattern:"^([0-9]+-[0-9]{1,3}|[0-9]{1,3}\\.[A-Za-z0-9_-]+)$" example:"1735830245678-123" doc:"the id of the last event received: resume after it, and ignore since. It is opaque: the position of the broadcast, or in a store of several shards, for a pattern of many topics, a bookmark"`
}

// origin returns the name of the parameter that says where the stream begins.
func (in *listenInput) origin() string {
	if in.LastEventID != "" {
		return "Last-Event-ID"
	}
	return "since"
}

// from returns where the stream begins.
func (in *listenInput) from() (subscribers.From, error) {
	if in.LastEventID != "" {
		return subscribers.After(subscribers.Bookmark(in.LastEventID)), nil
	}
	if in.Since == "" {
		return subscribers.FromNow(), nil
	}
	from, err := subscribers.ParseFrom(in.Since)
	if err != nil {
		return from, fault.New("since", "since %.100q: use now, beginning, a time of RFC 3339 such as %s, or the id of an event", in.Since, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	}
	return from, nil
}

// defaultMaxStreams is the default of Options.MaxStreams. Each stream may keep 64 KiB of
// small broadcasts in memory while its client is slow; large ones count against the
// token's memory.
const defaultMaxStreams = 10_000

// listen streams broadcasts until the client goes away or the gateway closes.
func (g *Gate) listen(ctx context.Context, c *call, in *listenInput) (any, error) {
	if err := c.enterTopics(in.Pattern); err != nil {
		return nil, err
	}
	from, err := in.from()
	if err != nil {
		return nil, err
	}
	if err := g.store.Check(ctx); err != nil { // once the stream has begun, it cannot report this
		return nil, err
	}
	defer c.grant.Streams.Add(-1)
	if c.grant.Streams.Add(1) > int64(g.o.MaxStreams) {
		return nil, fmt.Errorf("%w: %d; close some, or listen to a pattern such as orders.> by one in place of many", errStreams, g.o.MaxStreams)
	}
	open, done := c.open(ctx)
	defer done()
	g.streams.Add(1)
	defer g.streams.Add(-1)
	s := &stream{c: c, rc: http.NewResponseController(c.w)}
	defer s.stop()
	defer context.AfterFunc(open, s.hurry)()
	err = g.listener.Listen(open, in.Pattern, s.broadcast, subscribers.ListenOptions{From: from, OnStart: s.began, OnGap: s.gap})
	if wrong := new(fault.Fault); errors.As(err, &wrong) && wrong.Field == "from" { // a bookmark that is none, or of a store with other shards
		err = fault.Renamed(in.origin(), wrong.Err)
	}
	if open.Err() == nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, guard.ErrBusy)) {
		g.cut.Add(1)
	}
	if errors.Is(err, errGone) {
		return nil, nil
	}
	if cause := context.Cause(open); err == nil && c.w.(*recorder).status == 0 && !errors.Is(cause, context.Canceled) {
		return nil, cause // the stream ended before it began
	}
	return nil, err
}

// errGone ends a stream whose client no longer reads.
var errGone = errors.New("the client is gone")

// A stream is a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). A client that
// reads nothing for a while is cut off, and resumes where it was.
type stream struct {
	c       *call
	rc      *http.ResponseController
	hurried atomic.Bool // the stream is to end

	mu      sync.Mutex
	quiet   *time.Timer // until the next comment; nil: the stream has not begun
	stopped bool
}

// hurry bounds the present write, so that it does not delay the end of the stream.
func (s *stream) hurry() {
	s.hurried.Store(true)
	_ = s.c.writeWithin(s.c.gate.timing.closed)
}

// stop ends the comments. When it returns, none is being written.
func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.quiet != nil {
		s.quiet.Stop()
	}
}

// began opens the stream. It sends the bookmark as an id of its own: a client that
// connects again before the first event resumes there.
func (s *stream) began(at subscribers.Bookmark) {
	h := s.c.w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // or nginx keeps events back
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.send(func(p *pieces) { // an error of the connection shows again with the next event
		p.text(reconnect + "id: " + string(at) + "\n\n")
	})
	s.quiet = time.AfterFunc(s.c.gate.timing.quiet, s.comment)
}

// broadcast sends a broadcast. A client is also cut off if the memory of its token is
// full because streams read too slowly.
func (s *stream) broadcast(_ context.Context, b *subscribers.Broadcast) error {
	one := *b
	head, body := calls.Split(&one.Body, func() api.Broadcast { return api.BroadcastOf(&one) })
	if body != nil {
		free, err := s.c.share(body)
		if err != nil {
			return err
		}
		defer free()
	}
	return s.event("broadcast", b.Bookmark(), head, body)
}

// gap sends an event for missing broadcasts.
func (s *stream) gap(g subscribers.Gap) {
	_ = s.event("gap", g.Bookmark(), api.Gap{Topic: g.Topic, After: g.After, UpTo: g.UpTo}, nil) // as in began
}

func (s *stream) event(name string, id subscribers.Bookmark, data any, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(func(p *pieces) {
		p.text("id: " + string(id) + "\nevent: " + name + "\ndata: ")
		p.object(data, body)
		p.text("\n\n")
	})
}

// comment sends a comment, which keeps the connection in use.
func (s *stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	_ = s.send(func(p *pieces) { p.text(":\n\n") })
}

// send sends the text that write writes. The mutex is held.
func (s *stream) send(write func(*pieces)) error {
	if err := s.c.writeWithin(s.c.gate.timing.answer); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if s.hurried.Load() { // hurry may have set its deadline before the one above
		s.hurry()
	}
	p := newPieces(s.c, true)
	write(p)
	err := p.end()
	if err == nil {
		err = s.rc.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if s.quiet != nil {
		s.quiet.Reset(s.c.gate.timing.quiet)
	}
	return nil
}

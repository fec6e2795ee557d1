package httpapi

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// publishing is the input of a call that publishes: of one whose parameters are wrong
// all faults are reported at once.
type publishing interface{ otherFaults(err error) error }

// faulty returns the names of the fields that an error reports.
func faulty(err error) (names []string) {
	for _, f := range fault.All(err) {
		names = append(names, strings.ToLower(strings.ReplaceAll(f.Field, "-", "_"))) // the content type is a header
	}
	return names
}

type publishInput struct {
	calls.OfTopic
	M notify.Message
}

// otherFaults returns those of the message beside the ones of an error.
func (in *publishInput) otherFaults(err error) error {
	in.M.Topic = in.Topic
	return in.M.Faults(faulty(err)...)
}

// publish publishes a message for one worker.
func (g *Gate) publish(ctx context.Context, c *call, in *publishInput) (any, error) {
	if err := c.fill(&in.M, in.Topic); err != nil {
		return nil, err
	}
	return c.published(g.pub.Publish(ctx, in.M))
}

type broadcastInput struct {
	calls.OfTopic
	M notify.Message `lacks:"message"`
}

// otherFaults returns those of the broadcast beside the ones of an error.
func (in *broadcastInput) otherFaults(err error) error {
	in.M.Topic, in.M.Broadcast = in.Topic, true
	return in.M.Faults(faulty(err)...)
}

// broadcast publishes a message for everyone who listens.
func (g *Gate) broadcast(ctx context.Context, c *call, in *broadcastInput) (any, error) {
	if err := c.fill(&in.M, in.Topic); err != nil {
		return nil, err
	}
	return c.published(g.pub.Broadcast(ctx, in.M))
}

// fill completes a message with what is not in its parameters: its topic, the body of
// the request, and the headers to keep.
func (c *call) fill(m *notify.Message, topic string) (err error) {
	m.Topic = topic
	if err := cmp.Or(c.grant.AllowTopic(topic), c.grant.AllowGroup(m)); err != nil {
		return err
	}
	if m.ContentType == calls.FormType {
		m.ContentType = ""
	}
	if m.Headers, err = keptHeaders(c.r.Header); err != nil {
		return err
	}
	m.Body, err = c.body(c.gate.o.MaxBody)
	return err
}

// ownHeader is the prefix of Bellhop's own headers.
const ownHeader = "Bellhop-"

// keptHeaders returns the headers of a request to keep with its message.
func keptHeaders(h http.Header) (map[string]string, error) {
	var kept map[string]string
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if !strings.HasPrefix(name, ownHeader) {
			continue
		}
		short, keep := strings.CutPrefix(name, api.KeepHeader)
		var err error
		switch {
		case !keep:
			err = fault.New(name, "header %.100q: it is unknown; use Bellhop-Header-NAME for a header to keep with the message", name)
		case len(h[name]) > 1:
			err = fault.New(name, "header %.100q: it is given twice; give it once", name)
		default:
			err = fault.Renamed(name, record.CheckHeader(short, h[name][0]))
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if kept == nil {
			kept = make(map[string]string)
		}
		kept[short] = h[name][0]
	}
	return kept, joinFirst(faults)
}

// noHeaders refuses Bellhop's headers in a call that publishes no message.
func noHeaders(h http.Header) error {
	var faults []error
	for name := range h {
		if strings.HasPrefix(name, ownHeader) {
			faults = append(faults, fault.New(name, "header %.100q: it is unknown here; leave it out", name))
		}
	}
	return joinFirst(faults)
}

// published answers a publish: with 201 for a new message, and 200 where there was one.
func (c *call) published(p notify.Publication, err error) (any, error) {
	if err != nil {
		return nil, api.PublishError(p, err)
	}
	if p.Outcome == notify.Created {
		return api.PublicationOf(p), nil
	}
	_ = c.answer(http.StatusOK, api.PublicationOf(p)) // an error means that the client is gone
	return nil, nil
}

// inspect answers with what is known of a message, with a wait once it ended.
func (g *Gate) inspect(ctx context.Context, c *call, in *calls.InspectInput) (any, error) {
	if err := c.enterTopics(in.Topic); err != nil {
		return nil, err
	}
	look := g.o.Service.Inspector.Inspect
	if in.Wait > 0 {
		look = func(_ context.Context, topic, id string) (notify.Info, error) { return c.awaitEnd(topic, id, in.Wait) }
	}
	info, err := look(ctx, in.Topic, in.ID)
	if err != nil {
		return nil, err
	}
	bytes := len(info.Body) + len(info.Result)
	if info.Next != nil {
		bytes += len(info.Next.Body)
	}
	if err := c.reserveAtOnce(int64(bytes)); err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/json")
	p := newPieces(c, false)
	head, body := calls.Split(&info.Body, func() any { return api.MessageOf(info) })
	p.object(head, body)
	p.text("\n")
	_ = p.end() // an error means that the client is gone
	if in.Wait > 0 && c.r.Context().Err() != nil {
		c.w.(*recorder).status = statusGone
	}
	return nil, nil
}

// awaitEnd waits until a message has ended. It returns the message as it is when the wait
// is over, the client goes away or the daemon stops: the client may ask another one.
func (c *call) awaitEnd(topic, id string, wait time.Duration) (notify.Info, error) {
	if err := c.writeWithin(c.gate.timing.answer + wait); err != nil {
		return notify.Info{}, err
	}
	open, done := c.open(c.r.Context())
	defer done()
	ctx, cancel := context.WithTimeout(open, wait)
	defer cancel()
	c.gate.waits.Add(1)
	defer c.gate.waits.Add(-1)
	info, err := api.Awaited(c.gate.o.Service.Inspector.Await(ctx, topic, id))
	switch cause := context.Cause(open); {
	case errors.Is(cause, tokens.ErrUnknown):
		return info, cause
	case cause != nil:
		c.w.Header().Set("Connection", "close")
	}
	return info, err
}

// enterTopics admits a call about some topics: the token permits all of them, and there is no body.
func (c *call) enterTopics(topics ...string) error {
	var refused []error
	for _, topic := range topics {
		refused = append(refused, c.grant.AllowTopic(topic))
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	return c.noBody()
}

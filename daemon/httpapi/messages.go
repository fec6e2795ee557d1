package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// ofTopic is the input of a call about a topic.
type ofTopic struct {
	Topic string `path:"topic" is:"topic" maxLength:"128" pattern:"^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$" example:"order.timeout" doc:"tokens of letters, digits, _ and -, joined by single dots"`
}

// ofMessage is the input of a call about a message.
type ofMessage struct {
	ofTopic
	ID string `path:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"id of the message"`
}

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
	ofTopic
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
	ofTopic
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

// formType is what curl -d sends with any body, so it says nothing of this one. A form that
// a browser's fetch sends names its charset behind it, and keeps its type.
const formType = "application/x-www-form-urlencoded"

// fill completes a message with what is not in its parameters: its topic, the body of
// the request, and the headers to keep.
func (c *call) fill(m *notify.Message, topic string) (err error) {
	if err := c.grant.AllowTopic(topic); err != nil {
		return err
	}
	m.Topic = topic
	if m.ContentType == formType {
		m.ContentType = ""
	}
	if m.Headers, err = keptHeaders(c.r.Header); err != nil {
		return err
	}
	m.Body, err = c.body(c.gate.o.MaxBody)
	return err
}

// Prefixes of Bellhop's own headers.
const (
	ownHeader  = "Bellhop-"
	keepHeader = "Bellhop-Header-" // followed by the name of a header that is kept
)

// keptHeaders returns the headers of a request to keep with its message.
func keptHeaders(h http.Header) (map[string]string, error) {
	var kept map[string]string
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if !strings.HasPrefix(name, ownHeader) {
			continue
		}
		short, keep := strings.CutPrefix(name, keepHeader)
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

type inspectInput struct {
	ofMessage
	Wait time.Duration `query:"wait" shortest:"0s" longest:"5m" default:"0s" example:"30s" doc:"how long to wait until the message is dead or done; at most 5m"`
}

// inspect answers with what is known of a message, with a wait once it ended.
func (g *Gate) inspect(ctx context.Context, c *call, in *inspectInput) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	look := g.inspector.Inspect
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
	if !c.tryReserve(int64(bytes)) {
		return nil, guard.ErrBusy
	}
	c.w.Header().Set("Content-Type", "application/json")
	p := newPieces(c, false)
	p.object(messageOf(info))
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
	info, err := api.Awaited(c.gate.inspector.Await(ctx, topic, id))
	switch cause := context.Cause(open); {
	case errors.Is(cause, tokens.ErrUnknown):
		return info, cause
	case cause != nil:
		c.w.Header().Set("Connection", "close")
	}
	return info, err
}

// enterTopic admits a call about a topic: the token permits the topic, and there is no body.
func (c *call) enterTopic(topic string) error { return c.enterTopics([]string{topic}) }

// enterTopics is enterTopic for a call about several topics, all of which the token must
// permit.
func (c *call) enterTopics(topics []string) error {
	var refused []error
	for _, topic := range topics {
		refused = append(refused, c.grant.AllowTopic(topic))
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	return c.noBody()
}

type rescheduleInput struct {
	ofMessage
	M notify.Message `has:"delay,due"`
}

// reschedule gives a message another due time.
func (g *Gate) reschedule(ctx context.Context, c *call, in *rescheduleInput) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	p, err := api.RescheduleTo(ctx, g.pub, in.Topic, in.ID, in.M.Delay, in.M.Due)
	if err != nil {
		return nil, err
	}
	return api.PublicationOf(p), nil
}

type cancelInput struct {
	ofMessage
	Next bool `query:"next" default:"false" doc:"true: cancel the message that follows the one of this id, and leave that; 404 if none does"`
}

// cancel removes a message, or the one that follows it.
func (g *Gate) cancel(ctx context.Context, c *call, in *cancelInput) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	was, err := api.CancelIt(ctx, g.pub, in.Topic, in.ID, in.Next)
	if err != nil {
		return nil, err
	}
	return api.CancelledOf(was), nil
}

type listInput struct {
	ofTopic
	State  string `query:"state" enum:"scheduled,ready,leased,dead,done,broadcasts" default:"scheduled" doc:"state of the messages; done lists those that are kept with their results, broadcasts lists scheduled broadcasts"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous page; missing: from the beginning"`
}

// list lists messages, a page at a time.
func (g *Gate) list(ctx context.Context, c *call, in *listInput) (any, error) {
	if err := c.enterTopic(in.Topic); err != nil {
		return nil, err
	}
	if in.State == "broadcasts" {
		return c.page(g.inspector.Broadcasts(ctx, in.Topic, in.Limit, in.Cursor))
	}
	state, err := record.ParseState(in.State)
	if err != nil {
		return nil, err
	}
	return c.page(g.inspector.List(ctx, in.Topic, state, in.Limit, in.Cursor))
}

// page answers with a page of messages.
func (c *call) page(p notify.Page, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	bytes := int64(0)
	for i := range p.Messages {
		bytes += int64(len(p.Messages[i].Body) + len(p.Messages[i].Result))
	}
	c.keepReserved(bytes)
	_ = c.list(len(p.Messages), func(i int) (any, []byte) { return messageOf(p.Messages[i]) }, listEnd{p.Cursor}) // an error means that the client is gone
	return nil, nil
}

package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/subscribers"
)

// claimOptions are the parameters of every claim over HTTP.
type claimOptions struct {
	calls.ClaimOptions
	As string `query:"as" enum:"body" doc:"body: answer with the body of one message as it is, and its other fields in headers; 204 if there is none"`
}

type claimInput struct {
	calls.OfTopic
	claimOptions
}

// claim claims messages of a topic.
func (g *Gate) claim(ctx context.Context, c *call, in *claimInput) (any, error) {
	return g.claimOf(ctx, c, []string{in.Topic}, in.claimOptions, false)
}

type claimAnyInput struct {
	Topics string `query:"topics" required:"true" is:"topics" pattern:"^[A-Za-z0-9_.@-]+(,[A-Za-z0-9_.@-]+){0,31}$" example:"order.timeout,order.paid" doc:"1 to 32 topics, joined by commas, each once"`
	Order  string `query:"order" enum:"given,oldest" default:"given" doc:"given: messages of a topic before those of the topics behind it; oldest: the oldest of all topics, sorted by due time, which asks for topics of one shard"`
	claimOptions
}

// claimAny claims messages of several topics.
func (g *Gate) claimAny(ctx context.Context, c *call, in *claimAnyInput) (any, error) {
	return g.claimOf(ctx, c, strings.Split(in.Topics, ","), in.claimOptions, in.Order == "oldest")
}

// claimOf claims messages. It releases those that cannot be handed over any more, also if
// the client only ended its side of the connection. Such a client may still read, but
// looks like one that is gone, which would keep messages for a whole lease.
func (g *Gate) claimOf(ctx context.Context, c *call, topics []string, o claimOptions, oldest bool) (any, error) {
	if err := c.enterTopics(topics...); err != nil {
		return nil, err
	}
	if err := o.checkRaw(); err != nil {
		return nil, err
	}
	if err := c.writeWithin(c.gate.timing.answer + o.Wait); err != nil {
		return nil, err
	}
	open, done := c.open(ctx)
	defer done()
	options := o.Options()
	options.Oldest = oldest
	ds, err := g.claimer.ClaimAny(open, topics, options)
	if ctx.Err() != nil && len(ds) == 0 {
		return nil, c.answerGone()
	}
	if err != nil && o.Wait > 0 {
		err = c.cutShort(open, err)
	}
	if err != nil {
		return nil, err
	}
	reserve := c.reserveAtOnce
	if o.Ack != "" { // what is acknowledged cannot be released
		reserve = c.reserve
	}
	if err = reserve(bytesOf(ds)); err == nil {
		inOwnGoroutine(func() { err = c.handOver(ctx, ds) })
	}
	if err != nil && len(ds) > 0 {
		g.giveBack(ctx, topics, o, ds, err)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, c.answerGone()
	case err != nil && len(ds) > 0:
		return nil, err
	}
	for _, d := range ds {
		g.o.OnClaimed(d, d.Late())
	}
	return nil, nil
}

// giveBack releases messages of some topics that could not be handed over. If that fails,
// too, their leases expire. Acknowledged ones are lost.
func (g *Gate) giveBack(ctx context.Context, topics []string, o claimOptions, ds []subscribers.Delivery, err error) {
	if o.Ack != "" {
		g.o.Logger.Warn("messages that a claim acknowledged could not be handed over, and are lost",
			"topic", ds[0].Topic, "messages", len(ds), "first", ds[0].ID, "error", err)
		return
	}
	for _, topic := range topics {
		var some []subscribers.Delivery
		for _, d := range ds {
			if d.Topic == topic {
				d.Body = nil // a release does not need it
				some = append(some, d)
			}
		}
		if len(some) > 0 {
			_, _ = g.claimer.ReleaseMany(context.WithoutCancel(ctx), topic, some)
		}
	}
}

// handOver answers with the claimed messages. An error means that the client is gone.
func (c *call) handOver(ctx context.Context, ds []subscribers.Delivery) error {
	if ctx.Err() != nil { // the client went away during the claim
		return ctx.Err()
	}
	answer := c.handRaw
	if !c.raw() {
		answer = c.handList
	}
	if err := answer(ctx, ds); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush() // a small answer reaches the connection only now
}

// handList answers with the claimed messages as JSON.
func (c *call) handList(_ context.Context, ds []subscribers.Delivery) error {
	return c.list(calls.Listing{N: len(ds), One: func(i int) (any, []byte) {
		d := ds[i]
		return calls.Split(&d.Body, func() any { return api.DeliveryOf(d) })
	}})
}

// bytesOf returns the total size of the bodies of messages.
func bytesOf(ds []subscribers.Delivery) (bytes int64) {
	for i := range ds {
		bytes += int64(len(ds[i].Body))
	}
	return bytes
}

// answerGone answers that there is no message, unless an answer has begun. The request
// is counted as one whose client went away.
func (c *call) answerGone() error {
	rec := c.w.(*recorder)
	if rec.status == 0 {
		c.w.Header().Set("Connection", "close")
		_ = c.answerNone() // an error means that the client is gone
	}
	rec.status = statusGone
	return nil
}

// cutShort returns the error of a poll that was cut short. It is nil, for no message
// until now, when the daemon stops: the client may ask another daemon.
func (c *call) cutShort(open context.Context, err error) error {
	switch cause := context.Cause(open); {
	case errors.Is(cause, tokens.ErrUnknown):
		return cause
	case errors.Is(cause, errDraining), errors.Is(err, subscribers.ErrStopping):
		c.w.Header().Set("Connection", "close")
		return nil
	}
	return err
}

type receiptInput struct {
	calls.OfMessage
	Receipt int64 `query:"receipt" required:"true" minimum:"1" example:"1735830245678900" doc:"the receipt that came with the message; extending its lease does not change it"`
}

// delivery returns the delivery that a receipt names.
func (in *receiptInput) delivery(g *Gate) *subscribers.Delivery {
	return g.claimer.Delivery(in.Topic, in.ID, subscribers.Receipt(in.Receipt))
}

type ackInput struct {
	receiptInput
	Keep time.Duration `query:"keep" shortest:"1ms" longest:"720h" example:"24h" doc:"keep the message as done for so long, with the body of this request as its result; its id stays taken until then. Missing: it is gone"`
}

// ack acknowledges a message, and with keep keeps it with its result.
func (g *Gate) ack(ctx context.Context, c *call, in *ackInput) (any, error) {
	if err := c.grant.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	result, err := c.body(store.MaxResult)
	switch {
	case err != nil:
		return nil, err
	case in.Keep == 0 && len(result) > 0:
		return nil, fault.New("keep", "keep: it is missing, and the body is a result of %d bytes, which is kept for so long; give keep, such as keep=24h, or leave the body out", len(result))
	case in.Keep == 0:
		return nil, in.delivery(g).Ack(ctx)
	}
	forgotten, err := in.delivery(g).AckWith(ctx, notify.AckResult{Body: result, Keep: in.Keep})
	return c.leftOut(api.LeftOutResult, forgotten, err)
}

// leftOut answers a settlement: with 200 where memory was short for a part of it.
func (c *call) leftOut(what string, short bool, err error) (any, error) {
	if err == nil && short {
		_ = c.answer(http.StatusOK, api.LeftOut{LeftOut: what}) // an error means that the client is gone
	}
	return nil, err
}

type nackInput struct {
	receiptInput
	Delay  time.Duration `query:"delay" shortest:"0s" example:"10s" doc:"how long until the message is delivered again; missing: a random wait by the backoff of the topic's settings"`
	Reason string        `query:"reason" maxLength:"8192" example:"no such order" doc:"kept with the message when it dies, cut to 1000 bytes"`
	Dead   bool          `query:"dead" default:"false" doc:"true: the message is never delivered again, and is kept among the dead letters"`

	Attempt string `query:"attempt" enum:"keep" doc:"keep: the message is put off (snoozed), and no attempt is used up. Refused if the delay ends past its time to live, and without one for the 1,001st time"`
}

// nack rejects a message, or buries it.
func (g *Gate) nack(ctx context.Context, c *call, in *nackInput) (any, error) {
	if err := c.enterTopics(in.Topic); err != nil {
		return nil, err
	}
	d := in.delivery(g)
	if in.Reason == "" {
		in.Reason = "refused over http"
	}
	if !c.given("delay") {
		in.Delay = subscribers.ByBackoff
	}
	var out subscribers.Outcome
	var err error
	switch {
	case in.Dead && (c.given("delay") || in.Attempt != ""):
		return nil, in.besideDead(c)
	case in.Dead:
		out, err = d.Bury(ctx, in.Reason)
	case in.Attempt != "":
		if out, err = d.Snooze(ctx, in.Delay); err == nil {
			g.snoozed.Add(1)
		}
	default:
		out, err = d.Nack(ctx, in.Delay, in.Reason)
	}
	return c.leftOut(api.LeftOutHistory, out.Forgetful, err)
}

// besideDead returns a fault of each parameter that dead=true excludes.
func (in *nackInput) besideDead(c *call) error {
	var faults []error
	for _, name := range []string{"delay", "attempt"} {
		if c.given(name) {
			faults = append(faults, fault.New(name, "%s: it is given beside dead=true, and a dead message does not come again; give one of them", name))
		}
	}
	return errors.Join(faults...)
}

type extendInput struct {
	receiptInput
	Lease time.Duration `query:"lease" shortest:"100ms" longest:"24h" example:"30s" doc:"the lease from now on, 100ms to 24h; missing: the lease of the topic's settings"`

	Progress int    `query:"progress" minimum:"0" maximum:"100" example:"40" doc:"how far the work is, in percent: inspect tells that, until the lease ends"`
	Note     string `query:"note" maxLength:"200" example:"page 2 of 5" doc:"what is said beside progress, which it needs: printable UTF-8, up to 200 bytes"`
}

// extend extends the lease of a message.
func (g *Gate) extend(ctx context.Context, c *call, in *extendInput) (any, error) {
	if err := c.enterTopics(in.Topic); err != nil {
		return nil, err
	}
	switch {
	case c.given("progress"):
		ctx = store.WithProgress(ctx, store.Progress{Percent: in.Progress, Note: in.Note})
	case in.Note != "":
		return nil, fault.New("note", "note: it is given without progress; give progress, too, from 0 to 100")
	}
	d := in.delivery(g)
	if err := d.Extend(ctx, in.Lease); err != nil {
		return nil, err
	}
	return api.Extended{Receipt: d.Receipt, Until: d.Until().UTC()}, nil
}

const maxAcks = 10_000 // in one call

// ackMany acknowledges messages.
func (g *Gate) ackMany(ctx context.Context, c *call, in *calls.OfTopic) (any, error) {
	if err := c.grant.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	data, err := c.readList(calls.MaxRequest)
	if err != nil {
		return nil, err
	}
	receipts, err := api.DecodeReceipts(data, maxAcks)
	if err != nil {
		return nil, err
	}
	ds := make([]subscribers.Delivery, 0, len(receipts))
	seen := make(map[api.Receipt]bool, len(receipts))
	for _, r := range receipts {
		if !seen[r] { // AckMany works in batches: a repeated receipt in a later one would seem lost
			seen[r] = true
			ds = append(ds, *g.claimer.Delivery(in.Topic, r.ID, r.Receipt))
		}
	}
	lost, err := g.claimer.AckMany(ctx, in.Topic, ds)
	if err != nil {
		return nil, err
	}
	reply := api.Acked{Acked: len(ds) - len(lost), Lost: make([]string, len(lost))}
	for i := range lost {
		reply.Lost[i] = lost[i].ID
	}
	return reply, nil
}

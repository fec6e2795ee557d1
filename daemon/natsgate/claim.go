package natsgate

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/subscribers"
)

// maxHeld is how many bytes of bodies claims that waited hold at a time, until NATS has taken them.
const maxHeld = 64 << 20

// claim claims messages, sends each to the requester, and returns the reply that ends them. A claim that waits does so beside the
// slots and turns, which others need meanwhile.
func (g *Gate) claim(ctx context.Context, r request) (*nats.Msg, error) {
	var in calls.ClaimOptions
	if err := calls.ReadJSON(claimParams, "", r.data, reflect.ValueOf(&in).Elem()); err != nil {
		return nil, err
	}
	if _, err := g.tokenSecret(ctx); err != nil { // without it nothing is claimed
		return nil, err
	}
	o := in.Options()
	if o.Wait > 0 {
		return nil, g.wait(func(ctx context.Context) { r.finish(g.claimAtLast(ctx, r, o)) })
	}
	ds, err := g.claimer.Claim(ctx, r.name, o)
	if err != nil {
		return nil, err
	}
	return g.handOver(ctx, r, o, ds)
}

// claimAtLast claims messages once there are some, or the wait is over. It ends with the connection of its request: the requester is
// probably gone, too. Where the gateway stops the requester may ask another.
func (g *Gate) claimAtLast(ctx context.Context, r request, o subscribers.ClaimOptions) (*nats.Msg, error) {
	open, cancel := during(ctx, r.conn)
	defer cancel()
	ds, err := g.claimer.Claim(open, r.name, o)
	switch {
	case err == nil:
	case open.Err() != nil, errors.Is(err, subscribers.ErrStopping):
		return noMore(), nil
	default:
		return nil, err
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	bytes := int64(0)
	for i := range ds {
		bytes += int64(len(ds[i].Body))
	}
	if !g.hold(ctx, o, bytes) {
		err := fmt.Errorf("%w: nats does not take what was claimed as fast as it comes; send it again", api.ErrBusy)
		g.giveBack(ctx, r, o, ds, err)
		return nil, err
	}
	defer g.held.Release(bytes)
	return g.handOver(ctx, r, o, ds)
}

// hold reserves memory for bodies that are in it already, so without a wait. What was acknowledged as it was claimed cannot be given
// back: that waits.
func (g *Gate) hold(ctx context.Context, o subscribers.ClaimOptions, bytes int64) bool {
	return g.held.TryAcquire(bytes) || o.AckNow && g.held.Acquire(ctx, bytes) == nil
}

// handOver sends claimed messages to the requester, and returns the reply that ends them.
func (g *Gate) handOver(ctx context.Context, r request, o subscribers.ClaimOptions, ds []subscribers.Delivery) (*nats.Msg, error) {
	if len(ds) == 0 {
		return noMore(), nil
	}
	secret, err := g.tokenSecret(ctx) // again: the claim may have waited for longer than one is good
	if err != nil {
		g.giveBack(ctx, r, o, ds, err)
		return nil, err
	}
	of := anyGate
	if o.Wait > 0 {
		of = g.identity.ID
	}
	for i, d := range ds {
		m := g.claimed(d, of, secret)
		m.Subject = r.reply
		err := g.send(m)
		switch {
		case err == nil:
			g.count.claimed.Add(1)
			g.handedOut(d)
		case errors.Is(err, nats.ErrMaxPayload):
			g.buryTooLarge(ctx, d, wireSize(m))
		default:
			g.count.lostReplies.Add(int64(len(ds) - i))
			g.giveBack(ctx, r, o, ds[i:], err)
			return nil, fmt.Errorf("send claimed messages: %w", err)
		}
	}
	return noMore(), nil
}

// noMore returns the reply that ends claimed messages.
func noMore() *nats.Msg {
	end := nats.NewMsg("")
	end.Header.Set("Status", "204")
	return end
}

// giveBack releases claimed messages that could not be sent; if that fails, too, their leases expire. Acknowledged ones are lost.
func (g *Gate) giveBack(ctx context.Context, r request, o subscribers.ClaimOptions, ds []subscribers.Delivery, err error) {
	if o.AckNow {
		g.lost(ds, err)
		return
	}
	// Sending may have used up the request's time.
	_, _ = g.claimer.ReleaseMany(context.WithoutCancel(ctx), r.name, ds)
}

// lost reports messages that a claim acknowledged, and that could not be sent.
func (g *Gate) lost(ds []subscribers.Delivery, err error) {
	g.o.Logger.Warn("messages that a claim acknowledged could not be sent, and are lost", "topic", ds[0].Topic, "messages", len(ds), "first", ds[0].ID, "error", err)
}

var claimParams = calls.Call{Input: reflect.TypeFor[calls.ClaimOptions]()}.Params()

// claimed returns a claimed message as sent to the requester. Its reply subject settles
// it, unless the claim did, and is that of a gateway or of any.
func (g *Gate) claimed(d subscribers.Delivery, of string, secret []byte) *nats.Msg {
	if d.Receipt == 0 {
		return &nats.Msg{Header: g.deliveryHeader(&d), Data: d.Body}
	}
	t := token{topic: d.Topic, id: d.ID, receipt: d.Receipt, attempt: d.Attempt, lease: d.Lease, due: d.Due}
	return &nats.Msg{Reply: g.settleSubject(of, t.seal(secret)), Header: g.deliveryHeader(&d), Data: d.Body}
}

// anyGate stands in a reply subject where no gateway needs to hear whether a client received the message.
const anyGate = "any"

// settleSubject returns the subject that settles the message of a token.
func (g *Gate) settleSubject(of, token string) string {
	return g.o.Prefix + ".settle." + of + "." + token
}

// addReturns has messages released that no client received, since it went away while its claim waited. NATS answers that to a
// subscription of the sender to the reply subject, in no queue group. So that subject names the gateway, and the subscription also gets
// copies of the settlements, which any gateway may carry out. They cost some 5 % of a claim: one that does not wait goes without.
func (g *Gate) addReturns(work context.Context, conn *nats.Conn) error {
	sub, err := conn.Subscribe(g.settleSubject(g.identity.ID, "*"), func(m *nats.Msg) {
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			g.inSlots(0, func() { g.returned(work, lastToken(m.Subject)) })
		}
	})
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(maxWaiting, maxSmallSize)
}

// returned releases a claimed message whose client was gone. If that fails, its lease expires.
func (g *Gate) returned(ctx context.Context, sealed string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	t, err := g.unseal(ctx, sealed)
	if err != nil {
		return
	}
	d := g.claimer.Delivery(t.topic, t.id, t.receipt)
	d.Due = t.due
	if d.Release(ctx) == nil {
		g.count.returned.Add(1)
	}
}

// buryTooLarge buries a message that can never be sent over NATS. If that fails, its
// lease expires, and the next claim over NATS finds it too large again.
func (g *Gate) buryTooLarge(ctx context.Context, d subscribers.Delivery, size int) {
	g.count.tooLarge.Add(1)
	if d.Receipt == 0 {
		g.lost([]subscribers.Delivery{d}, nats.ErrMaxPayload)
		return
	}
	reason := fmt.Sprintf("too large for nats: %d bytes with its headers, and max_payload is %d; claim it over HTTP or Redis", size, g.maxPayload())
	_, _ = d.Bury(ctx, reason)
}

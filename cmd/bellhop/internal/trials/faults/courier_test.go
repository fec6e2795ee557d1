package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// natsTimeout is how long a push to NATS waits for an answer, which some messages do not get: longer than any of them may be late.
const natsTimeout = 3 * lease

// carrying is a client that uses only NATS.
type carrying struct {
	*actor
	*dice
	conn *nats.Conn
}

// carry publishes, claims and handles deliveries over NATS until ctx ends.
func (a *actor) carry(ctx context.Context) error {
	conn, err := nats.Connect(os.Getenv("FAULTS_NATS"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2))
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &carrying{actor: a, dice: newDice(a.random), conn: conn}
	if _, err := conn.QueueSubscribe(deliveries, "couriers", c.deliver); err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { c.publishAll(c.publishing) })
	for range 2 {
		all.Go(func() { c.claimAll(ctx) })
	}
	all.Go(func() { c.claimInOrder(ctx) })
	say("ready")
	all.Wait()
	return conn.Drain()
}

// deliver handles a message that a daemon delivers. The daemon claimed it and owns the lease.
func (c *carrying) deliver(m *nats.Msg) {
	r, err := received(m)
	if err != nil {
		logger().Error("unreadable", "error", err)
		return
	}
	r.Op, r.Target = history.Handle, "a daemon"
	op := c.Call(r)
	answer, phase := "+ACK", history.OK
	switch n := c.roll(100); {
	case n < 5:
		answer, phase = `-NAK {"delay":"50ms"}`, history.No
	case n < 7:
		answer, phase = "+TERM", history.No
	case n < 9:
		answer, phase = `-NAK {"delay":"50ms","attempt":"keep"}`, history.No
	case n < 10: // sends no answer
		op.End(history.Unknown, history.Record{})
		return
	}
	op.End(phase, history.Record{})
	if err := m.Respond([]byte(answer)); err != nil {
		logger().Warn("cannot answer", "error", err)
	}
}

// received returns the record of a claimed message.
func received(m *nats.Msg) (history.Record, error) {
	due, err := time.Parse(time.RFC3339, m.Header.Get("ce-time"))
	until, bad := time.Parse(time.RFC3339, m.Header.Get("Bellhop-Lease-Until"))
	attempt, worse := strconv.Atoi(m.Header.Get("Bellhop-Attempt"))
	return history.Record{
		Topic: m.Header.Get("ce-type"), ID: m.Header.Get("ce-id"), Due: due.UnixMilli(), Attempt: attempt,
		Receipt: until.UnixMicro(), Lease: lease.Milliseconds(),
	}, errors.Join(err, bad, worse)
}

// ask makes a request, and returns how it ended.
func (c *carrying) ask(m *nats.Msg) (*nats.Msg, history.Phase, error) {
	answer, err := c.conn.RequestMsg(m, callTimeout)
	if err != nil {
		return nil, history.Unknown, err
	}
	code := answer.Header.Get(micro.ErrorCodeHeader)
	switch {
	case code == "":
		return answer, history.OK, nil
	case code < "500":
		return answer, history.No, fmt.Errorf("%s: %s", code, answer.Header.Get(micro.ErrorHeader))
	}
	return answer, history.Unknown, fmt.Errorf("%s: %s", code, answer.Header.Get(micro.ErrorHeader))
}

// publishAll publishes messages one by one.
func (c *carrying) publishAll(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		m := c.gatewayMessage(c.dice, n, []string{deliveredTopic, askedTopic, askedOrderedTopic}, broadcastTopics[1])
		request := nats.NewMsg("bellhop.publish." + m.Topic)
		if m.Broadcast {
			request.Subject = "bellhop.publish-broadcast." + m.Topic
		}
		request.Data = m.Body
		for name, value := range asksOf(m) {
			request.Header.Set("Bellhop-"+http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")), value)
		}
		op := c.calls(m)
		answer, phase, err := c.ask(request)
		var reply publication
		if phase == history.OK {
			err = json.Unmarshal(answer.Data, &reply)
		}
		c.answered(op, phase, reply, err)
		rest(ctx, time.Duration(c.roll(60))*time.Millisecond)
	}
}

// maxAsked is how many messages a request claims at most.
const maxAsked = 5

// claimAll claims and settles, without a pause while there are many messages.
func (c *carrying) claimAll(ctx context.Context) {
	for ctx.Err() == nil {
		got := c.claim(askedTopic, lease, fmt.Sprintf(`{"max":%d}`, maxAsked))
		for _, m := range got {
			c.settle(m)
		}
		if len(got) < maxAsked {
			rest(ctx, time.Duration(c.roll(100))*time.Millisecond)
		}
	}
}

// claimInOrder claims one message at a time of a topic of which nobody else does, for leases of odd lengths, and so that many waits end as
// a message comes.
func (c *carrying) claimInOrder(ctx context.Context) {
	for ctx.Err() == nil {
		its := lease + time.Duration(c.roll(2))*time.Millisecond
		for _, m := range c.claim(askedOrderedTopic, its, fmt.Sprintf(`{"wait":"%dms","lease":"%v"}`, 1+c.roll(40), its)) {
			c.settle(m)
		}
	}
}

// claim makes one request to claim, answered by several messages.
func (c *carrying) claim(topic string, its time.Duration, how string) (got []*nats.Msg) {
	op := c.Call(history.Record{Op: history.Claim, Topic: topic, Lease: its.Milliseconds()})
	end := func(phase history.Phase, err error) []*nats.Msg {
		op.End(phase, history.Record{Count: len(got), Error: text(err)})
		return got
	}
	inbox := c.conn.NewInbox()
	answers, err := c.conn.SubscribeSync(inbox)
	if err != nil {
		return end(history.No, err)
	}
	defer answers.Unsubscribe() //nolint:errcheck // the subscription ends with the connection
	if err := c.conn.PublishRequest("bellhop.claim."+topic, inbox, []byte(how)); err != nil {
		return end(history.Unknown, err)
	}
	for {
		m, err := answers.NextMsg(callTimeout)
		if err != nil {
			return end(history.Unknown, err)
		}
		if m.Header.Get("Status") == "204" {
			return end(history.OK, nil)
		}
		r, err := received(m)
		if err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
			return end(history.Unknown, errors.Join(err, errors.New(m.Header.Get(micro.ErrorHeader))))
		}
		r.Lease = its.Milliseconds()
		r.Handed = len(got) == 0 // perhaps: the answer does not say
		op.Took(r)
		got = append(got, m)
	}
}

// settle answers a claimed message.
func (c *carrying) settle(m *nats.Msg) {
	r, err := received(m)
	if err != nil {
		return // never, since it was read before
	}
	op, answer := history.Ack, "+ACK"
	switch n := c.roll(100); {
	case n < 5:
		op, answer = history.Nack, `-NAK {"delay":"50ms"}`
	case n < 7:
		op, answer = history.Bury, "+TERM"
	case n < 9:
		op, answer = history.Snooze, `-NAK {"delay":"50ms","attempt":"keep"}`
	case n < 11: // leaves it
		return
	}
	call := c.Call(history.Record{Op: op, Topic: r.Topic, ID: r.ID, Receipt: r.Receipt})
	_, phase, err := c.ask(&nats.Msg{Subject: m.Reply, Data: []byte(answer)})
	call.End(phase, history.Record{Error: text(err)})
}

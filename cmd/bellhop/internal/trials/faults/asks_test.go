package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// The topics in which few ids are published again and again, by who handles them: one
// claim of several topics, and subscribers. The body of a message there is its version.
var (
	sharedClaimed = []string{"shared.a", "shared.b"}
	sharedHandled = []string{"shared.c"}
	sharedTopics  = slices.Concat(sharedClaimed, sharedHandled)
)

// onceTopic is the topic of which messages are acknowledged as they are claimed.
const onceTopic = "once"

const sharedIDs = 4 // of each of these topics

// versionOf returns the version of a message, empty for one of a topic where ids are
// published once.
func versionOf(topic string, body []byte) string {
	if slices.Contains(sharedTopics, topic) {
		return string(body)
	}
	return ""
}

// askFor lets a message of which the id is published once ask for something.
func askFor(roll func(n int) int, m *notify.Message) {
	ms := func(least, more int) time.Duration { return time.Duration(least+roll(more)) * time.Millisecond }
	switch roll(12) {
	case 0:
		m.Lease = ms(300, 1500)
	case 1:
		m.TryTimeout = ms(150, 1000)
	case 2:
		m.Fail, m.MaxAttempts = notify.FailDrop, 1+roll(2)
	case 3:
		m.Fail, m.TTL = notify.FailDrop, ms(1, 800)
	case 4:
		m.LateAfter, m.Late = ms(1, 400), []notify.Late{"", notify.LateDrop, notify.LateBury}[roll(3)]
	case 5:
		m.Lease, m.TryTimeout, m.LateAfter, m.Late = ms(200, 500), ms(200, 500), ms(1, 400), notify.LateDrop
	}
}

// askAll lets a broadcast ask for something.
func askAll(roll func(n int) int, m *notify.Message) {
	switch roll(10) {
	case 0:
		m.TTL = time.Duration(1+roll(400)) * time.Millisecond
	case 1:
		m.TTL = 5 * time.Minute
	}
}

// again returns the next publish of an id that is published again and again.
func again(roll func(n int) int, version string) notify.Message {
	m := notify.Message{
		Topic: sharedTopics[roll(len(sharedTopics))], ID: fmt.Sprint("k", roll(sharedIDs)), Body: []byte(version),
		IfExists: []notify.IfExists{"", notify.Keep, notify.Replace, notify.Debounce, notify.Debounce}[roll(5)],
	}
	if roll(3) > 0 || m.IfExists == notify.Debounce {
		m.Delay = time.Duration(1+roll(300)) * time.Millisecond
	}
	if m.IfExists == notify.Debounce && roll(2) == 0 {
		m.MaxWait = m.Delay + time.Duration(roll(300))*time.Millisecond
	}
	if roll(3) == 0 {
		m.Then = notify.After
	}
	switch roll(10) {
	case 4:
		m.Fail, m.MaxAttempts = notify.FailDrop, 1+roll(2)
	case 0, 1:
		m.UniqueFor = time.Duration(50+roll(400)) * time.Millisecond
	case 3:
		m.TTL = time.Duration(100+roll(500)) * time.Millisecond
	}
	return m
}

// asked returns what a message asks for, as its publish is recorded.
func asked(m notify.Message) history.Record {
	return history.Record{
		Topic: m.Topic, ID: m.ID, Key: m.Key, Busy: m.IfBusy == "drop", TTL: m.TTL.Milliseconds(), Limit: m.MaxAttempts, Version: versionOf(m.Topic, m.Body),
		Lease: m.Lease.Milliseconds(), Try: m.TryTimeout.Milliseconds(), Fail: string(m.Fail),
		LateAfter: m.LateAfter.Milliseconds(), LateMode: string(m.Late),
		Mode: string(m.IfExists), After: m.Then == notify.After, MaxWait: m.MaxWait.Milliseconds(), Unique: m.UniqueFor.Milliseconds(),
		Group: m.Group, AfterGroup: m.AfterGroup, Go: m.OnDead == "go",
	}
}

// asksOf returns what a message asks for by the names of HTTP's parameters.
func asksOf(m notify.Message) map[string]string {
	asks := map[string]string{"id": m.ID, "fail": string(m.Fail), "late": string(m.Late), "if_exists": string(m.IfExists), "then": string(m.Then)}
	for name, d := range map[string]time.Duration{
		"delay": m.Delay, "ttl": m.TTL, "lease": m.Lease, "try_timeout": m.TryTimeout, "max_wait": m.MaxWait,
		"unique_for": m.UniqueFor, "late_after": m.LateAfter,
	} {
		if d > 0 {
			asks[name] = d.String()
		}
	}
	if m.MaxAttempts > 0 {
		asks["attempts"] = fmt.Sprint(m.MaxAttempts)
	}
	maps.DeleteFunc(asks, func(_, value string) bool { return value == "" })
	return asks
}

// A publication is the answer to a publish over HTTP or NATS.
type publication struct {
	Due         time.Time
	State       string
	Outcome     notify.Outcome
	PreviousDue time.Time `json:"previous_due"`
}

// answered records how a publish over HTTP or NATS ended.
func (a *actor) answered(op *history.Operation, phase history.Phase, reply publication, err error) {
	r := history.Record{
		Due: dueOf(reply.Due), Previous: dueOf(reply.PreviousDue), State: reply.State, Outcome: string(reply.Outcome), Error: text(err),
	}
	switch {
	case phase == history.No && strings.HasPrefix(r.Error, "409"):
		r.Outcome = string(notify.Refused)
	case reply.Outcome == notify.Kept:
		phase = history.No
	}
	op.End(phase, r)
}

// gatewayMessage returns a message or a broadcast to publish over HTTP or NATS, of one of some
// topics, or of one of those in which ids are published again and again.
func (a *actor) gatewayMessage(dice *dice, n int, topics []string, toAll string) notify.Message {
	id := fmt.Sprintf("%s-%d", a.process, n)
	if dice.roll(4) == 0 {
		return again(dice.roll, id)
	}
	m := notify.Message{
		Topic: topics[dice.roll(len(topics))], ID: id, Body: []byte("x")[n%2:], Broadcast: dice.roll(3) == 0,
		Delay: time.Duration(dice.roll(500)) * time.Millisecond,
	}
	if m.Broadcast {
		m.Topic = toAll
		askAll(dice.roll, &m)
		return m
	}
	askFor(dice.roll, &m)
	m.Lease, m.TryTimeout = 0, 0 // an answer does not tell the lease
	return m
}

// inUse reports whether a publish was refused because the id is in use.
func inUse(err error) bool {
	return errors.Is(err, notify.ErrExists) || errors.Is(err, notify.ErrLeased) || errors.Is(err, notify.ErrDead)
}

// publishAgain publishes an id once more.
func (p *publishing) publishAgain(ctx context.Context) {
	p.n++
	p.one(ctx, again(p.rnd.IntN, fmt.Sprintf("%s-%d", p.id, p.n)))
}

// cancelAgain cancels an id, or its successor.
func (p *publishing) cancelAgain(ctx context.Context) {
	topic, id := sharedTopics[p.rnd.IntN(len(sharedTopics))], fmt.Sprint("k", p.rnd.IntN(sharedIDs))
	if p.rnd.IntN(2) == 0 {
		p.cancelOne(ctx, topic, id)
		return
	}
	op := p.Call(history.Record{Op: history.CancelNext, Topic: topic, ID: id})
	err := p.pub.CancelNext(ctx, topic, id)
	op.End(phase(err), history.Record{Error: text(err)})
}

// claimAny claims of several topics until ctx ends.
func (c *claiming) claimAny(ctx context.Context) {
	for ctx.Err() == nil {
		topics, most := slices.Clone(sharedClaimed), 1+c.roll(4)
		if c.roll(2) == 0 {
			slices.Reverse(topics)
		}
		op := c.Call(history.Record{Op: history.Claim, Topics: strings.Join(topics, ","), Lease: lease.Milliseconds(), Count: most})
		ds, err := c.claimer.ClaimAny(ctx, topics, subscribers.ClaimOptions{
			Max: most, Lease: lease, Wait: time.Duration(c.roll(2)) * lease / 2, Oldest: c.roll(2) == 0 && c.shards == 0, // the oldest of several shards cannot be told
		})
		c.took(ctx, op, ds, err)
	}
}

// claimOnce claims messages that are acknowledged as they are claimed, until ctx ends.
func (c *claiming) claimOnce(ctx context.Context) {
	for ctx.Err() == nil {
		most := 1 + c.roll(4)
		op := c.Call(history.Record{Op: history.Claim, Topic: onceTopic, Now: true, Count: most})
		ds, err := c.claimer.Claim(ctx, onceTopic, subscribers.ClaimOptions{Max: most, AckNow: true, Wait: time.Duration(c.roll(2)) * lease / 2})
		for _, d := range ds {
			r := taken(d)
			r.Now, r.Lease, r.Receipt = true, 0, d.Due.Add(d.Late()).UnixMicro()
			op.Took(r)
		}
		op.End(phase(err), history.Record{Count: len(ds), Error: text(err)})
		rest(ctx, time.Duration(c.roll(20))*time.Millisecond)
	}
}

// snooze puts a message off.
func (c *claiming) snooze(ctx context.Context, d subscribers.Delivery) {
	op := c.begin(history.Snooze, d)
	out, err := d.Snooze(ctx, time.Duration(c.roll(200))*time.Millisecond)
	op.End(phase(err), settled(out, err))
}

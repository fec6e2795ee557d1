package model_test

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	topics = 10
	ids    = 10 // of each topic
)

func topicOf(i int) string { return "topic-" + strconv.Itoa(i) }

// A player makes random calls. It writes them before it makes them, and again with their answers.
type player struct {
	store *notify.Store
	write func([]call) error
	rand  *rand.Rand
	clock func() (us int64)
	topic func() int
	key   int64 // of the last call
	pub   *notify.Publisher
	look  *notify.Inspector
	work  *subscribers.Claimer
	held  []subscribers.Delivery // to be settled later
	names []int64                // of their leases
}

// play plays a role until its standard input ends.
func play(role string) error {
	life, err := strconv.ParseInt(os.Getenv("MODEL_LIFE"), 10, 64)
	if err != nil {
		return err
	}
	db, err := notify.Open(notify.Config{URL: os.Getenv("MODEL_URL"), Prefix: os.Getenv("MODEL_PREFIX")})
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	out := gob.NewEncoder(os.Stdout)
	p := &player{store: db, key: life * 1e9, rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), write: func(calls []call) error { return out.Encode(calls) }}
	p.clock, p.topic = func() int64 { return time.Now().UnixMicro() }, func() int { return p.rand.IntN(topics) }
	if err := p.open(); err != nil {
		return err
	}
	turn := map[string]func() error{"publisher": p.publishOrChange, "worker": p.claimOrSettle}[role]
	if turn == nil {
		c, err := carrier.New(db, carrier.Options{Lease: carrier.MinLease})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
	for ctx.Err() == nil {
		if err := turn(); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) open() (err error) {
	if p.pub, err = notify.NewPublisher(p.store); err != nil {
		return err
	}
	if p.look, err = notify.NewInspector(p.store); err != nil {
		return err
	}
	p.work, err = subscribers.NewClaimer(p.store)
	return err
}

// make writes calls, makes them, and writes those that f returns with their answers.
func (p *player) make(calls []call, f func(context.Context) ([]call, error)) error {
	begin := p.clock()
	for i := range calls {
		calls[i].Begin = begin
	}
	if err := p.write(calls); err != nil {
		return err
	}
	answered, err := f(context.Background())
	if err != nil {
		return err
	}
	end := p.clock()
	for i := range answered {
		answered[i].Begin, answered[i].End, answered[i].Answered = begin, end, true
	}
	return p.write(answered)
}

func (p *player) next() int64 {
	p.key++
	return p.key
}

// one returns a call for a random id.
func (p *player) one(what kind) call {
	return call{Kind: what, Key: p.next(), Topic: p.topic(), ID: p.rand.IntN(ids)}
}

// makeOne makes a call that f answers.
func (p *player) makeOne(c call, f func(context.Context, *call) error) error {
	return p.make([]call{c}, func(ctx context.Context) ([]call, error) {
		err := c.answer("ok", f(ctx, &c))
		return []call{c}, err
	})
}

// answer sets the answer, to that of an error if there is one. It returns an error that
// is no answer.
func (c *call) answer(answer string, err error) error {
	for name, is := range map[string]error{
		"exists": notify.ErrExists, "leased": notify.ErrLeased, "dead": notify.ErrDead, "none": notify.ErrNotFound, "lost": notify.ErrLeaseLost,
	} {
		if errors.Is(err, is) {
			answer, err = name, nil
		}
	}
	if c.Answer == "" || answer != "ok" {
		c.Answer = answer
	}
	return err
}

func (p *player) publishOrChange() error {
	switch p.rand.IntN(12) {
	case 0:
		return p.makeOne(p.one(cancelling), func(ctx context.Context, c *call) error {
			was, err := p.pub.Cancel(ctx, topicOf(c.Topic), c.id())
			if err == nil {
				c.State = was.String()
			}
			return err
		})
	case 1:
		return p.makeOne(p.one(cancellingNext), func(ctx context.Context, c *call) error {
			return p.pub.CancelNext(ctx, topicOf(c.Topic), c.id())
		})
	case 2:
		return p.makeOne(p.one(looking), p.see)
	}
	calls := make([]call, 1)
	if p.rand.IntN(2) == 0 {
		calls = make([]call, 1+p.rand.IntN(8))
	}
	for i := range calls {
		calls[i] = p.aPublish()
	}
	return p.make(calls, func(ctx context.Context) ([]call, error) { return p.publish(ctx, calls) })
}

func (c *call) id() string { return strconv.Itoa(c.ID) }

// see looks at a message.
func (p *player) see(ctx context.Context, c *call) error {
	info, err := p.look.Inspect(ctx, topicOf(c.Topic), c.id())
	if err != nil {
		return err
	}
	c.State, c.Attempt = info.State.String(), info.Attempts
	if info.State == notify.Done {
		return nil
	}
	if !info.Due.IsZero() {
		c.Due = info.Due.UnixMilli()
	}
	c.Published, c.Body = info.Published.UnixMilli(), bodyOf(info.Body)
	if info.Next != nil {
		c.Next = bodyOf(info.Next.Body)
	}
	return info.Fault
}

// bodyOf returns the key of the call that published a body; a foreign one is that of none.
func bodyOf(body []byte) int64 {
	key, _ := strconv.ParseInt(string(body), 10, 64)
	return key
}

// aPublish returns a random publish.
func (p *player) aPublish() call {
	c := p.one(publishing)
	c.Mode = []notify.IfExists{notify.Refuse, notify.Keep, notify.Replace, notify.Debounce}[p.rand.IntN(4)]
	c.Limit = 1 + p.rand.IntN(3)
	if c.Mode == notify.Debounce || p.rand.IntN(4) > 0 {
		c.Delay = 1 + p.rand.Int64N(200)>>p.rand.IntN(8)
	}
	if c.Mode == notify.Debounce && p.rand.IntN(2) == 0 {
		c.MaxWait = c.Delay + p.rand.Int64N(100)
	}
	if p.rand.IntN(3) == 0 {
		c.Unique = 1 + p.rand.Int64N(100)
	}
	if c.Broadcast = p.rand.IntN(8) == 0; c.Broadcast {
		c.Limit = 0
		return c
	}
	c.After, c.Drop = p.rand.IntN(2) == 0, p.rand.IntN(3) == 0
	return c
}

// publish publishes messages.
func (p *player) publish(ctx context.Context, calls []call) ([]call, error) {
	messages := make([]notify.Message, len(calls))
	for i, c := range calls {
		m := notify.Message{
			Topic: topicOf(c.Topic), ID: c.id(), Body: strconv.AppendInt(nil, c.Key, 10), Delay: ms(c.Delay), MaxAttempts: c.Limit,
			IfExists: c.Mode, MaxWait: ms(c.MaxWait), UniqueFor: ms(c.Unique), Broadcast: c.Broadcast,
		}
		if c.After {
			m.Then = notify.After
		}
		if c.Drop {
			m.Fail = notify.FailDrop
		}
		messages[i] = m
	}
	for i, r := range p.pub.PublishMany(ctx, messages) {
		c := &calls[i]
		if err := c.answer(string(r.Outcome), r.Err); err != nil {
			return nil, err
		}
		if r.Err != nil {
			continue
		}
		c.State = r.State.String()
		if !r.Due.IsZero() {
			c.Due = r.Due.UnixMilli()
		}
		if !r.PreviousDue.IsZero() {
			c.Previous = r.PreviousDue.UnixMilli()
		}
	}
	return calls, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// claimOrSettle claims messages, and settles some of those that it has, some of them too
// late.
func (p *player) claimOrSettle() error {
	if err := p.claim(); err != nil {
		return err
	}
	for len(p.held) > 0 && p.rand.IntN(4) > 0 {
		i := p.rand.IntN(len(p.held))
		d, lease := p.held[i], p.names[i]
		p.held[i], p.names[i] = p.held[len(p.held)-1], p.names[len(p.names)-1]
		p.held, p.names = p.held[:len(p.held)-1], p.names[:len(p.names)-1]
		if p.rand.IntN(20) == 0 {
			continue // its lease ends
		}
		if err := p.settle(d, lease); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) claim() error {
	calls := make([]call, ids)
	first := p.one(claiming)
	if p.rand.IntN(8) == 0 {
		first.Kind = claimingNow
	} else {
		first.Lease = 100 + p.rand.Int64N(100)
	}
	for i := range calls { // it may claim each
		calls[i] = first
		calls[i].ID = i
	}
	return p.make(calls, func(ctx context.Context) ([]call, error) {
		ds, err := p.work.Claim(ctx, topicOf(first.Topic), subscribers.ClaimOptions{
			Max: 1 + p.rand.IntN(3), Lease: ms(first.Lease), AckNow: first.Kind == claimingNow,
		})
		var claimed []call
		for _, d := range ds {
			id, err := strconv.Atoi(d.ID)
			if err != nil {
				return nil, err
			}
			c := first
			c.ID, c.Due, c.Attempt = id, d.Due.UnixMilli(), d.Attempt
			c.Body, c.Published, c.First = bodyOf(d.Body), d.Published.UnixMilli(), d.FirstDue.UnixMilli()
			claimed = append(claimed, c)
			if first.Kind == claiming {
				p.held, p.names = append(p.held, d), append(p.names, first.Key)
			}
		}
		return claimed, err
	})
}

func (p *player) settle(d subscribers.Delivery, lease int64) error {
	c := p.one([]kind{acking, acking, nacking, nacking, burying, snoozing, releasing, extending, extending, extending}[p.rand.IntN(10)])
	topic, err1 := strconv.Atoi(d.Topic[len("topic-"):])
	id, err2 := strconv.Atoi(d.ID)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	c.Topic, c.ID, c.Lease, c.Delay = topic, id, lease, 1+p.rand.Int64N(20)
	if c.Kind == extending { // the message is settled later by the receipt of its claim, also if its lease is lost
		c.Delay = 100 + p.rand.Int64N(100)
		p.held, p.names = append(p.held, d), append(p.names, lease)
	}
	return p.makeOne(c, func(ctx context.Context, c *call) (err error) {
		var to subscribers.Outcome
		switch c.Kind {
		case acking:
			return d.Ack(ctx)
		case releasing:
			return d.Release(ctx)
		case extending:
			return d.Extend(ctx, ms(c.Delay))
		case nacking:
			to, err = d.Nack(ctx, ms(c.Delay), "no")
		case snoozing:
			to, err = d.Snooze(ctx, ms(c.Delay))
		case burying:
			to, err = d.Bury(ctx, "never")
		default:
			return fmt.Errorf("%d settles nothing", c.Kind)
		}
		switch {
		case err != nil:
		case to.Dropped:
			c.Answer = "dropped"
		default:
			if c.Answer = to.State.String(); to.State == notify.Scheduled {
				c.Due = to.Due.UnixMilli()
			}
		}
		return err
	})
}

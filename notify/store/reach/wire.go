package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var heardScript = script.New("heard")

// wires are the listening connections of a process to a store of several shards: one for
// each server, which all subscriptions share.
type wires struct {
	mu  sync.Mutex
	all map[string]*wire // by the address of the server; without a Cluster empty
}

// connected returns how many wires have a connection.
func (all *wires) connected() (n uint32) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.all {
		if w.conn != nil {
			n++
		}
	}
	return n
}

// A wire is one listening connection. It never connects again: when it fails, the
// subscriptions on it look up the servers of their shards, and join other wires.
// go-redis would subscribe again to all channels at once, which Redis refuses if they are
// of several slots, and would stay at a server that gave a shard away.
type wire struct {
	redis   *Redis
	id      string // of a channel that only the wire subscribes to, in each shard
	address string
	client  *redis.Client
	sub     *redis.PubSub
	ctx     context.Context
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	wanted  chan struct{} // there is something to send
	open    chan struct{} // closed when the first thing was sent

	// Guarded by wires.mu.
	conn   net.Conn
	ears   []*ear
	lines  map[string]*line // by channel
	proved map[*shard]bool  // the server was its master when it was joined
	unsent []*request
	asked  []*request // sent, and not answered yet; Redis answers in their order
	beat   time.Time  // of any shard, or when the wire began
	ended  bool
}

// A request subscribes to channels of one shard, or ends that.
type request struct {
	shard *shard
	names []string
	lines map[string]*line // nil: it ends subscriptions
	left  int              // names without an answer
}

// errOneConnection is what go-redis is told when it connects a wire again.
var errOneConnection = errors.New("a wire has one connection")

// join adds an ear to the wire of the server that holds the shard.
func (d *shard) join(ctx context.Context, channels []string) (*wire, *ear, error) {
	node, err := d.node(ctx)
	if err != nil {
		return nil, nil, err
	}
	client, ok := node.(*redis.Client)
	if !ok {
		return nil, nil, fmt.Errorf("a client of the type %T cannot listen", node)
	}
	address := ""
	if d.inCluster() {
		address = client.Options().Addr
	}
	all := &d.wires
	all.mu.Lock()
	defer all.mu.Unlock()
	w := all.all[address]
	if w == nil {
		w = d.newWire(client.Options(), address)
	}
	e := &ear{shard: d, rung: make(chan struct{}, 1), ended: make(chan struct{})}
	e.names = append([]string{d.keys.Beat(), d.keys.Here(w.id)}, channels...)
	w.add(e)
	return w, e, nil
}

// newWire returns a wire to a server. It connects when there is something to send. The
// mutex is held.
func (s *Redis) newWire(o *redis.Options, address string) *wire {
	w := &wire{
		redis: s, id: record.NewID(), address: address, beat: time.Now(),
		wanted: make(chan struct{}, 1), open: make(chan struct{}),
		lines: make(map[string]*line), proved: make(map[*shard]bool),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	options := *o
	options.Dialer = w.dialer(o.Dialer)
	w.client = redis.NewClient(&options)
	w.sub = w.client.Subscribe(w.ctx)
	if s.wires.all == nil {
		s.wires.all = make(map[string]*wire)
	}
	s.wires.all[address] = w
	w.tasks.Go(w.send)
	w.tasks.Go(w.receive)
	return w
}

// dialer returns a dialer that connects once.
func (w *wire) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	used := false // one call at a time: go-redis holds a lock
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if used {
			return nil, errOneConnection
		}
		used = true
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.redis.wires.mu.Lock()
		defer w.redis.wires.mu.Unlock()
		if w.ended {
			conn.Close()
			return nil, net.ErrClosed
		}
		w.conn = conn
		return conn, nil
	}
}

// add adds an ear, and subscribes to those of its channels that no other has. The mutex is
// held.
func (w *wire) add(e *ear) {
	w.ears = append(w.ears, e)
	fresh := &request{shard: e.shard, lines: make(map[string]*line)}
	for _, name := range e.names {
		l := w.lines[name]
		if l == nil {
			l = &line{up: make(chan struct{})}
			w.lines[name], fresh.lines[name] = l, l
			fresh.names = append(fresh.names, name)
		}
		l.ears = append(l.ears, e)
		e.lines = append(e.lines, l)
	}
	w.ask(fresh)
}

// ask has a request sent, unless it is empty. The mutex is held.
func (w *wire) ask(r *request) {
	if r.left = len(r.names); r.left > 0 {
		w.unsent = append(w.unsent, r)
		Signal(w.wanted)
	}
}

// leave takes an ear off its channels, and ends the subscriptions to those that no other
// has. The last ear closes the wire.
func (w *wire) leave(e *ear) {
	all := &w.redis.wires
	all.mu.Lock()
	w.ears = slices.DeleteFunc(w.ears, func(other *ear) bool { return other == e })
	unused := &request{shard: e.shard}
	for i, name := range e.names {
		l := e.lines[i]
		l.ears = slices.DeleteFunc(l.ears, func(other *ear) bool { return other == e })
		if len(l.ears) == 0 && w.lines[name] == l {
			delete(w.lines, name)
			unused.names = append(unused.names, name)
		}
	}
	if !slices.ContainsFunc(w.ears, func(other *ear) bool { return other.shard == e.shard }) {
		delete(w.proved, e.shard)
	}
	last := len(w.ears) == 0
	if last {
		w.close(net.ErrClosed)
	} else {
		w.ask(unused)
	}
	all.mu.Unlock()
	if last {
		w.tasks.Wait()
	}
}

// confirm waits until the server has confirmed the channels of an ear, and makes sure that
// it is the master: a replica confirms as well, and its subscribers count for nothing.
func (w *wire) confirm(ctx context.Context, e *ear) error {
	late := time.NewTimer(Silence)
	defer late.Stop()
	for _, l := range e.lines {
		select {
		case <-l.up:
		case <-e.ended:
			return e.err
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			w.end(errNoConfirmation)
			return errNoConfirmation
		}
	}
	return w.prove(ctx, e)
}

// prove counts the wire at the master of an ear's shard, unless that was done.
func (w *wire) prove(ctx context.Context, e *ear) error {
	all := &w.redis.wires
	all.mu.Lock()
	proved := w.proved[e.shard]
	all.mu.Unlock()
	if proved {
		return nil
	}
	r, err := e.shard.run(ctx, heardScript, nil, []any{w.id})
	if err != nil {
		return err
	}
	heard := r.Integer()
	if err := r.End(); err != nil {
		return err
	}
	if heard == 0 {
		return errAbandoned
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	select {
	case <-e.ended: // the server gave the shard away meanwhile
		return e.err
	default:
		w.proved[e.shard] = true
		return nil
	}
}

// errNoConfirmation is why a wire ends whose server confirms no subscription.
var errNoConfirmation = fmt.Errorf("no subscription was confirmed within %v: %w", Silence, os.ErrDeadlineExceeded)

// send sends requests until the wire ends.
func (w *wire) send() {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.wanted:
		}
		for r := w.next(); r != nil; r = w.next() {
			change := w.sub.SUnsubscribe
			if r.lines != nil {
				change = w.sub.SSubscribe
			}
			names := make([]string, len(r.names))
			for i, name := range r.names {
				names[i] = w.redis.Heard(name)
			}
			if err := change(w.ctx, names...); err != nil {
				w.end(err)
				return
			}
			closeOnce(w.open)
		}
	}
}

// closeOnce closes a channel that only its caller closes, unless it is closed.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// next takes the next request to send; nil if there is none.
func (w *wire) next() *request {
	w.redis.wires.mu.Lock()
	defer w.redis.wires.mu.Unlock()
	if len(w.unsent) == 0 || w.ended {
		return nil
	}
	r := w.unsent[0]
	w.unsent, w.asked = w.unsent[1:], append(w.asked, r)
	return r
}

// receive receives until the wire ends.
func (w *wire) receive() {
	select {
	case <-w.ctx.Done():
		return
	case <-w.open:
	}
	for {
		got, err := w.sub.ReceiveTimeout(w.ctx, 0)
		var refusal redis.Error
		switch {
		case errors.As(err, &refusal):
			w.refuse(err)
		case err != nil:
			w.end(err)
			return
		default:
			w.take(got)
		}
	}
}

// take takes what came on the connection.
func (w *wire) take(got any) {
	w.redis.wires.mu.Lock()
	defer w.redis.wires.mu.Unlock()
	switch one := got.(type) {
	case *redis.Message:
		w.pass(strings.TrimPrefix(one.Channel, w.redis.at), one.Payload)
	case *redis.Subscription:
		if channel := strings.TrimPrefix(one.Channel, w.redis.at); one.Kind == "ssubscribe" {
			w.confirmed(channel)
		} else {
			w.unsubscribed(channel)
		}
	}
}

// pass passes a message on to the ears on its channel. The mutex is held.
func (w *wire) pass(channel, payload string) {
	l := w.lines[channel]
	if l == nil || len(l.ears) == 0 {
		return
	}
	event := Event{Kind: Received, Channel: channel, Payload: payload}
	if channel == l.ears[0].shard.keys.Beat() {
		event = Event{Kind: Beat, Payload: payload}
		w.beat = time.Now()
	}
	for _, e := range l.ears {
		e.hear(event)
	}
}

// confirmed notes that a channel is subscribed to. The mutex is held.
func (w *wire) confirmed(channel string) {
	if len(w.asked) == 0 || w.asked[0].lines[channel] == nil {
		w.close(errOutOfStep)
		return
	}
	closeOnce(w.asked[0].lines[channel].up)
	w.answered()
}

// errOutOfStep is why a wire ends whose server answers what it was not asked.
var errOutOfStep = errors.New("an answer to another subscription")

// answered notes an answer for one name of the first request. The mutex is held.
func (w *wire) answered() {
	if w.asked[0].left--; w.asked[0].left == 0 {
		w.asked = w.asked[1:]
	}
}

// unsubscribed notes the end of a subscription. Where nobody asked for that, the server
// gave the shard away. The mutex is held.
func (w *wire) unsubscribed(channel string) {
	if len(w.asked) > 0 && w.asked[0].lines == nil && slices.Contains(w.asked[0].names, channel) {
		w.answered()
		return
	}
	l := w.lines[channel]
	if l == nil || len(l.ears) == 0 {
		return
	}
	select {
	case <-l.up:
		w.lose(l.ears[0].shard, errAbandoned)
	default: // it is of a subscription before this one
	}
}

// refuse notes the refusal of the first request.
func (w *wire) refuse(err error) {
	w.redis.wires.mu.Lock()
	defer w.redis.wires.mu.Unlock()
	if len(w.asked) == 0 {
		w.close(err)
		return
	}
	r := w.asked[0]
	w.asked = w.asked[1:]
	if r.lines == nil {
		return
	}
	names := w.lose(r.shard, err)
	if _, moved := redis.IsMovedError(err); !moved { // else the server ended what there was
		w.ask(&request{shard: r.shard, names: names})
	}
}

// lose ends all ears of a shard: the server does not hold it, or refuses a subscription. It
// returns the names of their channels. The mutex is held.
func (w *wire) lose(d *shard, err error) (names []string) {
	delete(w.proved, d)
	for _, e := range w.ears {
		if e.shard != d {
			continue
		}
		e.end(err)
		for _, name := range e.names {
			if w.lines[name] != nil {
				delete(w.lines, name)
				names = append(names, name)
			}
		}
	}
	return names
}

// endIfSilent ends the wire, and all connections to its server that are as silent, if no
// shard on it has beaten for too long.
func (w *wire) endIfSilent() {
	w.redis.wires.mu.Lock()
	silent := !w.ended && time.Since(w.beat) >= w.redis.silence
	if silent {
		w.close(errSilent)
	}
	w.redis.wires.mu.Unlock()
	if silent {
		w.redis.connections.hangUp(w.address, Silence-Heartbeat)
	}
}

// end ends the wire.
func (w *wire) end(err error) {
	w.redis.wires.mu.Lock()
	defer w.redis.wires.mu.Unlock()
	w.close(err)
}

// close is end while the mutex is held.
func (w *wire) close(err error) {
	if w.ended {
		return
	}
	w.ended = true
	if w.redis.wires.all[w.address] == w {
		delete(w.redis.wires.all, w.address)
	}
	for _, e := range w.ears {
		e.end(err)
	}
	w.cancel()
	if w.conn != nil {
		w.conn.Close() // PubSub.Close would wait for a call that is being sent
	}
	w.tasks.Go(func() {
		w.sub.Close()
		w.client.Close()
	})
}

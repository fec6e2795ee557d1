package subscribers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed register.lua
	registerSource string
	registerScript = notify.NewScript("register", registerSource).Promised()

	//go:embed take.lua
	takeSource string
	takeScript = notify.NewScript("take", logsPrelude+takeSource)
)

const (
	takeTopics = 50  // logs that one call takes from
	takeAhead  = 256 // broadcasts that are taken ahead of the hands, at the most
	takeBack   = 500 // broadcasts that one call acknowledges, and that it gives back
)

// A named is one process of a named listener.
type named struct {
	*Listener
	name    string
	at      registration
	latest  notify.Position // of what was handed out
	member  *member
	handler func(context.Context, *Broadcast) error
	o       ListenOptions
	log     *slog.Logger

	topics map[string]bool // whose logs may hold more
	left   bool            // broadcasts may have been left by a process that died
	rung   bool            // the name was rung: it may also have been removed

	stopping <-chan struct{}
	changed  chan struct{} // something was handled
	hands    sync.WaitGroup

	receipts sync.Mutex // held while a call settles with receipts, or changes them

	mu    sync.Mutex
	queue []*turn // taken, not begun
	held  map[*turn]bool
	done  []string // members to acknowledge
	back  []*turn  // to give back
	open  int      // queued or being handled
	busy  int      // hands
	mean  time.Duration
}

// listenNamed is Listen with a name.
func (l *Listener) listenNamed(ctx context.Context, p notify.Pattern, handler func(context.Context, *Broadcast) error, o ListenOptions) error {
	if err := checkName(o.Name); err != nil {
		return err
	}
	hands := HandleOptions{Concurrency: o.Concurrency, Lease: o.Lease, Backoff: o.Backoff, MaxAttempts: o.MaxAttempts}
	if err := hands.fill(); err != nil {
		return fmt.Errorf("listen as %s: %w", o.Name, err)
	}
	o.Concurrency, o.Lease, o.Backoff, o.MaxAttempts = hands.Concurrency, hands.Lease, hands.Backoff, hands.MaxAttempts
	at, err := l.register(ctx, p, o)
	if err != nil || at.text == "" {
		return err
	}
	m, err := l.hub.join(ctx, p, o.Name)
	if err != nil {
		return nil // ctx ended
	}
	defer l.hub.leave(m)
	if o.OnStart != nil {
		o.OnStart(l.hub.cursor(m))
	}
	n := &named{
		stopping: ctx.Done(),
		Listener: l, name: o.Name, at: at, member: m, handler: handler, o: o,
		log: l.o.Logger.With("name", o.Name), topics: make(map[string]bool),
		changed: make(chan struct{}, 1), held: make(map[*turn]bool),
	}
	return n.run(ctx)
}

func checkName(name string) error {
	if notify.CheckTopic(name) != nil {
		return notify.Faultf("name", "name %.200q: use tokens of letters, digits, _ and -, joined by single dots, at most %d bytes", name, notify.MaxTopic)
	}
	return nil
}

// register registers a name, trying until Redis answers, and returns the
// registration; none when ctx ended. The error is that of enroll.
func (l *Listener) register(ctx context.Context, p notify.Pattern, o ListenOptions) (registration, error) {
	pause := pause{log: l.o.Logger}
	for ctx.Err() == nil {
		at, err := l.enroll(ctx, p, o)
		if err != nil && ctx.Err() == nil && !notify.Away(err) {
			return registration{}, err
		}
		if pause.after(ctx, err); err == nil {
			return at, nil
		}
	}
	return registration{}, nil
}

// enroll registers a name. The error is a notify.ErrInvalid where the name is in
// use for something else, or that of the connection.
func (l *Listener) enroll(ctx context.Context, p notify.Pattern, o ListenOptions) (registration, error) {
	from := o.From
	if from == (From{}) {
		from = FromNow()
	}
	keys := l.store.Keys()
	reply, err := l.store.Run(ctx, registerScript, []string{keys.Logs(), keys.Listeners()},
		o.Name, p.String(), from.text, int64(from.after))
	if err != nil {
		return registration{}, fmt.Errorf("register the listener %s: %w", o.Name, err)
	}
	text, _ := reply[0].(string)
	r, err := parseRegistration(text)
	switch {
	case err != nil:
		return registration{}, fmt.Errorf("register the listener %s: %w", o.Name, err)
	case r.pattern != p.String():
		return registration{}, notify.Faultf("name", "name %s: it is in use for %s; use another name, or remove this one with bellhop listeners remove", o.Name, r.pattern)
	case o.From != (From{}) && o.From.text != r.from:
		return registration{}, notify.Faultf("from", "from %s: the name %s is in use and began at %s; leave from out to go on where it stands, use another name, or remove this one with bellhop listeners remove", o.From, o.Name, r.from)
	}
	r.now = position(reply[1])
	return r, nil
}

// registration is what Redis holds of a name: pattern, from where in words and
// as a position, up to where nothing is missed, and the id of the store, by which
// it is none of another store.
type registration struct {
	text          string // as Redis holds it
	pattern, from string
	start, floor  notify.Position
	store         string
	now           notify.Position // when it was asked for
}

func parseRegistration(text string) (registration, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return registration{}, fmt.Errorf("registration %.200q is foreign: it should be a pattern, a beginning, two positions and the id of a store", text)
	}
	return registration{text: text, pattern: fields[0], from: fields[1], start: position(fields[2]), floor: position(fields[3]), store: fields[4]}, nil
}

// run handles broadcasts until ctx ends, and returns when all that it took is
// settled or given back.
func (n *named) run(ctx context.Context) error {
	grace, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	defer after(ctx, n.Listener.o.Grace, func() { interrupt(ErrStopping) })()
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { keepLeases(settling, n.o.Lease, n.log, n.extend) })

	err := n.takeLoop(ctx, grace)
	if err != nil {
		interrupt(err)
	}
	n.giveUpQueue(0)
	if err == nil {
		n.settle(ctx) // at once, and not only when the handlers have returned
	}
	n.hands.Wait()
	settled()
	keeping.Wait()
	if err == nil {
		n.settle(ctx)
	}
	return err
}

// settle tells Redis at the end what was handled and what is given back.
func (n *named) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	pause := pause{log: n.log}
	for ctx.Err() == nil {
		n.mu.Lock()
		left := len(n.done) + len(n.back)
		n.mu.Unlock()
		if left == 0 {
			return
		}
		pause.after(ctx, n.take(ctx, ctx, 0))
	}
	n.log.Warn("cannot tell what was handled: it will be handed out again")
}

// takeLoop takes broadcasts whenever hands are free and there may be some, until
// ctx ends. What it took is handled until grace ends.
func (n *named) takeLoop(ctx, grace context.Context) error {
	pause := pause{log: n.log}
	stall := time.NewTimer(stalled)
	defer stall.Stop()
	for ctx.Err() == nil {
		if err := n.look(ctx); err != nil {
			pause.after(ctx, err)
			continue
		}
		free, unsettled := n.wanted()
		if !n.left && len(n.topics) == 0 {
			free = 0
		}
		if free == 0 && !unsettled && !n.rung {
			stall.Reset(n.stallsIn())
			select {
			case <-ctx.Done():
			case <-n.member.bell:
			case <-n.changed:
			case <-stall.C:
				n.giveUpQueue(stalled)
			}
			continue
		}
		err := n.take(context.WithoutCancel(ctx), grace, free)
		if errors.Is(err, ErrNoListener) || errors.Is(err, notify.ErrInvalid) {
			return err
		}
		pause.after(ctx, err)
	}
	return nil
}

// look takes note of what the hub rang for. Where any log may have grown it
// looks at all that have since the name began.
func (n *named) look(ctx context.Context) error {
	h, m := &n.hub, n.member
	h.mu.Lock()
	stale, left, rung := m.stale, m.left, m.rung
	m.stale, m.left, m.rung = false, false, make(map[string]bool)
	h.mu.Unlock()
	n.left, n.rung = n.left || left || stale, n.rung || left
	maps.Copy(n.topics, rung)
	if !stale {
		return nil
	}
	grown, err := h.grown(ctx, n.at.start, m.only(), m.pattern.Match)
	if err != nil {
		h.mu.Lock()
		m.stale = true
		h.mu.Unlock()
		return err
	}
	for _, topic := range grown.topics {
		n.topics[topic] = true
	}
	return nil
}

// wanted returns how many broadcasts to take now, and whether some are to be settled.
func (n *named) wanted() (free int, unsettled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	more := 0
	if n.mean > 0 {
		more = min(int(time.Duration(n.o.Concurrency)*ahead/n.mean), takeAhead)
	}
	if n.open < n.o.Concurrency+(more+1)/2 {
		free = n.o.Concurrency + more - n.open
	}
	return min(free, MaxClaim), len(n.done)+len(n.back) > 0
}

// stallsIn returns in how long the oldest in the queue will have been there too long.
func (n *named) stallsIn() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		return time.Hour
	}
	return time.Until(n.queue[0].queued.Add(stalled))
}

// giveUpQueue gives back what has been queued for some time, for another process.
func (n *named) giveUpQueue(age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 || time.Since(n.queue[0].queued) < age {
		return
	}
	for _, t := range n.queue {
		delete(n.held, t)
		n.back = append(n.back, t)
		n.open--
	}
	n.queue = nil
	n.mean = max(n.mean, time.Duration(n.o.Concurrency)*ahead+1) // nothing is taken ahead for now
}

// take takes up to free broadcasts, and settles with the same call what can be.
func (n *named) take(ctx, grace context.Context, free int) error {
	n.receipts.Lock()
	done, back := n.unsettled()
	var topics []string
	if free > 0 {
		topics = slices.Collect(maps.Keys(n.topics))
		topics = topics[:min(len(topics), takeTopics)]
	}
	keys := n.store.Keys()
	names := []string{keys.Logs(), keys.Listeners(), keys.Handed(), keys.Places(n.name), keys.Held(n.name), keys.Tries(n.name)}
	args := []any{n.name, n.at.text, n.o.Lease.Milliseconds(), free, keys.Base(), len(done), len(back)}
	args = append(args, settlementOf(done, back)...)
	for _, topic := range topics {
		names = append(names, keys.Log(topic))
		args = append(args, topic)
	}
	sent := time.Now()
	reply, err := n.store.Run(ctx, takeScript, names, args...)
	n.receipts.Unlock()
	switch {
	case err != nil:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.done, n.back = append(done, n.done...), append(back, n.back...)
		return fmt.Errorf("take broadcasts as %s: %w", n.name, err)
	case len(reply) < 4:
		return n.gone(ctx, storeID(reply[0]), back)
	}
	n.rung = false
	taken, _ := reply[1].([]any)
	if free > 0 {
		n.left = n.left && len(taken) == free
	}
	for _, topic := range topics {
		delete(n.topics, topic)
	}
	more, _ := reply[3].([]any)
	for _, topic := range more {
		n.topics[topic.(string)] = true
	}
	n.tell(reply[2].([]any))
	n.enqueue(grace, sent, reply[0].(int64), taken)
	return nil
}

// gone sees to it that the registration is gone. In the same store the name was
// removed. In another one Redis lost all that it held: the name is registered
// anew, and what it may have missed is told as a gap. It begins behind what was
// handed out and handled; back is what was to be given back, and is lost. What is
// in hand may still be handled, as long as its lease would have lasted at the least.
func (n *named) gone(ctx context.Context, store string, back []*turn) error {
	if store == n.at.store {
		return fmt.Errorf("listen as %s: it was removed: %w", n.name, ErrNoListener)
	}
	at, err := n.enroll(ctx, n.member.pattern, n.o)
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.back = append(back, n.back...) // for the next try
		return err
	}
	after := n.reached(back)
	n.at, n.latest, n.rung = at, 0, false
	clear(n.topics)
	n.hub.mu.Lock()
	n.member.stale = true
	signal(n.member.bell)
	n.hub.mu.Unlock()
	n.missed(Gap{n.member.pattern.String(), min(after, at.now), at.now}, storeLost, n.o.OnGap)
	return nil
}

// reached returns up to where nothing is missed when what is in hand, and what
// was to be given back, is lost.
func (n *named) reached(back []*turn) notify.Position {
	after := max(n.latest, n.at.start)
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.held {
		after = min(after, t.Position-1)
	}
	for _, t := range append(back, n.back...) {
		after = min(after, t.Position-1)
	}
	n.back = nil
	return after
}

// unsettled returns what is to be acknowledged and given back, a page of each.
func (n *named) unsettled() (done []string, back []*turn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	done, back = n.done[:min(len(n.done), takeBack)], n.back[:min(len(n.back), takeBack)]
	n.done, n.back = slices.Clone(n.done[len(done):]), slices.Clone(n.back[len(back):])
	return done, back
}

// settlementOf returns what take.lua is given of what is acknowledged, and given back.
func settlementOf(done []string, back []*turn) (args []any) {
	for _, member := range done {
		args = append(args, member)
	}
	for _, t := range back {
		args = append(args, t.member())
	}
	for _, t := range back {
		args = append(args, t.receipt)
	}
	return args
}

// tell tells of the gaps that take.lua found.
func (n *named) tell(gaps []any) {
	for _, gap := range gaps {
		fields := gap.([]any)
		topic, _ := fields[0].(string)
		n.missed(Gap{topic, position(fields[1]), position(fields[2])}, logTrimmed, n.o.OnGap)
	}
}

// enqueue queues what was taken, and sets hands to it.
func (n *named) enqueue(grace context.Context, sent time.Time, receipt int64, taken []any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for _, one := range taken {
		fields := one.([]any)
		topic, _ := fields[0].(string)
		attempt, _ := fields[1].(int64)
		found := n.hub.decode(topic, fields[2])
		if found.broadcast == nil {
			n.done = append(n.done, strconv.FormatInt(int64(found.position), 10)+" "+topic)
			continue
		}
		t := &turn{Broadcast: *found.broadcast, queued: now, sent: sent, receipt: receipt}
		t.Attempt = int(attempt)
		n.latest = max(n.latest, t.Position)
		n.queue = append(n.queue, t)
		n.held[t] = true
		n.open++
	}
	for range min(len(n.queue), n.o.Concurrency-n.busy) {
		n.busy++
		n.hands.Go(func() { n.hand(grace) })
	}
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	topic     = "doctor"
	lease     = 10 * time.Second
	tripsSent = 9
	patience  = 5 * time.Second // with a message that should arrive at once

	maxTrip = 50 * time.Millisecond // of a ring from a publisher to a subscriber: above it is a warning
)

// rehearsal does all that Bellhop does, with one message under a prefix of its own.
type rehearsal struct {
	store     *notify.Store
	pub       *notify.Publisher
	claimer   *subscribers.Claimer
	inspector *notify.Inspector

	listener *subscribers.Listener

	claimed subscribers.Delivery // the message, once it is claimed
}

func newRehearsal(db *notify.Store) (*rehearsal, error) {
	pub, noPublisher := notify.NewPublisher(db)
	inspector, noInspector := notify.NewInspector(db)
	claimer, noClaimer := subscribers.NewClaimer(db)
	listener, noListener := subscribers.NewListener(db, subscribers.ListenerOptions{Logger: slog.New(slog.DiscardHandler)})
	return &rehearsal{
		store: db, pub: pub, inspector: inspector, claimer: claimer, listener: listener,
	}, errors.Join(noPublisher, noInspector, noClaimer, noListener)
}

// rights checks that this user may do all that Bellhop does, by doing it, and
// measures how long a ring takes.
func (e *exam) rights(ctx context.Context, c notify.Config) {
	own := e.store.Prefix()
	if err := e.store.Check(ctx); err != nil {
		e.refused("", err, own)
		return
	}
	if e.standsStill(ctx) {
		e.report("rights", OK, "not rehearsed, since nothing becomes due while the clock stands still", "")
		return
	}
	c.Prefix = fmt.Sprintf("%s:doctor-%s", own, notify.NewID()[6:])
	if n := len(e.shards); n > 1 {
		c.Shards = n
	}
	c.MemoryShare = 100 // a full Redis is reported by the check of memory
	db, err := notify.Open(c)
	if err != nil {
		e.report("rights", Fail, err.Error(), "use a shorter BELLHOP_PREFIX")
		return
	}
	defer db.Close()
	r, err := newRehearsal(db)
	if err != nil {
		e.report("rights", Fail, err.Error(), "")
		return
	}
	defer r.remove(context.WithoutCancel(ctx))
	if step, err := r.run(ctx); err != nil {
		e.refused(step+": ", err, c.Prefix)
		return
	}
	if err := e.store.CheckPatterns(ctx, patience); err != nil {
		e.refused("subscribe to patterns, for NATS: ", err, own)
		return
	}
	e.report("rights", OK, "published, carried, claimed, settled, requeued and cancelled a message, and broadcast one", "")
	e.rings(ctx, db)
}

// standsStill reports whether the clock of a trial server stands still, and is moved by hand.
func (e *exam) standsStill(ctx context.Context) bool {
	if !slices.ContainsFunc(e.servers, func(s *server) bool { return s.trial }) {
		return false
	}
	still, err := e.store.Client().HExists(ctx, e.store.Keys().Topics(), script.StandsStill).Result()
	return err == nil && still
}

// functions checks that the server takes Bellhop's functions, and reports those of other versions.
func (s *server) functions(ctx context.Context, rights string) {
	const check = "functions"
	f, err := s.shard.Functions(ctx)
	var foreign *reach.LibraryError
	switch {
	case err != nil:
		found, remedy := explain(err, rights)
		s.report(check, Fail, found, remedy)
	case s.trial:
		s.report(check, OK, "the trial server runs scripts", "")
	case redis.HasErrorPrefix(f.Refused, "OOM"):
		s.report(check, Warn, "calls run as scripts, which take longer, since memory was full before the functions were loaded",
			"free memory; they are loaded within seconds")
	case errors.As(f.Refused, &foreign):
		s.report(check, Fail, fmt.Sprintf("somebody replaced the library %s; calls run as scripts, which take longer", foreign.Name), foreign.Remedy())
	case f.Refused != nil && strings.Contains(f.Refused.Error(), "'function|load'"):
		s.report(check, Warn, "calls run as scripts, which take longer: nobody loaded this version's functions", "run bellhop functions load, as a user who may do that")
	case f.Refused != nil:
		s.report(check, OK, "calls run as scripts, which take longer: "+f.Refused.Error(), "")
	case f.Others > 0:
		others := "another version"
		if f.Others > 1 {
			others = fmt.Sprintf("%d other versions", f.Others)
		}
		s.report(check, OK, fmt.Sprintf("loaded, beside those of %s, last used %s ago", others, fault.Short(f.Used)), "")
	default:
		s.report(check, OK, "loaded", "")
	}
}

// refused reports the error of a step that was tried under a prefix.
func (e *exam) refused(step string, err error, prefix string) {
	const check = "rights"
	if redis.HasErrorPrefix(err, "OOM") && slices.ContainsFunc(e.servers, func(s *server) bool { return s.full }) {
		e.report(check, Warn, "not tried, since Redis is full", "see the check of memory above")
		return
	}
	found, remedy := explain(err, e.store.Rights())
	e.report(check, Fail, step+found, strings.ReplaceAll(remedy, prefix, e.store.Prefix()))
}

// explain splits an error into a finding and its remedy. rights are those that the user should have.
func explain(err error, rights string) (found, remedy string) {
	var missing *reach.RightsError
	switch {
	case errors.As(err, &missing):
		return strings.TrimSuffix(err.Error(), "; "+missing.Remedy), missing.Remedy
	case redis.HasErrorPrefix(err, "OOM"):
		return "not tried, since Redis is full: publishes fail", Remedy(err)
	case reach.Refused(err):
		return err.Error(), "run ACL SETUSER NAME " + rights
	}
	return err.Error(), "fix what Redis reports"
}

// run takes a message through its life. It returns the step that failed.
func (r *rehearsal) run(ctx context.Context) (string, error) {
	const id = "message"
	steps := []struct {
		name string
		do   func() error
	}{
		{"publish", func() error { return second(r.pub.Publish(ctx, r.message(id))) }},
		{"inspect", func() error { return second(r.inspector.Inspect(ctx, topic, id)) }},
		{"reschedule", func() error { return second(r.pub.RescheduleIn(ctx, topic, id, time.Millisecond)) }},
		{"carry and claim", func() error { return r.carry(ctx) }},
		{"extend", func() error { return r.claimed.Extend(ctx, 2*lease) }},
		{"nack", func() error { return second(r.claimed.Nack(ctx, time.Millisecond, "rehearsal")) }},
		{"carry and claim again", func() error { return r.carry(ctx) }},
		{"release", func() error { return second(r.claimer.ReleaseMany(ctx, topic, []subscribers.Delivery{r.claimed})) }},
		{"claim", func() error { return r.claim(ctx) }},
		{"bury", func() error { return second(r.claimed.Bury(ctx, "rehearsal")) }},
		{"list", func() error { return second(r.inspector.List(ctx, topic, notify.Dead, 1, "")) }},
		{"requeue", func() error { return second(r.inspector.Requeue(ctx, topic, id)) }},
		{"claim requeued", func() error { return r.claim(ctx) }},
		{"acknowledge", func() error { return r.claimed.Ack(ctx) }},
		{"count", func() error {
			_, _, err := r.inspector.TopicsAfter(ctx, "", 1)
			return err
		}},
		{"survey", func() error { return second(r.inspector.Survey(ctx, 1)) }},
		{"publish again", func() error { return second(r.pub.Publish(ctx, r.message(id))) }},
		{"cancel", func() error { return second(r.pub.Cancel(ctx, topic, id)) }},
		{"broadcast", func() error {
			return second(r.pub.Broadcast(ctx, notify.Message{Topic: topic, ID: id, Body: []byte("rehearsal")}))
		}},
		{"carry and listen", func() error { return r.listen(ctx) }},
		{"forget the listener", func() error { return r.inspector.RemoveListener(ctx, topic) }},
		{"purge", func() error { return second(r.inspector.Purge(ctx, topic, id)) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return step.name, err
		}
	}
	return "", nil
}

func second[T any](_ T, err error) error { return err }

func (r *rehearsal) message(id string) notify.Message {
	return notify.Message{
		Topic: topic, ID: id, Body: []byte("rehearsal"), Delay: time.Hour, TTL: time.Hour,
		MaxAttempts: 3, Headers: map[string]string{"From": "doctor"},
	}
}

var errNothing = errors.New("the message did not arrive")

func (r *rehearsal) claim(ctx context.Context) error {
	got, err := r.claimer.Claim(ctx, topic, subscribers.ClaimOptions{Max: 1, Lease: lease})
	if err != nil {
		return err
	}
	if len(got) == 0 {
		return errNothing
	}
	r.claimed = got[0]
	return nil
}

// carry runs a carrier until the due message can be claimed.
func (r *rehearsal) carry(ctx context.Context) error {
	return r.carried(ctx, func(ctx context.Context, stop func()) error {
		claimed := errNothing
		r.store.Subscribe(ctx, func(e store.Event) {
			switch {
			case !errors.Is(claimed, errNothing): // stopped already: one event too many
			case e.Kind == reach.Broken:
				claimed = e.Err
			case e.Kind == reach.Subscribed || e.Kind == reach.Received:
				claimed = r.claim(ctx)
			}
			if !errors.Is(claimed, errNothing) {
				stop()
			}
		}, r.store.Of(topic).WakeChannel(topic))
		return claimed
	})
}

// listen runs a carrier until a named listener received the due broadcast.
func (r *rehearsal) listen(ctx context.Context) error {
	return r.carried(ctx, func(ctx context.Context, stop func()) error {
		received := errNothing
		err := r.listener.Listen(ctx, topic, func(context.Context, *subscribers.Broadcast) error {
			received = nil
			stop()
			return nil
		}, subscribers.ListenOptions{Name: topic, From: subscribers.FromBeginning()})
		return errors.Join(received, err)
	})
}

// carried calls f while a carrier runs. A carrier only logs what keeps it from its
// work, so carried returns the first error in that log.
func (r *rehearsal) carried(ctx context.Context, f func(ctx context.Context, stop func()) error) error {
	log, first := firstError()
	c, err := carrier.New(r.store, carrier.Options{Logger: log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	var running sync.WaitGroup
	var ended error
	running.Go(func() { ended = c.Run(ctx) })
	err = f(ctx, stop)
	stop()
	running.Wait()
	if fault := first(); errors.Is(err, errNothing) && fault != nil {
		return fault
	}
	return errors.Join(err, ended)
}

// rings reports the time that a ring takes from a publisher to a subscriber: of several
// shards that of the slowest.
func (e *exam) rings(ctx context.Context, db *notify.Store) {
	const check = "pub/sub round trip"
	shards, err := db.Shards(ctx)
	if err != nil {
		e.report(check, Fail, err.Error(), "fix what Redis reports")
		return
	}
	slowest, trip := shards[0], time.Duration(0)
	for _, shard := range shards {
		median, err := ring(ctx, shard)
		if err != nil {
			of := ""
			if len(shards) > 1 {
				of = numbers([]store.Shard{shard}) + ": "
			}
			e.report(check, Fail, of+err.Error(), "check that the user may use the channels &"+e.store.Heard(e.store.Prefix())+":*, and check the network")
			return
		}
		if median > trip {
			slowest, trip = shard, median
		}
	}
	found := millis(trip)
	if len(shards) > 1 {
		found = fmt.Sprintf("%s, of the slowest of %d shards: %d", found, len(shards), slowest.Number())
	}
	if trip > maxTrip {
		e.report(check, Warn, found, "move Redis nearer: no message arrives faster than this")
		return
	}
	e.report(check, OK, found, "")
}

// ring returns the median time that a ring takes in a shard. The error says how many did
// not arrive, and why.
func ring(ctx context.Context, shard store.Shard) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	inbox := reach.NewInbox(topic, false)
	var trips []time.Duration
	var sent time.Time
	var fault error
	ring := func() {
		sent = time.Now()
		if fault = shard.Ring(ctx, inbox, topic); fault != nil {
			stop()
		}
	}
	shard.Store().Subscribe(ctx, func(event store.Event) {
		switch event.Kind {
		case reach.Subscribed:
			ring()
		case reach.Received:
			if trips = append(trips, time.Since(sent)); len(trips) == tripsSent {
				stop()
				return
			}
			ring()
		case reach.Broken:
			fault = event.Err
			stop()
		}
	}, shard.InboxChannel(inbox))
	if len(trips) < tripsSent {
		return 0, fmt.Errorf("%d of %d rings arrived: %w", len(trips), tripsSent, errors.Join(fault, ctx.Err()))
	}
	slices.Sort(trips)
	return trips[len(trips)/2], nil
}

// remove removes what the rehearsal left: counters and the carrier's keys.
func (r *rehearsal) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = r.store.Clear(ctx, topic, topic) // the steps before reported any fault
}

// firstError returns a log that writes nothing, and what returns the first error in it.
func firstError() (log *slog.Logger, first func() error) {
	var mu sync.Mutex
	var fault error
	keep := func(_ []string, a slog.Attr) slog.Attr {
		mu.Lock()
		defer mu.Unlock()
		if err, is := a.Value.Any().(error); is && fault == nil {
			fault = err
		}
		return a
	}
	log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: keep}))
	return log, func() error {
		mu.Lock()
		defer mu.Unlock()
		return fault
	}
}

package find

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Kind is what is done to messages.
type Kind string

// The kinds of acts.
const (
	Requeue    Kind = "requeue"    // makes dead letters ready again
	Cancel     Kind = "cancel"     // removes scheduled, ready and blocked messages
	Reschedule Kind = "reschedule" // changes the due time of scheduled, ready and blocked messages
	Purge      Kind = "purge"      // removes dead letters for good
)

// Kinds are the kinds of acts.
func Kinds() []Kind { return []Kind{Requeue, Cancel, Reschedule, Purge} }

// An Act is what is done to all messages that a question asks for. Requeue and Purge work on dead ones,
// the others on scheduled, ready and blocked ones, Cancel with Stop on leased ones, too; whatever else matches is left alone.
type Act struct {
	Kind  Kind
	Stop  bool           // of Cancel: those that workers have are cancelled as store.Shard.Stop does it
	Due   time.Time      // of Reschedule; past: at once
	Delay *time.Duration // of Reschedule: Due is so long from the beginning of the act on; with Due not allowed, without needed unless only counted
}

// Acted is what an act did. Matched and Done are of this call, the rest of all calls so far.
type Acted struct {
	Matched int    // messages that the question asks for, without those that are left to the next call
	Done    int    // those of them that were changed; others had changed meanwhile, were another message of the id by then, or have no record
	Looked  int64  // what it looked at, as [Page] says
	Of      int64  // how many there were to look at, as [Page] says
	Cursor  string // with which it goes on; empty: all is done
}

// actMatches are the most messages that one slice of an act works on, where it reads records.
const actMatches = 50

// Act acts on the messages that a question asks for, for about a second; a call with the Cursor goes on. A dry run
// only counts. The act is for what was there when it began: it leaves alone what was published, of dead letters what died,
// since then, and so what it moved itself and what came back. Reschedule leaves alone what is due at the new time already,
// what became due meanwhile if the new time is past, and what was tried or, with attempts used up, rescheduled meanwhile. Errors: a
// notify.Fault, or that of the connection, a notify.MissingError or notify.ErrUnreplicated beside what is done: a shard that does not
// answer is passed over, unless the act began there. With a Cursor the act goes on where it failed.
func (f *Finder) Act(ctx context.Context, q Query, act Act, o Options, dryRun bool) (Acted, error) {
	if err := act.check(dryRun); err != nil {
		return Acted{}, err
	}
	const order = "by moving " // an older version went through the places in another one
	s, err := f.search(ctx, q, o, fmt.Sprint(order, act.Kind, act.Stop, act.Due.UnixMilli(), act.delay(), dryRun))
	if err != nil {
		return Acted{}, err
	}
	if err := s.narrow(act); err != nil {
		return Acted{}, err
	}
	a := actor{search: s, act: act, dryRun: dryRun}
	s.most, s.take, s.enter, s.spares = actMatches, a.take, a.enter, a.spares
	if s.brief = act.isOfDead() && !q.asksRecords(); s.brief {
		s.most = mostWork
	}
	if err = s.tally(ctx); err == nil {
		err = s.run(ctx)
	}
	a.done.Looked, a.done.Of, a.done.Cursor = s.progress()
	if err != nil {
		err = fmt.Errorf("%s what matches: %w", act.Kind, err)
	}
	return a.done, err
}

// delay returns the delay, zero if there is none.
func (a Act) delay() time.Duration {
	if a.Delay == nil {
		return 0
	}
	return *a.Delay
}

// check returns a Fault for an act that is none.
func (a Act) check(dryRun bool) error {
	switch delay := a.delay(); {
	case !slices.Contains(Kinds(), a.Kind):
		return fault.New("act", "act %.100q: use requeue, cancel, reschedule or purge", string(a.Kind))
	case a.Kind != Cancel && a.Stop:
		return fault.New("stop", "stop: %s stops no worker; leave it out, or use cancel", a.Kind)
	case a.Kind != Reschedule && (!a.Due.IsZero() || a.Delay != nil):
		return fault.New("due", "due or delay: %s has none; leave them out, or use reschedule", a.Kind)
	case a.Kind == Reschedule && a.Due.IsZero() && a.Delay == nil && !dryRun: // all at once needs to be said
		return fault.New("due", "due: it is missing; give delay or due, such as delay=0s for at once")
	case !a.Due.IsZero() && a.Delay != nil:
		return fault.New("delay", "delay and due: give one of them")
	case delay < 0:
		return fault.New("delay", "delay %v: it is negative; use zero or more", delay)
	case !a.Due.IsZero() && (a.Due.Before(time.UnixMilli(0)) || a.Due.After(record.MaxDue)):
		return fault.New("due", "due %s: use a time from 1970 to the year 9999", a.Due.Format(time.RFC3339))
	}
	return nil
}

// waiting are the states of messages that nobody has yet.
var waiting = []notify.State{notify.Scheduled, notify.Ready, notify.Blocked}

// isOfDead reports whether the act works on dead letters.
func (a Act) isOfDead() bool { return a.Kind == Requeue || a.Kind == Purge }

// states returns the states of messages that can be acted on so.
func (a Act) states() []notify.State {
	switch {
	case a.isOfDead():
		return []notify.State{notify.Dead}
	case a.Stop:
		return append(slices.Clone(waiting), notify.Leased)
	}
	return waiting
}

// Permits reports whether an act can change what a question asks for.
func (q Query) Permits(k Kind) bool { return len(q.changedBy(Act{Kind: k})) > 0 }

// changedBy returns the states that a question asks for and an act works on.
func (q Query) changedBy(a Act) []notify.State {
	asked := q.asked()
	return slices.DeleteFunc(slices.Clone(a.states()), func(state notify.State) bool { return !slices.Contains(asked, state) })
}

// narrow leaves out messages that an act does not work on.
func (s *search) narrow(a Act) error {
	s.query.states = s.query.changedBy(a)
	if len(s.query.states) == 0 {
		names := joined(a.states(), notify.State.String)
		if last := strings.LastIndex(names, ","); last >= 0 {
			names = strings.ReplaceAll(names[:last], ",", ", ") + " and " + names[last+1:]
		}
		return fault.New("q", "q: %s works on %s messages, and the question asks for none of these; leave out state, or ask for them", a.Kind, names)
	}
	slices.SortFunc(s.query.states, func(a, b notify.State) int { return slices.Index(moving, a) - slices.Index(moving, b) })
	s.places = s.query.places()
	return nil
}

// moving are the states in the order in which messages go through them: where an act frees the seat of a key, the next one of the key, which
// is called up then, was seen in its line.
var moving = []notify.State{notify.Scheduled, notify.Blocked, notify.Ready, notify.Leased}

// An actor is one call of Act.
type actor struct {
	*search
	act    Act
	dryRun bool
	done   Acted
}

// enter notes when the act begins in a shard, and waits until that is past: what changes from then on has a later time.
func (a *actor) enter(ctx context.Context, shard store.Shard) error {
	var now time.Time
	_, err := a.Paced(ctx, func(ctx context.Context) (err error) {
		now, err = shard.Time(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if a.at.Began = ms(now); a.at.Due == 0 && a.act.Kind == Reschedule {
		a.at.Due = max(ms(now.Add(a.act.delay())), 1)
		if !a.act.Due.IsZero() {
			a.at.Due = max(ms(a.act.Due.Add(time.Millisecond-1)), 1)
		}
	}
	return store.Pause(ctx, 2*time.Millisecond)
}

// spares reports whether a message was not there when the act began, or was moved by it.
func (a *actor) spares(i *notify.Info, now time.Time) bool {
	since := func(t time.Time) bool { return !t.IsZero() && ms(t) > a.at.Began }
	switch {
	case a.act.isOfDead():
		return since(i.Died)
	case since(i.Published):
		return true
	case a.act.Kind == Cancel:
		return false
	}
	tried := len(i.History) > 0 && since(i.History[len(i.History)-1].Ended)
	return tried || since(i.Moved) || a.isMoved(i.Due, now) || a.isMoved(i.FirstDue, now)
}

// isMoved reports whether a due time is one that the act gives.
func (a *actor) isMoved(due, now time.Time) bool {
	to := max(a.at.Due, a.at.Began)
	return !due.IsZero() && ms(due) >= to && ms(due) <= max(to, ms(now))
}

// take acts on messages of a shard.
func (a *actor) take(ctx context.Context, shard store.Shard, found []notify.Info, now time.Time) error {
	if a.dryRun {
		a.done.Matched += len(found)
		return nil
	}
	if a.act.isOfDead() {
		return a.deal(ctx, shard, found)
	}
	for i := range found {
		changed, err := a.change(ctx, shard, &found[i], now)
		if changed { // beside an ErrUnreplicated, too
			a.done.Done++
		}
		if changed || err == nil {
			a.done.Matched++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deal requeues or purges dead letters.
func (a *actor) deal(ctx context.Context, shard store.Shard, found []notify.Info) error {
	run := store.Shard.Requeue
	if a.act.Kind == Purge {
		run = store.Shard.Purge
	}
	for len(found) > 0 {
		topic := found[0].Topic
		var letters store.Letters
		for _, one := range found[:min(len(found), store.MostLetters)] {
			if one.Topic != topic {
				break
			}
			letters.Members, letters.Died = append(letters.Members, record.Member(topic, one.ID)), append(letters.Died, one.Died)
		}
		var dealt store.Dealt
		_, err := a.Paced(ctx, func(ctx context.Context) (err error) {
			dealt, err = run(shard, ctx, topic, letters)
			return err
		})
		a.done.Matched += dealt.Checked
		if a.done.Done += dealt.Done; err != nil {
			return err
		}
		if dealt.Checked < 1 {
			return errors.New("redis answered that it did nothing")
		}
		found = found[dealt.Checked:]
	}
	return nil
}

// change cancels or reschedules a message, and reports whether it was in a state for that.
func (a *actor) change(ctx context.Context, shard store.Shard, i *notify.Info, now time.Time) (bool, error) {
	member := record.Member(i.Topic, i.ID)
	if a.act.Kind == Cancel {
		cancel := shard.CancelWaiting
		if a.act.Stop {
			cancel = shard.StopWaiting
		}
		state, err := cancel(ctx, i.Topic, member, i.Published)
		return slices.Contains(a.act.states(), state), err
	}
	when := store.When(0)
	if a.at.Due > ms(now) {
		when = store.At(time.UnixMilli(a.at.Due))
	}
	state, _, err := shard.Reschedule(ctx, i.Topic, member, when, i.Published)
	return slices.Contains(waiting, state), err
}

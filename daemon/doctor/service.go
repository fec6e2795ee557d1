package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	tooLate  = time.Minute      // a message ready and not claimed for longer, or a listener further behind, is a finding
	behindBy = 10 * time.Second // a message due for longer and still scheduled is a finding
	lately   = 24 * time.Hour   // a death within this is new
)

// service reports carriers, workers and listeners that are missing or too slow.
func (e *exam) service(ctx context.Context) {
	e.standby(ctx)
	s, err := e.survey(ctx)
	if err != nil {
		e.report("overdue", Warn, err.Error(), "see the check of rights above")
		return
	}
	e.overdue(ctx, s)
	e.behind(s)
	e.paused(s)
	e.settings(ctx)
	e.failing(ctx, s)
	e.dead(ctx, s)
	e.blocked(ctx, s)
	e.groups(ctx)
	e.branches(ctx, s)
	e.leases(ctx, s)
	e.listeners(ctx, s)
	e.pushes(ctx, s)
	e.schedules(ctx)
}

// standby reports whether another daemon takes over if the carrier of a shard ends.
func (e *exam) standby(ctx context.Context) {
	const check = "standby"
	var none []store.Shard
	least := int64(-1)
	for _, l := range e.looks {
		if l.err != nil || l.status.Name == "" {
			continue // reported by the check of the carrier
		}
		n, err := carrier.Standbys(ctx, l.shard)
		if err != nil {
			e.report(check, Warn, err.Error(), "the user needs "+standbyRight(e.shards))
			return
		}
		if n == 0 {
			none = append(none, l.shard)
		}
		if least < 0 || n < least {
			least = n
		}
	}
	of := ""
	if len(none) < len(e.shards) {
		of = " for " + numbers(none)
	}
	switch {
	case least < 0:
	case least == 0:
		e.report(check, Warn, "none"+of+": if the carrier's machine fails, no delayed message is delivered", "run a second daemon on another machine: bellhop serve")
	default:
		e.report(check, OK, fmt.Sprintf("%d would take over", least), "")
	}
}

// standbyRight returns the right with which standbys can be counted.
func standbyRight(shards []store.Shard) string {
	if len(shards) > 1 {
		return "+pubsub|shardnumsub"
	}
	return "+pubsub|numsub"
}

// overdue reports topics whose ready messages are not claimed.
func (e *exam) overdue(ctx context.Context, s service) {
	const check = "overdue"
	rows, pushOf := 0, e.pushOf(ctx, s)
	for _, n := range s.Overdue {
		c := s.counts[n.Topic]
		if c.Paused || c.Ready == 0 || c.Overdue < tooLate {
			continue
		}
		if rows++; rows > named {
			continue
		}
		found := fmt.Sprintf("%s: oldest due %s ago, %d ready, ", n.Topic, rough(c.Overdue), c.Ready)
		switch {
		case slices.ContainsFunc(e.undelivered, func(p notify.Pattern) bool { return p.Match(n.Topic) }):
			e.warn(n.Topic, check, found+"they are pushed to NATS", "see the check of NATS above")
		case c.Concurrency > 0 && c.Leased >= c.Concurrency:
			e.warn(n.Topic, check, found+fmt.Sprintf("%d of at most %d leased", c.Leased, c.Concurrency), "raise that, if it may be: bellhop topics set "+n.Topic+" concurrency=N")
		case c.Rate > 0 && c.Waiting > 0:
			e.warn(n.Topic, check, found+fmt.Sprintf("claimed at no more than %v", c.Rate), "raise that, if it may be: bellhop topics set "+n.Topic+" rate=N/s")
		case pushOf(n.Topic) != nil:
			e.overduePush(n.Topic, found, c, pushOf(n.Topic))
		case c.Waiting > 0:
			e.warn(n.Topic, check, found+"waiting subscribers do not claim them", "check whether these workers hang; a beat rings them again")
		case c.Leased > 0:
			e.warn(n.Topic, check, found+fmt.Sprintf("no subscriber waits, %d leased", c.Leased), "start more workers, or raise their concurrency: bellhop work "+n.Topic+" --concurrency 8")
		default:
			e.warn(n.Topic, check, found+"no subscriber waits", "start a worker: bellhop work "+n.Topic)
		}
	}
	e.reportRest(check, rows, len(s.Overdue), "topic", "bellhop topics --sort overdue", fmt.Sprintf("no message has been ready and unclaimed for more than %v", tooLate))
}

// behind reports due messages that are still scheduled.
func (e *exam) behind(s service) {
	const check, remedy = "behind", "see the check of the carrier above; a live carrier works this off by itself, oldest first"
	var late []notify.Notable
	for _, n := range s.Behind {
		if s.Now.Sub(n.Since) > behindBy {
			late = append(late, n)
		}
	}
	next := e.next()
	switch {
	case len(late) > 0:
		topics := plural(len(late), "topic")
		if len(late) == surveyed {
			topics += " or more"
		}
		e.report(check, Warn, fmt.Sprintf("%s with overdue messages that are not ready yet; the oldest is of %s, due %s ago",
			topics, late[0].Topic, rough(s.Now.Sub(late[0].Since))), remedy)
	case !next.IsZero() && s.Now.Sub(next) > behindBy:
		e.report(check, Warn, fmt.Sprintf("overdue broadcasts are not sent; the oldest was due %s ago", rough(s.Now.Sub(next))), remedy)
	default:
		e.report(check, OK, "all due messages are ready", "")
	}
}

// next returns when the next message or broadcast of all shards is due; zero: nothing is
// scheduled.
func (e *exam) next() (next time.Time) {
	for _, l := range e.looks {
		if at := l.status.Next; l.err == nil && !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// paused reports paused topics that keep messages from being handled.
func (e *exam) paused(s service) {
	const check = "paused"
	rows := 0
	for _, n := range s.Paused {
		c := s.counts[n.Topic]
		if c.Ready == 0 || c.Overdue < tooLate {
			continue
		}
		if rows++; rows > named {
			continue
		}
		lasts := ""
		if !n.Since.IsZero() {
			lasts = fmt.Sprintf(" for %s", rough(s.Now.Sub(n.Since)))
		}
		if !c.PausedUntil.IsZero() {
			lasts += ", until " + c.PausedUntil.Format(time.RFC3339)
		}
		e.mend(Finding{Check: check, Name: n.Topic, Act: Resume}, fmt.Sprintf("%s: paused%s, %d ready, oldest due %s ago", n.Topic, lasts, c.Ready, rough(c.Overdue)),
			"resume it, unless the pause is intended: bellhop resume "+n.Topic)
	}
	fine := "no topic"
	if len(s.Paused) > 0 {
		fine = plural(len(s.Paused), "topic") + ", with no message waiting"
	}
	e.reportRest(check, rows, len(s.Paused), "topic", "bellhop topics --bad", fine)
}

// dead reports messages that died lately.
func (e *exam) dead(ctx context.Context, s service) {
	const check = "dead"
	rows := 0
	for _, n := range s.Deaths {
		if s.Now.Sub(n.Since) > lately {
			continue
		}
		if rows++; rows > named {
			continue
		}
		died, err := e.store.Of(n.Topic).DeathsSince(ctx, n.Topic, s.Now.Add(-lately))
		if err != nil {
			e.report(check, Warn, err.Error(), "fix what Redis reports")
			return
		}
		e.mend(Finding{Check: check, Name: n.Topic, Act: Requeue}, fmt.Sprintf("%s: %d died in the last %s, the newest %s ago", n.Topic, died, rough(lately), rough(s.Now.Sub(n.Since))),
			"see why, then requeue or purge them: bellhop dead list "+n.Topic)
	}
	e.reportRest(check, rows, len(s.Deaths), "topic", "bellhop dead list", fmt.Sprintf("none in the last %s; kept: %d", rough(lately), s.Dead))
}

// blocked reports keys that a dead letter bars.
func (e *exam) blocked(ctx context.Context, s service) {
	const check = "blocked"
	rows := 0
	for _, n := range s.Blocked {
		keys, _, err := store.ListKeys(ctx, e.store, n.Topic, store.OldestBlocked, surveyed)
		if err != nil {
			e.report(check, Warn, err.Error(), "fix what Redis reports")
			return
		}
		barred := slices.DeleteFunc(keys, func(k store.Key) bool {
			return !slices.ContainsFunc(k.Seats, func(s store.Seat) bool { return s.State == notify.Dead })
		})
		if len(barred) == 0 {
			continue
		}
		if rows++; rows > named {
			continue
		}
		first := barred[0]
		seat := slices.IndexFunc(first.Seats, func(s store.Seat) bool { return s.State == notify.Dead })
		letter := first.Seats[seat].ID
		e.mend(Finding{Check: check, Name: n.Topic, ID: letter, Key: first.Key, Act: Requeue}, fmt.Sprintf("%s: dead letters bar %s; of %s, %d blocked, the oldest due %s ago, behind %s",
			n.Topic, plural(len(barred), "key"), first.Key, first.Blocked, rough(s.Now.Sub(first.Oldest)), letter), "see why, then requeue or purge what bars: bellhop keys "+n.Topic)
	}
	e.reportRest(check, rows, len(s.Blocked), "topic", "bellhop topics", "no dead letter bars a key")
}

// listeners reports named listeners that get broadcasts late or miss them.
func (e *exam) listeners(ctx context.Context, s service) {
	const check = "listeners"
	names, err := e.inspector.Listeners(ctx)
	if there(err) != nil {
		e.report(check, Warn, err.Error(), "see what is registered: bellhop listeners")
		return
	}
	rows := 0
	for _, n := range names {
		found, remedy := lagOf(n, s.Now)
		if found == "" {
			continue
		}
		if rows++; rows <= named {
			e.warn(n.Name, check, n.Name+": "+found, remedy)
		}
	}
	fine := "none with a name"
	if len(names) > 0 {
		fine = fmt.Sprintf("%s with a name, none of them more than %v behind", plural(len(names), "listener"), tooLate)
	}
	e.reportRest(check, rows, len(names), "listener", "bellhop listeners", fine)
}

// lagOf returns what is wrong with a named listener, and what to do about it.
func lagOf(n notify.ListenerInfo, now time.Time) (found, remedy string) {
	late := now.Sub(n.Oldest)
	if n.Oldest.IsZero() || late < tooLate && !n.AtRisk {
		late = 0
	}
	switch {
	case n.HasGap:
		found = "has missed broadcasts that the log no longer keeps"
	case late > 0 && n.AtRisk:
		found = fmt.Sprintf("is %s behind, and its next broadcasts will soon be removed from the log", rough(late))
	case late > 0:
		found = fmt.Sprintf("is %s behind", rough(late))
	default:
		return "", ""
	}
	if !n.Active {
		return found + ", nobody listens", fmt.Sprintf("listen again: bellhop listen '%s' --name %s; or remove it: bellhop listeners remove %s", n.Pattern, n.Name, n.Name)
	}
	return found + ", somebody listens", "raise its concurrency, run more processes, or keep more in the log: BELLHOP_BROADCAST_KEEP"
}

package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	repairPlacesScript    = script.New("repair/places")
	repairRecordsScript   = script.New("repair/records")
	repairLeftoversScript = script.New("repair/leftovers")
	repairTopicsScript    = script.New("repair/topics")
	repairListenersScript = script.New("repair/listeners")
	repairCountersScript  = script.New("repair/counters")
	repairSeatsScript     = script.New("repair/seats")
	repairSchedulesScript = script.New("repair/schedules")
	repairHooksScript     = script.New("repair/hooks")
	repairGroupedScript   = script.New("repair/grouped")
	repairGroupsScript    = script.New("repair/groups")
)

// A RepairStep says what one step of a repair checks.
type RepairStep struct {
	Apply  bool   // repair what it finds
	Cursor string // of the page; empty: the first
	Size   int    // how many entries to check, or some more
}

// Repaired is the result of a step of a repair.
type Repaired struct {
	Next     string        // cursor of the next page; empty: there is none
	Checked  int           // number of entries checked
	Took     time.Duration // how long it kept Redis busy; 0 if Redis's clock stands still in a script
	Findings []Finding
}

// A Finding is an entry that is wrong.
type Finding struct {
	What   string // what is wrong, such as "no record"
	Name   string // a member, a topic or a listener
	Key    string // the key that holds it
	Short  string // Key without the beginning that all keys of the shard have
	Remedy string // what a repair does, such as "removed"; empty: nothing
}

// RepairPlace checks a page of a place, which is a topic's if each topic has one. It
// finds members without a record, members of another topic, members in two places,
// and dead letters without a reason.
func (s Shard) RepairPlace(ctx context.Context, place script.Place, topic string, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairPlacesScript, func(k script.Keys) string { return k.Place(place, topic) }, step, topic)
}

// RepairRecords checks a page of the records. It finds those that have no place, those
// of ids that stay taken which no set says so of, and those that are not in their group, or wait for one that does not know of that.
func (s Shard) RepairRecords(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairRecordsScript, nil, step)
}

// RepairSeats checks a page of what is kept of a topic's messages that have keys: of their keys, their
// seats or the line, see [script.Keys]. It finds seats of nobody, messages without one, and entries of nothing.
func (s Shard) RepairSeats(ctx context.Context, of func(script.Keys, string) string, topic string, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairSeatsScript, func(k script.Keys) string { return of(k, topic) }, step, topic)
}

// RepairSchedules checks a page of the schedules of a topic: of their states, or of what was put; or without a topic of the index of all, see
// [script.Keys]. It finds those that lost their state or their entry in the index, and entries of nothing.
func (s Shard) RepairSchedules(ctx context.Context, of func(script.Keys, string) string, topic string, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairSchedulesScript, func(k script.Keys) string { return of(k, topic) }, step, topic)
}

// RepairGrouped checks that topics which have groups are in their index. Topics may hold foreign members of that, too. If it repairs, nothing that waits
// for one of these groups comes for as long, since what is in it may be missing; 0: that is over.
func (s Shard) RepairGrouped(ctx context.Context, apply bool, topics []string, holds time.Duration) (Repaired, error) {
	return s.repair(ctx, repairGroupedScript, nil, RepairStep{Apply: apply}, append([]any{holds.Milliseconds()}, anys(topics)...)...)
}

// What RepairGroups checks.
const (
	GroupNumbers = "numbers" // of groups, and their heads
	GroupNames   = "names"
	GroupMembers = "members" // of groups
	GroupsOver   = "mend"    // nothing: it has the carrier look at groups of which nobody is left
)

// RepairGroups checks a page of what is kept of the groups of a topic: numbers, names, or members. RepairRecords makes what is missing of it.
func (s Shard) RepairGroups(ctx context.Context, topic, what string, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairGroupsScript, func(k script.Keys) string {
		if what == GroupMembers {
			return k.Grouped(topic)
		}
		return k.GroupsOf(topic)
	}, step, topic, what)
}

// RepairAttempts checks a page of the counts of attempts. It finds those without a message.
func (s Shard) RepairAttempts(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Attempts, step)
}

// RepairExpiries checks a page of the times to live. It finds those without a message.
func (s Shard) RepairExpiries(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Expiries, step)
}

// RepairExtras checks a page of what else is noted of messages. It finds what is noted of none.
func (s Shard) RepairExtras(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Extras, step)
}

// RepairTaken checks a page of the ids that stay taken. It finds those that no record says so of.
func (s Shard) RepairTaken(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Taken, step)
}

// RepairClaims checks a page of the calls that claimed. It finds those that cannot be read.
func (s Shard) RepairClaims(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Claims, step)
}

// RepairWorkers checks a page of the workers. It finds those that cannot be read.
func (s Shard) RepairWorkers(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Workers, step)
}

// RepairRelayed checks a page of what is noted of outboxes. It finds what cannot be read.
func (s Shard) RepairRelayed(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Relayed, step)
}

// RepairReasons checks a page of the reasons of deaths. It finds those without a dead letter.
func (s Shard) RepairReasons(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, script.Keys.Deaths, step)
}

// RepairTopics checks that topics are in the indexes as they should be. topics may
// hold foreign members of the indexes, too.
func (s Shard) RepairTopics(ctx context.Context, apply bool, topics []string) (Repaired, error) {
	return s.repair(ctx, repairTopicsScript, nil, RepairStep{Apply: apply}, anys(topics)...)
}

// RepairListeners checks the keys of named listeners.
func (s Shard) RepairListeners(ctx context.Context, apply bool, names []string) (Repaired, error) {
	return s.repair(ctx, repairListenersScript, nil, RepairStep{Apply: apply}, anys(names)...)
}

// RepairHooks compares the hooks with the named listeners to deaths, all at one moment.
// If there are too many for one step it checks none.
func (s Shard) RepairHooks(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairHooksScript, nil, step)
}

// RepairCounters compares a page of the counters with what they count: the members
// of PlaceLeased or PlaceBroadcasts, all at one moment. If there are too many
// members for one step it checks none.
func (s Shard) RepairCounters(ctx context.Context, of script.Place, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairCountersScript, func(k script.Keys) string { return k.Place(of, "") }, step, of.String())
}

// repair runs a step. All scripts of lua/repair have the same first arguments and the same reply.
func (s Shard) repair(ctx context.Context, t *script.Transition, key func(script.Keys) string, step RepairStep, more ...any) (done Repaired, err error) {
	cursor, apply := "0", 0
	if step.Cursor != "" {
		cursor = step.Cursor
	}
	if step.Apply {
		apply = 1
	}
	r, err := s.RunOn(ctx, t, key, append([]any{apply, cursor, step.Size}, more...)...)
	if err != nil {
		return Repaired{}, err
	}
	if done.Next = r.Text(); done.Next == "0" {
		done.Next = ""
	}
	done.Checked = int(r.Integer())
	done.Took = time.Duration(r.Integer()) * time.Microsecond
	for all := r.List(); all.More(); {
		done.Findings = append(done.Findings, s.finding(all.List()))
	}
	return done, r.End()
}

func (s Shard) finding(r *script.Reply) Finding {
	f := Finding{What: r.Text(), Name: r.Text(), Key: r.Text(), Remedy: r.Text()}
	f.Short = strings.TrimPrefix(f.Key, s.Keys().Base())
	_ = r.End() // an error ends the replies around it, too
	return f
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// RepairSize returns about how many entries a repair must check: each message has a
// record and a place, and a group a number and a name. The error is that of the connection.
func (s Shard) RepairSize(ctx context.Context) (int, error) {
	var topics []string // with groups
	if err := s.GroupedTopics(ctx, func(topic string) { topics = append(topics, topic) }); err != nil {
		return 0, err
	}
	return reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (int, error) {
		pipe := r.Pipeline()
		messages, attempts := pipe.HLen(ctx, k.Messages()), pipe.HLen(ctx, k.Attempts())
		deaths, expiries := pipe.HLen(ctx, k.Deaths()), pipe.ZCard(ctx, k.Expiries())
		extras, taken := pipe.HLen(ctx, k.Extras()), pipe.ZCard(ctx, k.Taken())
		claims, workers := pipe.ZCard(ctx, k.Claims()), pipe.HLen(ctx, k.Workers())
		var grouped []*redis.IntCmd
		for _, topic := range topics {
			heads := pipe.HLen(ctx, k.GroupsOf(topic)) // read for the numbers, and for the names
			grouped = append(grouped, heads, heads, pipe.ZCard(ctx, k.Grouped(topic)))
		}
		var foreign redis.Error // a key of the wrong type, which its own step finds
		if _, err := pipe.Exec(ctx); err != nil && !errors.As(err, &foreign) {
			return 0, err
		}
		size := 2*messages.Val() + attempts.Val() + deaths.Val() + expiries.Val() + extras.Val() + taken.Val() + claims.Val() + workers.Val()
		for _, n := range grouped {
			size += n.Val()
		}
		return int(size), nil
	})
}

// A scanned is a page of a scan, and where the next one begins: zero at the end.
type scanned struct {
	page []string
	next uint64
}

func scannedBy(scan *redis.ScanCmd) (s scanned, err error) {
	s.page, s.next, err = scan.Result()
	return s, err
}

// scanPage is about how many members a call of a scan returns.
const scanPage = 512

// IndexedTopics calls on with each topic that has a counter or is in an index by
// which its messages are found, and with foreign members there. It may call on more
// than once for a topic. The error is that of the connection.
func (s Shard) IndexedTopics(ctx context.Context, on func(topic string)) error {
	for _, key := range []func(script.Keys) string{script.Keys.ScheduledTopics, script.Keys.ReadyTopics, script.Keys.PausedTopics, script.Keys.TopicNames, script.Keys.KeyedTopics} {
		if err := s.members(ctx, key, on); err != nil {
			return err
		}
	}
	return s.firsts(ctx, func(r redis.UniversalClient, k script.Keys, cursor uint64) *redis.ScanCmd {
		return r.HScan(ctx, k.Topics(), cursor, "", scanPage)
	}, func(field string) {
		topic, _, _ := strings.Cut(field, ":")
		on(topic)
	})
}

// KeyedTopics calls on with each topic that the index of those with keys has. The error is that of the connection.
func (s Shard) KeyedTopics(ctx context.Context, on func(topic string)) error {
	return s.members(ctx, script.Keys.KeyedTopics, on)
}

// GroupedTopics calls on with each topic that the index of those with groups has. The error is that of the connection.
func (s Shard) GroupedTopics(ctx context.Context, on func(topic string)) error {
	return s.members(ctx, script.Keys.GroupedTopics, on)
}

// HandedListeners calls on with each named listener that has leased broadcasts, as
// the index says. It may call on more than once for a name. The error is that of the
// connection.
func (s Shard) HandedListeners(ctx context.Context, on func(name string)) error {
	return s.members(ctx, script.Keys.Alarms, func(entry string) {
		if !strings.ContainsAny(entry[:min(1, len(entry))], "/=@") { // a topic, a group, or a topic that is copied into its branches
			on(entry)
		}
	})
}

// members calls on with each member of a sorted set.
func (s Shard) members(ctx context.Context, key func(script.Keys) string, on func(member string)) error {
	return s.firsts(ctx, func(r redis.UniversalClient, k script.Keys, cursor uint64) *redis.ScanCmd {
		return r.ZScan(ctx, key(k), cursor, "", scanPage)
	}, on)
}

// firsts calls on with the first of each pair in the pages of a scan. A key of the
// wrong type, which Walk finds, counts as empty.
func (s Shard) firsts(ctx context.Context, scan func(r redis.UniversalClient, k script.Keys, cursor uint64) *redis.ScanCmd, on func(first string)) error {
	for cursor := uint64(0); ; {
		found, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (scanned, error) { return scannedBy(scan(r, k, cursor)) })
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil
		}
		if err != nil {
			return err
		}
		for i := 0; i < len(found.page); i += 2 {
			on(found.page[i])
		}
		if cursor = found.next; cursor == 0 {
			return nil
		}
	}
}

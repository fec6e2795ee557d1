package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	repairPlacesScript    = script("repair/places")
	repairRecordsScript   = script("repair/records")
	repairLeftoversScript = script("repair/leftovers")
	repairTopicsScript    = script("repair/topics")
	repairListenersScript = script("repair/listeners")
	repairCountersScript  = script("repair/counters")
)

// A RepairStep is what one step of a repair looks at.
type RepairStep struct {
	Apply  bool   // repair what is found
	Cursor string // of the page; empty: the first
	Size   int    // how many to look at, or some more
}

// Repaired is what a step of a repair found.
type Repaired struct {
	Next     string        // the cursor of the next page; empty: there is none
	Looked   int           // at how many
	Took     time.Duration // that it kept Redis busy; 0 where that stops the clock inside a script
	Findings []Finding
}

// A Finding is something that is out of place.
type Finding struct {
	What   string // is wrong, such as "no record"
	Name   string // a member, a topic or a listener
	Key    string // where
	Short  string // Key without what all keys of the shard begin with
	Remedy string // what repairs it, such as "removed"; empty: nothing does
}

// RepairPlace looks at a page of a place, of a topic if there is one for each:
// for members without a record, members of another topic, members that stand in
// two places, and dead letters without a reason.
func (s Shard) RepairPlace(ctx context.Context, place Place, topic string, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairPlacesScript, s.store.keys.name(place.row(), topic), step, topic)
}

// RepairRecords looks at a page of the records, for those that stand in no place.
func (s Shard) RepairRecords(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairRecordsScript, "", step)
}

// RepairAttempts looks at a page of the counts of attempts, for those of nothing.
func (s Shard) RepairAttempts(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, s.store.keys.Attempts(), step)
}

// RepairExpiries looks at a page of the times to live, for those of nothing.
func (s Shard) RepairExpiries(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, s.store.keys.Expiries(), step)
}

// RepairReasons looks at a page of the reasons of deaths, for those of nothing.
func (s Shard) RepairReasons(ctx context.Context, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairLeftoversScript, s.store.keys.Deaths(), step)
}

// RepairTopics looks whether topics stand in the indexes as they should. What
// stands there in place of a topic may be among them.
func (s Shard) RepairTopics(ctx context.Context, apply bool, topics []string) (Repaired, error) {
	return s.repair(ctx, repairTopicsScript, "", RepairStep{Apply: apply}, anys(topics)...)
}

// RepairListeners looks at what is kept of named listeners.
func (s Shard) RepairListeners(ctx context.Context, apply bool, names []string) (Repaired, error) {
	return s.repair(ctx, repairListenersScript, "", RepairStep{Apply: apply}, anys(names)...)
}

// RepairCounters compares a page of the counters with what they count: the
// members of PlaceLeased or PlaceBroadcasts, all at one moment. Where these are
// too many for one step it looks at none.
func (s Shard) RepairCounters(ctx context.Context, of Place, step RepairStep) (Repaired, error) {
	return s.repair(ctx, repairCountersScript, s.store.keys.name(of.row(), ""), step, of.String())
}

// repair makes a step. Each script of lua/repair has the same first arguments, and answers the same.
func (s Shard) repair(ctx context.Context, t *transition, key string, step RepairStep, more ...any) (done Repaired, err error) {
	cursor, apply := "0", 0
	if step.Cursor != "" {
		cursor = step.Cursor
	}
	if step.Apply {
		apply = 1
	}
	r, err := s.runOn(ctx, t, key, append([]any{apply, cursor, step.Size}, more...)...)
	if err != nil {
		return Repaired{}, err
	}
	if done.Next = r.text(); done.Next == "0" {
		done.Next = ""
	}
	done.Looked = int(r.integer())
	done.Took = time.Duration(r.integer()) * time.Microsecond
	for all := r.list(); all.more(); {
		done.Findings = append(done.Findings, s.finding(all.list()))
	}
	return done, r.end()
}

func (s Shard) finding(r *reply) Finding {
	f := Finding{What: r.text(), Name: r.text(), Key: r.text(), Remedy: r.text()}
	f.Short = strings.TrimPrefix(f.Key, s.store.keys.base)
	_ = r.end() // which ends all that it is in
	return f
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// RepairSize returns about how much a repair has to look at: each message has a
// record and stands in a place. The error is that of the connection.
func (s Shard) RepairSize(ctx context.Context) (int, error) {
	keys, pipe := s.store.keys, s.store.client.Pipeline()
	messages, attempts := pipe.HLen(ctx, keys.Messages()), pipe.HLen(ctx, keys.Attempts())
	deaths, expiries := pipe.HLen(ctx, keys.Deaths()), pipe.ZCard(ctx, keys.Expiries())
	var foreign redis.Error // of a key of another type, which is found when it is looked at
	if _, err := pipe.Exec(ctx); err != nil && !errors.As(err, &foreign) {
		return 0, err
	}
	return int(2*messages.Val() + attempts.Val() + deaths.Val() + expiries.Val()), nil
}

// scanPage is how many members a call of a scan returns, about.
const scanPage = 512

// IndexedTopics calls on with each topic that has a counter or stands in an
// index by which its messages are found, and with what stands there in place of
// one. It may come more than once. The error is that of the connection.
func (s Shard) IndexedTopics(ctx context.Context, on func(topic string)) error {
	keys := s.store.keys
	for _, key := range []string{keys.Schedules(), keys.ReadyTopics(), keys.PausedTopics(), keys.TopicNames()} {
		if err := s.members(ctx, key, on); err != nil {
			return err
		}
	}
	return firsts(func(cursor uint64) ([]string, uint64, error) {
		return s.store.client.HScan(ctx, keys.Topics(), cursor, "", scanPage).Result()
	}, func(field string) {
		topic, _, _ := strings.Cut(field, ":")
		on(topic)
	})
}

// HandedListeners calls on with each named listener that has broadcasts in hand,
// as the index says. It may come more than once. The error is that of the connection.
func (s Shard) HandedListeners(ctx context.Context, on func(name string)) error {
	return s.members(ctx, s.store.keys.Handed(), on)
}

// members calls on with each member of a sorted set.
func (s Shard) members(ctx context.Context, key string, on func(member string)) error {
	return firsts(func(cursor uint64) ([]string, uint64, error) {
		return s.store.client.ZScan(ctx, key, cursor, "", scanPage).Result()
	}, on)
}

// firsts calls on with the first of each pair that the pages of a scan hold. A
// key of another type, which Walk finds, holds nothing.
func firsts(page func(cursor uint64) ([]string, uint64, error), on func(first string)) error {
	for cursor := uint64(0); ; {
		pairs, next, err := page(cursor)
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil
		}
		if err != nil {
			return err
		}
		for i := 0; i < len(pairs); i += 2 {
			on(pairs[i])
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

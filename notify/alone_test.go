package notify_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var (
	aTime = regexp.MustCompile(`\b[1-8]\d{12,15}\b`) // in ms or us of these years, and of an inbox that was rung
	until = regexp.MustCompile(`^TIME,\d+`)          // of a record
)

// untimed returns all that a store holds as text, without the times of the test, with
// counters of all topics and the busy topics.
func untimed(t *testing.T, db *notify.Store) map[string]string {
	t.Helper()
	text := func(v any) string {
		return until.ReplaceAllString(aTime.ReplaceAllString(fmt.Sprint(v), "TIME"), "TIME,LATER")
	}
	all := make(map[string]string)
	for key, content := range dump(t, db) {
		switch content := content.(type) {
		case map[string]string:
			for field, value := range content {
				all[key+" "+field] = text(value)
			}
		case []redis.Z:
			for i, z := range content {
				member := strings.TrimPrefix(fmt.Sprint(z.Member), db.KeysOf(topic).Base())
				all[key+" "+member] = fmt.Sprint(i, " at ", text(fmt.Sprintf("%.0f", z.Score)))
			}
		default:
			all[key] = text(content)
		}
	}
	client, keys := db.Client(), db.KeysOf(topic)
	all["published"] = client.HGet(t.Context(), keys.Topics(), "*:published").Val()
	all["busy"] = fmt.Sprint(client.ZRange(t.Context(), keys.BusyTopics(), 0, -1).Val())
	return all
}

// A message that is published alone is treated as one in a batch: the same is in Redis
// afterwards, and the same is published and rung.
func TestPublishOneAsInABatch(t *testing.T) {
	foreign := func(key func(script.Keys) string) func(*testing.T, client, *notify.Store) {
		return func(t *testing.T, _ client, db *notify.Store) { do(t, db, []any{"SET", key(db.KeysOf(topic)), "x"}) }
	}
	for name, test := range map[string]struct {
		before func(t *testing.T, pub client, db *notify.Store)
		due    time.Time
	}{
		"later":             {nil, future},
		"now":               {nil, past},
		"rings":             {func(t *testing.T, _ client, db *notify.Store) { wait(t, db, "a", "b") }, past},
		"behind":            {func(t *testing.T, pub client, _ *notify.Store) { publish(t, pub, overdue("x", past)) }, past},
		"before another":    {func(t *testing.T, pub client, _ *notify.Store) { publish(t, pub, message("x", future.Add(time.Hour))) }, future},
		"after another":     {func(t *testing.T, pub client, _ *notify.Store) { publish(t, pub, message("x", future.Add(-time.Hour))) }, future},
		"id in use":         {func(t *testing.T, pub client, _ *notify.Store) { publish(t, pub, message("m", past)) }, future},
		"too late":          {nil, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"foreign ready set": {foreign(func(k script.Keys) string { return k.Ready(topic) }), past},
		"foreign counter": {func(t *testing.T, _ client, db *notify.Store) {
			do(t, db, []any{"HSET", db.KeysOf(topic).Topics(), topic + ":published", "x"})
		}, past},
		"foreign scheduled set": {foreign(func(k script.Keys) string { return k.Scheduled(topic) }), future},
		"foreign counters":      {foreign(script.Keys.Topics), past},
		"foreign waiting":       {foreign(func(k script.Keys) string { return k.Waiting(topic) }), past},
		"the 64th of a topic": {func(t *testing.T, _ client, db *notify.Store) {
			do(t, db, []any{"HSET", db.KeysOf(topic).Topics(), topic + ":published", 63})
		}, past},
	} {
		t.Run(name, func(t *testing.T) {
			var held [2]map[string]string
			var heard [2][]any
			for i, extra := range []int{0, 1} {
				pub, db := open(t)
				if test.before != nil {
					test.before(t, pub, db)
				}
				bells := recording(t, db, wakes(db, topic), db.KeysOf(topic).Nudge(), db.KeysOf(topic).Inbox("a"), db.KeysOf(topic).Inbox("b"))
				m := store.Publish{Topic: topic, Member: record.Member(topic, "m"), Tail: "\nx", When: store.At(test.due)}
				placed, err := db.Of(topic).Publish(t.Context(), slices.Repeat([]store.Publish{m}, 1+extra)) // the second is refused
				storetest.Must(t, err)
				held[i] = untimed(t, db)
				heard[i] = []any{placed[0].Refusal, placed[0].Ready, bells.recorded()}
			}
			storetest.Same(t, "what Redis holds (-in a batch +alone)", held[1], held[0])
			storetest.Same(t, "what was heard (-in a batch +alone)", heard[1], heard[0])
		})
	}
}

// A message that is acknowledged alone leaves the same in Redis as one of a batch.
func TestAcknowledgeOneAsInABatch(t *testing.T) {
	var held [2]map[string]string
	for i := range held {
		pub, db := open(t)
		publish(t, pub, message("a", past))
		publish(t, pub, message("b", past))
		one := store.Lease{Member: record.Member(topic, "a"), Receipt: int64(claim(t, db, 1)[0].Receipt)}
		given := []store.Lease{one, {Member: "x:no such", Receipt: 1}}[:1+i]
		if lost, err := db.Of(topic).Ack(t.Context(), topic, given); err != nil || len(lost) != i {
			t.Fatalf("lost %v, %v", lost, err)
		}
		if lost, err := db.Of(topic).Ack(t.Context(), topic, given[:1]); err != nil || len(lost) != 1 {
			t.Errorf("again: lost %v, %v", lost, err)
		}
		held[i] = untimed(t, db)
		held[i]["acked"] = db.Client().HGet(t.Context(), db.KeysOf(topic).Topics(), "*:acked").Val()
	}
	storetest.Same(t, "what Redis holds (-in a batch +alone)", held[1], held[0])
}

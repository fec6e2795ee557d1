package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// AgeSchedule has all that is known of a schedule be older, as if nobody had carried for that long: its occurrences have
// earlier times, and are due so much earlier.
func AgeSchedule(t testing.TB, db *notify.Store, topic, name string, by time.Duration) {
	t.Helper()
	client, keys, ctx := db.Client(), db.KeysOf(topic), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, state, _, err := db.Of(topic).Schedule(ctx, topic, name)
	must(err)
	raw, err := client.HGet(ctx, keys.SchedulesOf(topic), name).Result()
	must(err)
	seconds := int64(by / time.Second)
	raw = strings.Replace(raw, fmt.Sprint(" cursor=", state.Cursor.Unix()), fmt.Sprint(" cursor=", state.Cursor.Unix()-seconds), 1)
	line, rest, _ := strings.Cut(raw, "\n")
	var b strings.Builder
	for i, word := range strings.Fields(rest) {
		var at, due, made int64
		if _, err := fmt.Sscanf(word, "%d,%d,%d", &at, &due, &made); err != nil {
			t.Fatal(err)
		}
		was := fmt.Sprint(made)
		if made > 0 { // its id was free
			made -= by.Milliseconds()
		}
		fmt.Fprintf(&b, " %d,%d,%d", at-seconds, due-by.Milliseconds(), made)
		of := store.Schedule{Name: name}
		before, earlier := record.Member(topic, of.OccurrenceID(state.Occurrences[i].At)), record.Member(topic, of.OccurrenceID(state.Occurrences[i].At.Add(-by)))
		held, err := client.HGet(ctx, keys.Messages(), before).Result()
		if errors.Is(err, redis.Nil) { // it ended
			continue
		}
		must(err)
		must(client.HSet(ctx, keys.Messages(), earlier, strings.Replace(held, was, fmt.Sprint(made), 1)).Err())
		must(client.ZAdd(ctx, keys.Scheduled(topic), redis.Z{Member: earlier, Score: float64(due - by.Milliseconds())}).Err())
		must(client.ZRem(ctx, keys.Scheduled(topic), before).Err())
		must(client.HDel(ctx, keys.Messages(), before).Err())
	}
	must(client.HSet(ctx, keys.SchedulesOf(topic), name, line+"\n"+b.String()).Err())
	for key, member := range map[string]string{keys.Schedules(): topic + ":" + name, keys.Alarms(): "/", keys.ScheduledTopics(): topic} {
		err := client.ZAddArgsIncr(ctx, key, redis.ZAddArgs{XX: true, Members: []redis.Z{{Member: member, Score: -float64(by.Milliseconds())}}}).Err()
		if !errors.Is(err, redis.Nil) { // nothing may be scheduled
			must(err)
		}
	}
}

package forecast_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestDeathsAgainstBruteForce(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		s := storetest.Sharded(t, shards)
		died := make(map[string][]time.Time)
		now := time.Now().UTC().Truncate(time.Millisecond)
		storetest.Fill(t, s, 400, func(i int) notify.Message {
			topic, at := fmt.Sprint("t", i%7), now.Add(-time.Duration(i*i)*17*time.Second)
			died[topic] = append(died[topic], at)
			return notify.Message{Topic: topic, ID: fmt.Sprint(i), Restore: &notify.Restore{Died: at, Reason: "why"}}
		})
		storetest.Publish(t, s, notify.Message{Topic: "t1", Delay: time.Minute})
		for _, topics := range [][]string{{"t0"}, {"t0", "t3", "t6", "none", "t3"}, {"none"}} {
			for bucket, buckets := range map[time.Duration]int{time.Minute: 1000, time.Hour: 25, forecast.Day: 31, 0: 1} {
				got, err := forecast.DeathsOf(t.Context(), s, topics, bucket, buckets)
				storetest.Must(t, err)
				want := forecast.Deaths{From: got.From, Bucket: got.Bucket, Counts: make([]int64, buckets)}
				seen := make(map[string]bool)
				for _, topic := range topics {
					for _, at := range died[topic] {
						switch i := at.Sub(got.From); {
						case seen[topic]:
						case i < 0:
							want.Earlier++
						default:
							want.Counts[i/got.Bucket]++
						}
					}
					seen[topic] = true
				}
				storetest.Same(t, fmt.Sprintf("%v by %v", topics, bucket), want, got)
				if last := got.From.Add(time.Duration(buckets) * got.Bucket); !last.After(now) || last.After(time.Now().Add(got.Bucket)) {
					t.Errorf("the last bucket ends at %v", last)
				}
			}
		}
	}
}

func TestDeathsRefuseWhatTheyCannotCount(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, topics := range [][]string{nil, {"order.*"}, {"order.>"}, {"a b"}, {""}, {"ok", ">"}} {
		storetest.Fails(t, fmt.Sprintf("%q", topics), storetest.ErrOf(forecast.DeathsOf(t.Context(), s, topics, time.Hour, 24)), notify.ErrInvalid)
	}
	for bucket, buckets := range map[time.Duration]int{time.Second: 1, time.Hour: 1001, time.Minute: -1} {
		storetest.Fails(t, fmt.Sprintf("%v, %d", bucket, buckets), storetest.ErrOf(forecast.DeathsOf(t.Context(), s, []string{"t"}, bucket, buckets)), notify.ErrInvalid)
	}
}

// What a shard holds that does not answer is missing, and the others are counted.
func TestDeathsWithoutAShard(t *testing.T) {
	t.Parallel()
	s := storetest.ShardAway(t, 8, 3)
	var topics []string
	for i := range 40 {
		topics = append(topics, fmt.Sprint("t", i))
	}
	got, err := forecast.DeathsOf(t.Context(), s, topics, time.Hour, 24)
	var missing *notify.MissingError
	if !errors.As(err, &missing) || !cmp.Equal(missing.Shards, []int{3}) || len(got.Counts) != 24 {
		t.Errorf("got %+v, %v", got, err)
	}
}

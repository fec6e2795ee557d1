package store_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// elected returns a function that beats with samples, as the elected carrier of a shard.
func elected(t *testing.T, shard store.Shard) (beat func(second, minute store.Sample) *store.Totals) {
	t.Helper()
	e, err := shard.Elect(t.Context(), "me", time.Hour, 0)
	storetest.Must(t, err)
	return func(second, minute store.Sample) *store.Totals {
		t.Helper()
		m, err := shard.Carry(t.Context(), store.Carry{
			Token: e.Token, Epoch: e.Epoch, Lease: time.Hour, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Beat: true, Look: true, Ready: "0",
			History: true, Samples: &[store.Rings]store.Sample{second, minute},
		})
		storetest.Must(t, err)
		return m.Totals
	}
}

// history reads a ring.
func history(t *testing.T, shard store.Shard, ring store.Ring, from, to int64) []store.Sample {
	t.Helper()
	got, err := shard.History(t.Context(), ring, from, to)
	storetest.Must(t, err)
	return got
}

// Samples come back as they were written, until the ring comes round; others of their places are no samples.
func TestRings(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	shard := s.Home()
	beat := elected(t, shard)
	const base = 1_795_449_600 / (3600 * 24 * 7) * (3600 * 24 * 7)
	at := func(i int64) (second, minute store.Sample) {
		second = store.Sample{At: base + i, Seconds: int(i%3) + 1, Totals: store.Totals{Published: i, Claimed: 2 * i, Acked: i + 3, Died: i % 5}}
		second.Late[i%store.LateBuckets] = i % 16
		minute = second
		minute.At = base + i*60
		return second, minute
	}
	var seconds, minutes []store.Sample
	for i := int64(3590); i < 3610; i++ { // the ring of seconds ends at 3600
		second, minute := at(i)
		beat(second, minute)
		seconds, minutes = append(seconds, second), append(minutes, minute)
	}
	all := func(ring store.Ring) []store.Sample { return history(t, shard, ring, base, base+3700*ring.Unit()) }
	storetest.Same(t, "seconds", seconds, all(store.Seconds))
	storetest.Same(t, "minutes", minutes, all(store.Minutes))
	storetest.Same(t, "some seconds", seconds[5:15], history(t, shard, store.Seconds, base+3595, base+3605))
	second, minute := at(3595 + 3600)
	minute.At = base + (3595+7*24*60)*60
	beat(second, minute)
	if got := history(t, shard, store.Seconds, base+3595, base+3596); len(got) > 0 {
		t.Errorf("its place was taken, and it is %+v", got)
	}
	if got := history(t, shard, store.Minutes, minute.At, minute.At+60); !cmp.Equal(got, []store.Sample{minute}) {
		t.Errorf("got %+v", got)
	}
	for _, span := range [][2]int64{{0, 0}, {10, 5}, {-10, -5}, {-100, 10}, {0, math.MaxInt32}, {base + 4000, base + 5000}} {
		history(t, shard, store.Seconds, span[0], span[1])
	}
	var most int64
	for _, key := range []string{s.Keys().Seconds(), s.Keys().Minutes()} {
		bytes, err := s.Client().MemoryUsage(t.Context(), key).Result()
		storetest.Must(t, err)
		most += bytes
	}
	if most > 1<<20 {
		t.Errorf("the rings take %d bytes", most)
	}
}

// Keys of a wrong type hold no history, and disturb no beat.
func TestForeignRings(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	shard, keys := s.Home(), s.Keys()
	beat := elected(t, shard)
	for _, key := range []string{keys.Seconds(), keys.Minutes(), keys.Lateness()} {
		storetest.Must(t, s.Client().ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "x"}).Err())
	}
	if totals := beat(store.Sample{At: 60}, store.Sample{At: 60}); totals == nil || totals.Claimed != 0 {
		t.Errorf("got %+v", totals)
	}
	storetest.Same(t, "the history", []store.Sample(nil), history(t, shard, store.Seconds, 0, 100))
	for key, text := range map[string]string{keys.Seconds(): "x", keys.Minutes(): ""} {
		s.Client().Del(t.Context(), key)
		s.Client().Set(t.Context(), key, text, 0)
		storetest.Same(t, "the history", []store.Sample(nil), history(t, shard, store.Seconds, 0, 100))
	}
	s.Client().Del(t.Context(), keys.Lateness())
	s.Client().HSet(t.Context(), keys.Lateness(), "D", "7", "m", "1", "@", "1", "", "1", "AB", "1", "E", "x", "F", "2")
	if totals := beat(store.Sample{At: 60}, store.Sample{At: 60}); totals.Claimed != 9 || totals.Late[3] != 7 || totals.Late[5] != 2 {
		t.Errorf("got %+v", totals)
	}
}

// A bucket holds a count in a byte, 1 in 16 more or less; other counts are exact.
func TestSampleIsRoundedLittle(t *testing.T) {
	t.Parallel()
	shard := storetest.Open(t).Home()
	beat := elected(t, shard)
	for n := int64(0); n < math.MaxUint32; n = n*9/8 + 1 {
		in := store.Sample{At: 60, Seconds: 1000, Totals: store.Totals{Published: n, Claimed: 5 * n}}
		in.Late[0], in.Late[43] = n, n
		beat(in, in)
		got := history(t, shard, store.Seconds, 60, 61)[0]
		for _, bucket := range []int{0, 43} {
			if off := got.Late[bucket] - n; max(off, -off) > n/16 {
				t.Errorf("%d became %d", n, got.Late[bucket])
			}
		}
		if got.Published != n || got.Claimed != min(5*n, math.MaxUint32) || got.Seconds != 255 {
			t.Errorf("%d: got %+v", n, got)
		}
	}
}

// A claim counts each message that it hands out by how late that is, in as few steps as there are buckets.
func TestClaimsCountLateness(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		n      int
		age    time.Duration
		ackNow bool
		late   func(i int) time.Duration // in whole ms
	}{
		"one":               {n: 1, late: func(int) time.Duration { return time.Second }},
		"few":               {n: 10, late: func(i int) time.Duration { return time.Duration(i*i) * 100 * time.Millisecond }},
		"all the same":      {n: 300, late: func(int) time.Duration { return time.Minute }},
		"many":              {n: 300, late: func(i int) time.Duration { return time.Duration(i) * time.Second }},
		"each another":      {n: 44, late: func(i int) time.Duration { return store.LateBound(i).Truncate(time.Millisecond) + time.Second }},
		"at once":           {n: 300, ackNow: true, late: func(i int) time.Duration { return time.Duration(i) * time.Second }},
		"of an age":         {n: 300, age: 10 * time.Second, late: func(i int) time.Duration { return 11*time.Second + time.Duration(i)*time.Second }},
		"days, and no time": {n: 20, late: func(i int) time.Duration { return time.Duration(i) * 24 * time.Hour }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t)
			shard, keys := s.Of("t"), s.KeysOf("t")
			beat := elected(t, shard)
			beat(store.Sample{}, store.Sample{})
			now, err := shard.Time(t.Context())
			storetest.Must(t, err)
			var dues []time.Time
			for i := range test.n {
				dues = append(dues, now.Truncate(time.Millisecond).Add(-test.late(i)))
				ready(t, s, "t", i, dues[i])
			}
			var want store.Histogram
			for left := test.n; left > 0; {
				got, err := shard.Claim(t.Context(), store.Claim{Topic: "t", Max: 200, Lease: time.Minute, MinAge: test.age, AckNow: test.ackNow})
				if err != nil || len(got.Messages) == 0 {
					t.Fatal(len(got.Messages), err)
				}
				for _, m := range got.Messages {
					want[bucketOf(time.Duration(got.Now-m.Due.UnixMicro())*time.Microsecond-test.age)]++
				}
				left -= len(got.Messages)
			}
			if totals := beat(store.Sample{}, store.Sample{}); totals.Claimed != int64(test.n) || totals.Late != want {
				t.Errorf("%s, in %s: got %+v, want %+v", name, keys.Base(), totals, want)
			}
		})
	}
}

// bucketOf returns the bucket of a lateness.
func bucketOf(late time.Duration) (bucket int) {
	for bucket < store.LateBuckets-1 && late >= store.LateBound(bucket) {
		bucket++
	}
	return bucket
}

// ready makes a message ready that was due at a time.
func ready(t *testing.T, s *store.Store, topic string, i int, due time.Time) {
	t.Helper()
	member := record.Member(topic, string(rune('a'+i%26))+time.Duration(i).String())
	keys := s.KeysOf(topic)
	_, err := s.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), keys.Messages(), member, "1\nx")
		p.ZAdd(t.Context(), keys.Ready(topic), redis.Z{Score: float64(due.UnixMilli()), Member: member})
		p.ZAddLT(t.Context(), keys.ReadyTopics(), redis.Z{Score: float64(due.UnixMilli()), Member: topic})
		return nil
	})
	storetest.Must(t, err)
}

// What dies or is dropped in a claim is not counted, nor is anything while no history is kept.
func TestClaimsCountOnlyWhatIsClaimed(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	shard, keys, ctx := s.Of("t"), s.KeysOf("t"), context.Background()
	claim := func() int {
		t.Helper()
		got, err := shard.Claim(ctx, store.Claim{Topic: "t", Max: 100, Lease: time.Minute})
		storetest.Must(t, err)
		return len(got.Messages)
	}
	ready(t, s, "t", 0, time.Now())
	if n := claim(); n != 1 || s.Client().Exists(ctx, keys.Lateness()).Val() != 0 {
		t.Errorf("claimed %d, and counted without a history", n)
	}
	beat := elected(t, shard)
	beat(store.Sample{}, store.Sample{})
	for i := range 30 {
		ready(t, s, "t", i, time.Now().Add(-time.Duration(i)*time.Second))
	}
	for _, member := range s.Client().ZRange(ctx, keys.Ready("t"), 5, 14).Val() {
		s.Client().ZAdd(ctx, keys.Expiries(), redis.Z{Score: 1, Member: member})
	}
	n := claim()
	totals := beat(store.Sample{}, store.Sample{})
	if n != 20 || totals.Claimed != 20 {
		t.Errorf("claimed %d, counted %+v", n, totals)
	}
}

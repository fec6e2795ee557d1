package history_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/carrier/carriertest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/history"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// read reads what happened lately.
func read(t testing.TB, s *notify.Store) []history.Sample {
	t.Helper()
	now := time.Now()
	got, err := history.Read(t.Context(), s, now.Add(-30*time.Minute), now.Add(time.Minute))
	storetest.Must(t, err)
	return got
}

// sum adds samples up.
func sum(samples []history.Sample) (all history.Sample) {
	for _, s := range samples {
		all.Published += s.Published
		all.Claimed += s.Claimed
		all.Acked += s.Acked
		all.Died += s.Died
		all.Late.Add(s.Late)
	}
	return all
}

// counts returns counts without their histogram, which is rounded.
func counts(s history.Sample) [4]int64 { return [4]int64{s.Published, s.Claimed, s.Acked, s.Died} }

// keep runs a carrier, and waits until the history of each shard goes on.
func keep(t testing.TB, s *notify.Store) (stop func()) {
	t.Helper()
	c, err := carrier.New(s, carrier.Options{Name: "c", Lease: time.Minute}) // between two terms it has a gap
	storetest.Must(t, err)
	stop = storetest.Run(t, c.Run)
	await(t, s)
	return stop
}

// await waits until all that has happened by now is in the history.
func await(t testing.TB, s *notify.Store) {
	t.Helper()
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	now := time.Now().Unix()
	storetest.Eventually(t, "each shard has a sample of a second to come", func() bool {
		return !slices.ContainsFunc(shards, func(shard store.Shard) bool {
			got, err := shard.History(t.Context(), store.Seconds, now+1, now+100)
			return err != nil || len(got) == 0
		})
	})
}

// work publishes messages to some topics, and claims each once: of each topic it buries some, and acknowledges the others.
func work(t testing.TB, s *notify.Store, topics, each, dead int) {
	t.Helper()
	for i := range topics * each {
		storetest.Publish(t, s, notify.Message{Topic: fmt.Sprint("t", i%topics), Delay: time.Duration(i%3) * 100 * time.Millisecond})
	}
	claimer := subscriberstest.Claimer(t, s)
	for i := range topics {
		n := 0
		storetest.Eventually(t, "all are handled", func() bool {
			ds, err := claimer.Claim(t.Context(), fmt.Sprint("t", i), subscribers.ClaimOptions{Max: each, Lease: time.Hour})
			for _, d := range ds {
				if n++; n <= dead {
					_, err = d.Bury(t.Context(), "no such order")
				} else {
					err = d.Ack(t.Context())
				}
				if err != nil {
					break
				}
			}
			storetest.Must(t, err)
			return n == each
		})
	}
}

// The history of a known load is exact, also over a carrier that takes over.
func TestKnownLoad(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			s := storetest.Sharded(t, shards)
			for want := int64(1); want <= 2; want++ {
				stop := keep(t, s)
				work(t, s, 10, 30, 2)
				await(t, s)
				got := sum(read(t, s))
				if diff := cmp.Diff([4]int64{300 * want, 300 * want, 280 * want, 20 * want}, counts(got)); diff != "" {
					t.Errorf("load %d: %s", want, diff)
				}
				if n := got.Late.Sum(); n < got.Claimed*15/16 || n > got.Claimed*17/16 {
					t.Errorf("the histogram has %d of %d", n, got.Claimed)
				}
				stop()
			}
			for _, one := range read(t, s) {
				if one.Step != time.Second || one.Time.Location() != time.UTC {
					t.Fatalf("got %+v", one)
				}
			}
		})
	}
}

// write writes samples into the rings of a shard, as its elected carrier.
func write(t *testing.T, shard store.Shard, samples ...[store.Rings]store.Sample) {
	t.Helper()
	e, err := shard.Elect(t.Context(), "me", time.Hour, 0)
	storetest.Must(t, err)
	for _, one := range samples {
		_, err := shard.Carry(t.Context(), store.Carry{
			Token: e.Token, Epoch: e.Epoch, Lease: time.Hour, Batch: 100, KeepCount: 1, KeepAge: time.Hour, Beat: true, Look: true, Ready: "0",
			History: true, Samples: &one,
		})
		storetest.Must(t, err)
	}
}

// Minutes are read where seconds are too old, and the two never overlap. A sample of several seconds is spread over them. Shards are added up.
func TestMinutesAndSeconds(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 2)
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	now := time.Now().Truncate(time.Minute)
	at := func(ago time.Duration) int64 { return now.Add(-ago).Unix() }
	sample := func(at int64, seconds int, acked int64) store.Sample {
		return store.Sample{At: at, Seconds: seconds, Totals: store.Totals{Acked: acked}}
	}
	for _, shard := range shards {
		write(t, shard,
			[store.Rings]store.Sample{sample(at(30*time.Minute), 4, 10), sample(at(30*time.Minute), 60, 99)},
			[store.Rings]store.Sample{sample(at(20*time.Minute), 1, 7), sample(at(24*time.Hour), 60, 600)},
			[store.Rings]store.Sample{sample(at(2*time.Hour), 1, 1000), sample(at(2*time.Hour), 60, 60)},
			[store.Rings]store.Sample{sample(at(-time.Hour), 1, 1000), sample(at(-time.Hour), 60, 1000)}, // the clock was set back
		)
	}
	got, err := history.Read(t.Context(), s, now.Add(-48*time.Hour), now.Add(24*time.Hour))
	storetest.Must(t, err)
	var want []history.Sample
	add := func(ago, step time.Duration, acked int64) {
		want = append(want, history.Sample{Time: now.Add(-ago).UTC(), Step: step, Noted: step, Acked: 2 * acked})
	}
	add(24*time.Hour, time.Minute, 600)
	add(2*time.Hour, time.Minute, 60)
	for i, n := range []int64{2, 3, 2, 3} {
		add(30*time.Minute+3*time.Second-time.Duration(i)*time.Second, time.Second, n)
	}
	add(20*time.Minute, time.Second, 7)
	storetest.Same(t, "samples", want, got)
	for _, span := range [][2]time.Duration{{20 * time.Minute, 19 * time.Minute}, {2 * time.Hour, time.Hour}} {
		got, err := history.Read(t.Context(), s, now.Add(-span[0]), now.Add(-span[1]))
		if err != nil || len(got) != 1 {
			t.Errorf("%v: got %+v, %v", span, got, err)
		}
	}
}

func TestWrongSpan(t *testing.T) {
	t.Parallel()
	s, now := storetest.Open(t), time.Now()
	for _, to := range []time.Time{now, now.Add(-time.Second)} {
		if _, err := history.Read(t.Context(), s, now, to); !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

func TestHistoryWithAShardAway(t *testing.T) {
	t.Parallel()
	s := storetest.ShardAway(t, 8, 5)
	now := time.Now()
	if _, err := history.Read(t.Context(), s, now.Add(-time.Hour), now); !store.IsPartial(err) || !slices.Equal(store.MissingIn(err), []int{5}) {
		t.Errorf("got %v", err)
	}
}

// No key is made, and nothing is counted, without a history.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 2)
	carriertest.Run(t, s, carrier.Options{NoHistory: true})
	work(t, s, 4, 10, 1)
	for _, keys := range s.KeysOfAll() {
		n, err := s.Client().Exists(t.Context(), keys.Lateness(), keys.Seconds(), keys.Minutes()).Result()
		if noted := s.Client().HExists(t.Context(), keys.Topics(), "*:history").Val(); n > 0 || err != nil || noted {
			t.Errorf("%d keys, noted %v, %v", n, noted, err)
		}
	}
	if got := read(t, s); got != nil {
		t.Errorf("got %+v", got)
	}
}

// A carrier that keeps no history removes that of those before.
func TestHistoryIsForgotten(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	stop := keep(t, s)
	stop()
	carriertest.Run(t, s, carrier.Options{NoHistory: true})
	storetest.Eventually(t, "it is gone", func() bool {
		n := int64(0)
		for _, keys := range s.KeysOfAll() {
			n += s.Client().Exists(t.Context(), keys.Lateness(), keys.Seconds(), keys.Minutes()).Val()
			if s.Client().HExists(t.Context(), keys.Topics(), "*:history").Val() {
				n++
			}
		}
		return n == 0
	})
}

func TestHistoryInTheTrialServer(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the trial server has no other")
	_, s := storetest.Trial(t, "")
	keep(t, s)
	storetest.Publish(t, s, notify.Message{Topic: "t"})
	ds, err := subscriberstest.Claimer(t, s).Claim(t.Context(), "t")
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	storetest.Must(t, ds[0].Ack(t.Context()))
	await(t, s)
	if got := sum(read(t, s)); counts(got) != [4]int64{1, 1, 1, 0} {
		t.Errorf("got %+v", got)
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var samples []history.Sample
	for i := range 10 {
		one := history.Sample{Time: at.Add(time.Duration(i) * time.Second), Step: time.Second, Noted: time.Second, Published: 1, Claimed: 2, Acked: 3, Died: 4}
		one.Late[i] = 1
		samples = append(samples, one)
	}
	samples = slices.Delete(samples, 6, 8)
	got := history.In(5*time.Second, samples)
	if len(got) != 2 || !got[0].Time.Equal(at) || got[1].Noted != 3*time.Second || got[1].PerSecond(got[1].Acked) != 3 || got[1].Died != 12 || got[1].Late.Sum() != 3 {
		t.Errorf("got %+v", got)
	}
	if got := history.In(time.Hour, nil); got != nil || (history.Sample{}).PerSecond(7) != 0 {
		t.Errorf("got %+v", got)
	}
}

// Messages of known lateness have the quantiles that these have, within a bucket.
func TestKnownLateness(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	keep(t, s)
	const n, topic = 1000, "late"
	keys := s.KeysOf(topic)
	now := time.Now()
	late := func(i int) time.Duration { return time.Duration(2+i/10) * time.Second } // 2 to 101 s
	for i := range n {
		member := record.Member(topic, fmt.Sprintf("m%04d", i))
		due := float64(now.Add(-late(i)).UnixMilli())
		storetest.Must(t, s.Client().HSet(t.Context(), keys.Messages(), member, "1\nx").Err())
		storetest.Must(t, s.Client().ZAdd(t.Context(), keys.Ready(topic), redis.Z{Score: due, Member: member}).Err())
	}
	claimer := subscriberstest.Claimer(t, s)
	for claimed := 0; claimed < n; {
		ds, err := claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Max: 300})
		storetest.Must(t, err)
		claimed += len(ds)
	}
	took := time.Since(now)
	await(t, s)
	got := sum(read(t, s))
	if got.Claimed != n {
		t.Errorf("%d were claimed", got.Claimed)
	}
	for _, p := range []float64{0.1, 0.5, 0.9, 0.99} {
		least, most := late(int(p*n)), late(int(p*n))+took
		if q := got.Late.Quantile(p); float64(q) < float64(least)/1.5 || float64(q) > float64(most)*1.5 {
			t.Errorf("the %v quantile is %v, want %v to %v", p, q, least, most)
		}
	}
}

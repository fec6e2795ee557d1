package store_test

import (
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// BenchmarkTransitions measures how long Redis takes for a call of a transition, by its own count, and
// with rest, after 12 ms without one. Of several rounds it reports the shortest, which other processes lengthened least.
func BenchmarkTransitions(b *testing.B) {
	for _, rest := range []time.Duration{0, 12 * time.Millisecond} {
		of := ""
		if rest > 0 {
			of = ", after a rest"
		}
		b.Run("all"+of, func(b *testing.B) { benchmarkTransitions(b, rest) })
	}
}

var scriptStats = regexp.MustCompile(`cmdstat_(?:evalsha|fcall):calls=(\d+),usec=(\d+)`)

func benchmarkTransitions(b *testing.B, rest time.Duration) {
	n, rounds := 5000, 10
	if rest > 0 {
		n, rounds = 200, 4
	}
	s := storetest.At(b, storetest.Server(b, "--save", "").URL(), "bench")
	shard := s.Of("t")
	figures := make(map[string][]float64)
	// measure calls f n times, and notes how long Redis took for one call.
	measure := func(name string, f func(i int) error) {
		b.Helper()
		if err := s.Client().ConfigResetStat(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		workers := 8
		if rest > 0 {
			workers = 1
		}
		var next atomic.Int64
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					time.Sleep(rest)
					if err := f(i); err != nil {
						b.Error(name, err)
					}
				}
			})
		}
		all.Wait()
		info, err := s.Client().Info(b.Context(), "commandstats").Result()
		if err != nil {
			b.Fatal(err)
		}
		calls, us := 0, 0
		for _, found := range scriptStats.FindAllStringSubmatch(info, -1) {
			c, _ := strconv.Atoi(found[1])
			u, _ := strconv.Atoi(found[2])
			calls, us = calls+c, us+u
		}
		figures[name] = append(figures[name], float64(us)/float64(calls))
	}
	publish := func(when store.When) func(int) error {
		return func(int) error {
			_, err := shard.Publish(b.Context(), []store.Publish{{Topic: "t", Member: "t:" + record.NewID(), Tail: "\nhello", When: when}})
			return err
		}
	}
	election, err := shard.Elect(b.Context(), "me", 24*time.Hour, 0)
	if err != nil {
		b.Fatal(err)
	}
	carry := func(int) error {
		_, err := shard.Carry(b.Context(), store.Carry{Token: election.Token, Epoch: election.Epoch, Lease: 24 * time.Hour, Batch: 500, KeepCount: 1000, KeepAge: time.Hour, Ready: "0"})
		return err
	}
	var mu sync.Mutex
	var leases []store.Lease
	claim := func(int) error {
		got, err := shard.Claim(b.Context(), store.Claim{Topic: "t", Max: 1, Lease: time.Hour})
		mu.Lock()
		defer mu.Unlock()
		for _, m := range got.Messages {
			leases = append(leases, m.Lease)
		}
		return err
	}
	for range rounds {
		leases = nil
		measure("publish", publish(store.In(0)))
		measure("claim", claim)
		measure("claim-nothing", claim)
		measure("extend", func(i int) error {
			receipts, _, err := shard.Extend(b.Context(), "t", "", leases[i:i+1], time.Hour)
			leases[i].Receipt = receipts[0]
			return err
		})
		half := n / 2
		measure("ack", func(i int) error {
			if i >= half {
				return nil
			}
			_, err := shard.Ack(b.Context(), "t", leases[i:i+1])
			return err
		})
		measure("nack", func(i int) error {
			if i < half {
				return nil
			}
			_, err := shard.Nack(b.Context(), "t", store.Nack{Lease: leases[i], Bury: false, Delay: time.Hour})
			return err
		})
		measure("publish-later", publish(store.In(time.Hour)))
		measure("carry-idle", carry)
	}
	for name, all := range figures {
		b.ReportMetric(slices.Min(all), "us/"+name)
	}
}

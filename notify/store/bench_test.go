package store_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
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
		storetest.Must(b, s.Client().ConfigResetStat(b.Context()).Err())
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
		storetest.Must(b, err)
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
			return storetest.ErrOf(shard.Publish(b.Context(), []store.Publish{{Topic: "t", Member: "t:" + record.NewID(), Tail: "\nhello", When: when}}))
		}
	}
	election, err := shard.Elect(b.Context(), "me", 24*time.Hour, 0)
	storetest.Must(b, err)
	carry := func(int) error {
		return storetest.ErrOf(shard.Carry(b.Context(), store.Carry{Token: election.Token, Epoch: election.Epoch, Lease: 24 * time.Hour, Batch: 500, KeepCount: 1000, KeepAge: time.Hour, Ready: "0"}))
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
			e, err := shard.Extend(b.Context(), "t", "", leases[i:i+1], time.Hour)
			if err == nil {
				leases[i].Receipt = e.Receipts[0]
			}
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

// BenchmarkLives measures whole lives of messages, published, claimed and acknowledged, one at a time and 100 in a call: plain ones, in
// a topic that has a group, too; with a key of their own, and all of one key; and members of groups of 100. It reports us of Redis for each.
func BenchmarkLives(b *testing.B) {
	kinds := map[string]func(p *store.Publish, i int){
		"plain":          func(*store.Publish, int) {},
		"beside a group": func(*store.Publish, int) {},
		"keyed":          func(p *store.Publish, i int) { p.Key = "acct-" + strconv.Itoa(i%1000) },
		"one key":        func(p *store.Publish, _ int) { p.Key = "acct" },
		"grouped":        func(p *store.Publish, i int) { p.Group = "group-" + strconv.Itoa(i/100) },
	}
	for _, size := range []int{1, 100} {
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			b.Run(fmt.Sprintf("%s, %d", name, size), func(b *testing.B) { benchmarkLives(b, size, name == "beside a group", kinds[name]) })
		}
	}
}

func benchmarkLives(b *testing.B, size int, beside bool, fill func(p *store.Publish, i int)) {
	s := storetest.At(b, storetest.Server(b, "--save", "").URL(), "bench")
	storetest.Found(b, s)
	shard := s.Of("t")
	if beside {
		storetest.Publish(b, s, notify.Message{Topic: "t", Group: "import", Delay: time.Hour})
	}
	batch := make([]store.Publish, size)
	n, began := 0, usedBy(b, s)
	for b.Loop() {
		for i := range batch {
			batch[i] = store.Publish{Topic: "t", Member: "t:" + record.NewID(), Tail: "\nhello"}
			fill(&batch[i], n+i)
			switch p := &batch[i]; {
			case p.Key != "":
				p.Tail = `,{"key":"` + p.Key + "\"}\nhello"
			case p.Group != "":
				p.Tail = `,{"group":"` + p.Group + "\"}\nhello"
			}
		}
		storetest.Must(b, storetest.ErrOf(shard.Publish(b.Context(), batch)))
		for left := size; left > 0; {
			got, err := shard.Claim(b.Context(), store.Claim{Topic: "t", Max: size, Lease: time.Hour})
			if err != nil || len(got.Messages) == 0 {
				b.Fatal("nothing is ready", err)
			}
			leases := make([]store.Lease, len(got.Messages))
			for i, m := range got.Messages {
				leases[i] = m.Lease
			}
			storetest.Must(b, storetest.ErrOf(shard.Ack(b.Context(), "t", leases)))
			left -= len(leases)
		}
		n += size
	}
	b.ReportMetric((usedBy(b, s)-began)/float64(n), "redis-us/life")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lives/s")
}

// usedBy returns how long a Redis has run functions, in us.
func usedBy(b *testing.B, s *notify.Store) (us float64) {
	info, err := s.Client().Info(b.Context(), "commandstats").Result()
	storetest.Must(b, err)
	for _, found := range scriptStats.FindAllStringSubmatch(info, -1) {
		one, _ := strconv.ParseFloat(found[2], 64)
		us += one
	}
	return us
}

// BenchmarkCarryOfKeys measures how long a call of the carrier takes that blocks 200 messages of 10 keys, and how much memory a
// blocked message takes.
func BenchmarkCarryOfKeys(b *testing.B) {
	s := storetest.At(b, storetest.Server(b, "--save", "").URL(), "bench")
	shard := s.Of("t")
	election, err := shard.Elect(b.Context(), "me", 24*time.Hour, 0)
	storetest.Must(b, err)
	const n, size = 100_000, 500
	due := time.Now().Add(5 * time.Second)
	batch := make([]store.Publish, size)
	for range n / size {
		for i := range batch {
			key := fmt.Sprintf("account-%08d", i%10)
			batch[i] = store.Publish{Topic: "t", Member: "t:" + record.NewID(), Key: key, Tail: `,{"key":"` + key + "\"}\nhello", When: store.At(due)}
		}
		storetest.Must(b, storetest.ErrOf(shard.Publish(b.Context(), batch)))
	}
	time.Sleep(time.Until(due))
	before := memoryOf(b, s)
	var took []time.Duration
	for b.Loop() {
		for moved := 1; moved > 0; {
			c, err := shard.Carry(b.Context(), store.Carry{Token: election.Token, Epoch: election.Epoch, Lease: 24 * time.Hour, Batch: 200, KeepCount: 1000, KeepAge: time.Hour, Ready: "0"})
			storetest.Must(b, err)
			if moved = c.Moved; moved > 0 {
				took = append(took, c.Took)
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us/call-p50")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "us/call-max")
	b.ReportMetric((memoryOf(b, s)-before)/n, "bytes/message")
}

// memoryOf returns how much memory a Redis uses for its data.
func memoryOf(b *testing.B, s *notify.Store) float64 {
	info, err := s.Client().Info(b.Context(), "memory").Result()
	storetest.Must(b, err)
	found := regexp.MustCompile(`used_memory_dataset:(\d+)`).FindStringSubmatch(info)
	used, err := strconv.ParseFloat(found[1], 64)
	storetest.Must(b, err)
	return used
}

package carrier_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// eight returns a store of eight shards.
func eight(t testing.TB, url string) *notify.Store {
	t.Helper()
	return storetest.With(t, notify.Config{URL: url, Prefix: "test-" + notify.NewID(), Shards: 8})
}

// A crew is the carriers of a store of eight shards, by their names.
type crew struct {
	t  testing.TB
	db *notify.Store
}

// join runs one more carrier until stop is called or the test ends.
func (c crew) join(name string) (stop func()) {
	c.t.Helper()
	return run(c.t, c.db, carrier.Options{Name: name, Lease: carrier.DefaultLease})
}

// elected returns how many shards each carrier was elected for, and how many have one.
func (c crew) elected() (of map[string]int, all int) {
	c.t.Helper()
	shards, err := c.db.Shards(c.t.Context())
	storetest.Must(c.t, err)
	of = make(map[string]int)
	for _, shard := range shards {
		status, err := carrier.Look(c.t.Context(), shard)
		storetest.Must(c.t, err)
		if status.Name != "" {
			of[status.Name]++
			all++
		}
	}
	return of, all
}

// shares waits until all shards are carried and each carrier has about as many.
func (c crew) shares(names ...string) {
	c.t.Helper()
	storetest.Eventually(c.t, fmt.Sprintf("%v have even shares", names), func() bool {
		of, all := c.elected()
		var shares []int
		for _, name := range names {
			shares = append(shares, of[name])
			all -= of[name]
		}
		return all == 0 && slices.Max(shares)-slices.Min(shares) <= 1 && sumOf(shares) == 8
	})
}

func sumOf(all []int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// carried waits until all shards have a carrier that is not a name.
func (c crew) carried(without string) {
	c.t.Helper()
	storetest.Eventually(c.t, "all shards are carried by others", func() bool {
		of, all := c.elected()
		return all == 8 && of[without] == 0
	})
}

// Carriers share the shards out evenly as one after the other comes, stops and is killed. TestCrewAtRest has how soon.
func TestCrew(t *testing.T) {
	t.Parallel()
	c := crew{t, eight(t, storetest.URL())}
	c.join("a")
	c.shares("a")
	stop := c.join("b")
	c.shares("a", "b")
	process, err := child.Start(child.Program{
		Path: os.Args[0], Name: "carrier", Output: os.Stderr,
		Env: append(os.Environ(), asCarrier+"="+c.db.Prefix(), atRedis+"="+storetest.URL()),
	})
	storetest.Must(t, err)
	t.Cleanup(process.Stop)
	c.shares("a", "b", "killed")
	stop()
	c.carried("b")
	c.shares("a", "killed")
	process.Kill()
	c.carried("killed")
}

// Several that stop one after the other, as in an upgrade, leave even shares.
func TestCrewThatIsReplaced(t *testing.T) {
	t.Parallel()
	c := crew{t, eight(t, storetest.URL())}
	var stops []func()
	names := []string{"a", "b", "c"}
	for _, name := range names {
		stops = append(stops, c.join(name))
	}
	c.shares(names...)
	for i, stop := range stops {
		stop()
		names[i] += "2"
		c.join(names[i])
		c.shares(names...)
	}
}

// Notes of standbys that are foreign, stale or of a time to come move no shard, nor do keys
// of another type, and housekeeping removes them.
func TestForeignStandbys(t *testing.T) {
	t.Parallel()
	db := eight(t, storetest.URL())
	storetest.Found(t, db)
	now := time.Now().UnixMilli()
	foreign := map[string]any{
		"empty": "", "words": "none now", "many": fmt.Sprintf("9999 %d", now), "negative": fmt.Sprintf("-3 %d", now),
		"fraction": fmt.Sprintf("1.5 %d", now), "stale": fmt.Sprintf("0 %d", now-11_000), "early": fmt.Sprintf("0 %d", now+3_600_000),
		"endless": "0 " + strings.Repeat("9", 400),
	}
	for i, keys := range db.KeysOfAll() {
		if i == 7 {
			do(t, db, "SET", keys.Standbys(), "x")
			continue
		}
		storetest.Must(t, db.Client().HSet(t.Context(), keys.Standbys(), foreign).Err())
	}
	c, err := carrier.New(db, carrier.Options{Name: "me", Lease: long, Sweep: 10 * time.Millisecond})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "they are removed", func() bool {
		for _, keys := range db.KeysOfAll()[:7] {
			if db.Client().Exists(t.Context(), keys.Standbys()).Val() > 0 {
				return false
			}
		}
		return true
	})
	storetest.Eventually(t, "all are carried", func() bool {
		return !slices.ContainsFunc(c.States(), func(s carrier.State) bool { return !s.Carrying })
	})
	for _, s := range c.States() {
		if s.Epoch != 1 {
			t.Errorf("shard %d was handed over: %+v", s.Shard, s)
		}
	}
}

// Terms of several shards run side by side, each with its shard.
func TestTermsOfShards(t *testing.T) {
	t.Parallel()
	began := make(chan carrier.Term, 8)
	run(t, eight(t, storetest.URL()), carrier.Options{OnTerm: func(ctx context.Context, term carrier.Term) {
		began <- term
		<-ctx.Done()
	}})
	seen := make(map[int]bool)
	for range 8 {
		term := storetest.Receive(t, "a term begins", began)
		if seen[term.Shard.Number()] || term.Epoch != 1 {
			t.Errorf("got %+v", term)
		}
		seen[term.Shard.Number()] = true
	}
}

// The carrier of home writes the root again when that is lost, and each other takes over settings for all topics that it missed.
func TestShardsAgree(t *testing.T) {
	t.Parallel()
	db := eight(t, storetest.URL())
	c, err := carrier.New(db, carrier.Options{Sweep: 50 * time.Millisecond})
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "all are carried", func() bool {
		all := c.States()
		return len(all) == 8 && !slices.ContainsFunc(all, func(s carrier.State) bool { return !s.Carrying })
	})
	do(t, db, "DEL", db.Prefix()+":{0}:format")
	storetest.Eventually(t, "the root is written again", func() bool {
		root, err := db.Root(t.Context())
		return err == nil && root.Format == fmt.Sprintf("%d/8/0", reach.Newest().Number)
	})
	attempts := 7
	if _, err := db.Home().Set(t.Context(), record.AllTopics, store.SettingsChange{Attempts: &attempts}, false); err != nil { // as if the others were away
		t.Fatal(err)
	}
	shards, err := db.Shards(t.Context())
	storetest.Must(t, err)
	for _, shard := range shards {
		storetest.Eventually(t, "shard "+shard.Label()+" has the settings", func() bool {
			s, err := shard.Settings(t.Context(), record.AllTopics)
			return err == nil && s.Attempts == attempts
		})
	}
}

// A carrier that starts before Redis learns how many shards there are as soon as it can.
func TestShardsAreLearned(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	first := storetest.Unhurried(eight(t, server.URL()))
	storetest.Found(t, first)
	db := storetest.With(t, notify.Config{URL: server.URL(), Prefix: first.Prefix()})
	storetest.Must(t, server.Signal(syscall.SIGSTOP))
	c, err := carrier.New(db)
	storetest.Must(t, err)
	storetest.Run(t, c.Run)
	storetest.Eventually(t, "it runs", func() bool { return !c.States()[0].Progress.IsZero() })
	if all := c.States(); len(all) != 1 || all[0].Carrying || c.Alive() != nil {
		t.Errorf("got %+v, %v", all, c.Alive())
	}
	storetest.Must(t, server.Signal(syscall.SIGCONT))
	storetest.Eventually(t, "it carries all", func() bool {
		all := c.States()
		return len(all) == 8 && !slices.ContainsFunc(all, func(s carrier.State) bool { return !s.Carrying })
	})
	for i, s := range c.States() {
		if s.Shard != i {
			t.Errorf("state %d is of shard %d", i, s.Shard)
		}
	}
}

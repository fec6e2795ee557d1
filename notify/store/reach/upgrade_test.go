package reach_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// next returns a store as a later version opens it, which works with one format more.
func next(t *testing.T, prefix string, shards int) *notify.Store {
	t.Helper()
	s := withShards(t, storetest.URL(), prefix, shards)
	s.Next()
	return s
}

// numbers returns how many format keys a store has of each format.
func numbers(t *testing.T, s *notify.Store, prefix string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, value := range formats(t, s.Client(), prefix) {
		number, _, _ := strings.Cut(strings.Fields(value)[0], "/")
		all[number]++
	}
	return all
}

var older, newer = fmt.Sprint(reach.Newest().Number), fmt.Sprint(reach.Newest().Number + 1)

// A store keeps its format beside a later version until it is upgraded, its id for ever. Later versions that run meanwhile go on, and earlier ones
// are refused.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			prefix := "test-" + record.NewID()
			before := withShards(t, storetest.URL(), prefix, shards)
			storetest.Found(t, before)
			later, beside := next(t, prefix, shards), next(t, prefix, 0)
			topics := []string{"a", "b", "c", "d"}
			everywhere := func(s *notify.Store) {
				t.Helper()
				for _, topic := range topics {
					storetest.Is(t, "a publish", publishTo(t, s, topic), nil)
				}
			}
			everywhere(later)
			everywhere(beside)
			everywhere(before)
			was := formats(t, before.Client(), prefix)
			got, err := later.FormatOf(t.Context())
			storetest.Must(t, err)
			storetest.Is(t, "the format beside a later version", fmt.Sprint(got), older)

			for range 2 { // the second time it is done
				storetest.Must(t, later.Raise(t.Context()))
				for key, value := range formats(t, before.Client(), prefix) {
					storetest.Is(t, key, value, newer+strings.TrimPrefix(was[key], older))
				}
			}
			got, err = beside.FormatOf(t.Context())
			storetest.Must(t, err)
			storetest.Is(t, "the format after the upgrade", fmt.Sprint(got), newer)
			everywhere(later)
			everywhere(beside)
			for _, topic := range topics {
				err := publishTo(t, before, topic)
				if !errors.Is(err, reach.ErrUnfit) || !strings.Contains(err.Error(), "has format "+newer+", and this version of Bellhop works with "+reach.Formats()+"; bellhop upgrade was run on it") {
					t.Errorf("an earlier version: %v", err)
				}
			}
		})
	}
}

// While a store is upgraded no call of a later version fails, whether one process does that or several.
func TestUpgradeUnderWay(t *testing.T) {
	t.Parallel()
	prefix := "test-" + record.NewID()
	before := withShards(t, storetest.URL(), prefix, 8)
	storetest.Found(t, before)
	publishers, upgraders := next(t, prefix, 8), []*notify.Store{next(t, prefix, 8), next(t, prefix, 0)}
	var tasks, raised sync.WaitGroup
	done := make(chan struct{})
	for k := range 4 {
		tasks.Go(func() {
			for n := 0; ; n++ {
				storetest.Should(t, publishTo(t, publishers, fmt.Sprintf("t%d", (4*n+k)%100)))
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for _, s := range upgraders {
		raised.Go(func() { storetest.Is(t, "an upgrade", s.Raise(t.Context()), nil) })
	}
	raised.Wait()
	close(done)
	tasks.Wait()
	storetest.Same(t, "formats", numbers(t, before, prefix), map[string]int{newer: 9})
}

// An upgrade that was broken off is gone on with: until then each shard has its own format, and the store the older one.
func TestUpgradeBrokenOff(t *testing.T) {
	t.Parallel()
	prefix := "test-" + record.NewID()
	before := withShards(t, storetest.URL(), prefix, 8)
	storetest.Found(t, before)
	key := before.KeysOf("a").Format()
	value := before.Client().Get(t.Context(), key).Val()
	storetest.Must(t, before.Client().Set(t.Context(), key, newer+strings.TrimPrefix(value, older), 0).Err())
	later, root := next(t, prefix, 8), prefix+":{0}:format"
	for range 2 {
		for k := range 100 {
			storetest.Is(t, "a publish", publishTo(t, later, fmt.Sprint("t", k)), nil)
		}
		got, err := later.FormatOf(t.Context())
		storetest.Must(t, err)
		storetest.Is(t, "the format", fmt.Sprint(got), older)

		storetest.Must(t, before.Client().Del(t.Context(), root).Err()) // which is made anew as the shards are
		storetest.Must(t, next(t, prefix, 8).RepairRoot(t.Context()))
		storetest.Same(t, "formats", numbers(t, before, prefix), map[string]int{newer: 1, older: 8})
	}
	value = before.Client().Get(t.Context(), root).Val()
	for range 2 { // the second time all but the root have it
		storetest.Must(t, later.Raise(t.Context()))
		storetest.Same(t, "formats", numbers(t, before, prefix), map[string]int{newer: 9})
		storetest.Must(t, before.Client().Set(t.Context(), root, value, 0).Err())
		got, err := next(t, prefix, 8).FormatOf(t.Context())
		storetest.Must(t, err)
		storetest.Is(t, "the format of the root", fmt.Sprint(got), older)
	}
}

// A new store begins with the newest format, and an upgrade founds none.
func TestUpgradeOfNothing(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 8} {
		prefix := "test-" + record.NewID()
		later := next(t, prefix, shards)
		storetest.Must(t, later.Raise(t.Context()))
		storetest.Same(t, "formats", formats(t, later.Client(), prefix), map[string]string{})
		storetest.Must(t, publishTo(t, later, "a"))
		storetest.Is(t, "older ones", numbers(t, later, prefix)[older], 0)
	}
}

// The text of a library says what its version works with; that of a version from before did not.
func TestNewestOfLibrary(t *testing.T) {
	t.Parallel()
	storetest.Is(t, "this version", reach.NewestOf(script.LibraryText()), reach.Newest().Number)
	storetest.Is(t, "a later one", reach.NewestOf(strings.Replace(script.LibraryText(), "local NEWEST_FORMAT = ", "local NEWEST_FORMAT = 1", 1)), 100+reach.Newest().Number)
	storetest.Is(t, "one from before", reach.NewestOf("local OLDEST = 7\n"), 9)
}

// An upgrade that replicas confirm leaves no key beside those of the shards that is not the format's.
func TestUpgradeWithReplicas(t *testing.T) {
	t.Parallel()
	master := storetest.Server(t)
	replica, err := master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir()})
	storetest.Must(t, err)
	t.Cleanup(replica.Stop)
	later := storetest.Unhurried(storetest.With(t, notify.Config{URL: master.URL(), Prefix: "p", Shards: 8, WaitReplicas: 1}))
	storetest.Found(t, withShards(t, master.URL(), "p", 8))
	later.Next()
	storetest.Must(t, later.Raise(t.Context()))
	storetest.Same(t, "formats", numbers(t, later, "p"), map[string]int{newer: 9})
	keys, err := later.Client().Keys(t.Context(), "p:{0}:*").Result()
	storetest.Must(t, err)
	storetest.Same(t, "keys of the root", keys, []string{"p:{0}:format"})
	marks, err := later.Client().Keys(t.Context(), "p:*:mark").Result()
	storetest.Must(t, err)
	storetest.Is(t, "shards whose upgrade was confirmed", len(marks), 8)
}

package carrier_test

import (
	"errors"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// remembered is the number of topics of which nothing is left.
const remembered = 100_000

// remember returns a store of its own in which so many topics are remembered, and the steps of its housekeeping.
func remember(t *testing.T) (*notify.Store, *atomic.Int64) {
	t.Helper()
	store := storetest.At(t, storetest.Server(t).URL(), "")
	storetest.Found(t, store)
	const script = `for i = ARGV[1], ARGV[1] + 999 do
		redis.call('HSET', KEYS[1], 't.' .. i .. ':published', 5, 't.' .. i .. ':acked', 5, 't.' .. i .. ':lateness', 900)
		for k = 2, #KEYS do redis.call('ZADD', KEYS[k], 0, 't.' .. i) end
	end`
	k := store.KeysOf(topic)
	keys := []string{k.Topics(), k.SeenTopics(), k.TopicNames(), k.BusyTopics(), k.NewestDeaths(), k.PausedTopics()}
	for i := 0; i < remembered; i += 1000 {
		if err := store.Client().Eval(t.Context(), script, keys, i).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	var steps atomic.Int64
	store.Observe(func(script string, _ time.Duration, err error) {
		if script == "sweep" && err == nil {
			steps.Add(1)
		}
	})
	do(t, store, "CONFIG", "RESETSTAT")
	return store, &steps
}

var statLine = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// commands returns how often each command was called since the statistics were reset, by scripts too.
func commands(t *testing.T, store *notify.Store) map[string]int64 {
	t.Helper()
	info, err := store.Client().Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]int64)
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		all[m[1]], _ = strconv.ParseInt(m[2], 10, 64)
	}
	return all
}

// sum returns how many calls there were.
func sum(calls map[string]int64) (all int64) {
	for _, n := range calls {
		all += n
	}
	return all
}

// A round over very many topics of which nothing is left takes less than an hour at the usual pace, in steps that look at few of them;
// then a step looks at nothing.
func TestRoundOverRememberedTopics(t *testing.T) {
	storetest.OneShard(t, "it counts the steps of one")
	t.Parallel()
	store, steps := remember(t)
	run(t, store, carrier.Options{Sweep: carrier.MinSweep, NoHistory: true})
	storetest.Eventually(t, "all were looked at", func() bool {
		n, err := store.Client().ZCount(t.Context(), store.KeysOf(topic).SeenTopics(), "0", "0").Result()
		return err == nil && n == 0
	})
	done := commands(t, store)
	looks := done["zadd"] // one in each step that looked at topics, and none else
	t.Logf("%d steps, with %d calls", looks, sum(done))
	if took := time.Duration(looks) * carrier.SweepOn; took > time.Hour {
		t.Errorf("a round takes %d steps, which is %v", looks, took)
	}
	if most := remembered / looks; most > 300 {
		t.Errorf("a step looks at %d topics", most)
	}
	if each := sum(done) / looks; each > 60 {
		t.Errorf("a step takes %d calls", each)
	}

	do(t, store, "CONFIG", "RESETSTAT")
	before := steps.Load()
	storetest.Eventually(t, "some more steps", func() bool { return steps.Load() >= before+20 })
	rest := commands(t, store)
	rest["exists"] -= rest["publish"] // each beat looks at what there is
	if rest["zadd"]+rest["exists"]+rest["hset"] > 0 || sum(rest) > 20*(steps.Load()-before) {
		t.Errorf("%d more steps took %v", steps.Load()-before, rest)
	}
}

// Finding idle topics does not make the housekeeping hurry: the next step comes at its time.
func TestRememberedTopicsDoNotHurry(t *testing.T) {
	storetest.OneShard(t, "it counts the steps of one")
	t.Parallel()
	store, steps := remember(t)
	began := time.Now()
	run(t, store, carrier.Options{Sweep: time.Second})
	storetest.Eventually(t, "some steps", func() bool { return steps.Load() >= 4 })
	if most := int64(time.Since(began)/time.Second) + 1; steps.Load() > most {
		t.Errorf("%d steps in %v", steps.Load(), time.Since(began))
	}
}

// Remembered topics are forgotten in bounded steps when their time is over.
func TestManyTopicsAreForgotten(t *testing.T) {
	storetest.OneShard(t, "it counts the topics of one")
	t.Parallel()
	store, _ := remember(t)
	c, _ := watch(t, store, carrier.Options{KeepTopics: carrier.MinKeepAge, KeepAge: carrier.MinKeepAge, Sweep: carrier.MinSweep, NoHistory: true})
	storetest.Eventually(t, "they are forgotten", func() bool { return state(c).TopicsForgotten == remembered })
	for _, name := range []string{"topics", "topics-seen", "topics-names", "topics-busy", "topics-paused", "deaths-newest"} {
		n, err := store.Client().Exists(t.Context(), store.KeysOf(topic).Base()+name).Result()
		if err != nil || n != 0 {
			t.Errorf("%s is left, %v", name, err)
		}
	}
}

package carrier_test

import (
	"errors"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// remembered is the number of topics of which nothing is left.
const remembered = 100_000

// remember returns a store on a server of its own in which so many topics are remembered.
func remember(t *testing.T) *notify.Store {
	t.Helper()
	store := storetest.At(t, storetest.Lend(t), "")
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
	do(t, store, "CONFIG", "RESETSTAT")
	return store
}

var statLine = regexp.MustCompile(`cmdstat_([a-z|]+):calls=(\d+)`)

// commands returns how often each command was called since the statistics were reset, by scripts too.
func commands(t *testing.T, store *notify.Store) map[string]int64 {
	t.Helper()
	info, err := store.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
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

// A round over very many topics of which nothing is left takes less than an hour at the usual pace, in steps that look at few of them and
// do not hurry; then a step looks at nothing. When their time is over they are forgotten, in such steps.
func TestRememberedTopics(t *testing.T) {
	storetest.OneShard(t, "it counts the steps of one")
	t.Parallel()
	store := remember(t)
	c := carrier.Elect(t, store.Of(topic), carrier.Options{})
	left := func() int64 {
		return store.Client().ZCount(t.Context(), store.KeysOf(topic).SeenTopics(), "0", "0").Val()
	}
	steps := int64(0)
	for before := left(); before > 0; steps++ {
		if most := c.Step(t, carrier.DefaultKeepTopics); most < carrier.SweepOn {
			t.Fatalf("the next step is to come after %v", most)
		}
		now := left()
		if looked := before - now; looked <= 0 || looked > 300 {
			t.Fatalf("a step looks at %d topics", looked)
		}
		before = now
	}
	if took := time.Duration(steps) * carrier.SweepOn; took > time.Hour {
		t.Errorf("a round takes %d steps, which is %v", steps, took)
	}
	if each := sum(commands(t, store)) / steps; each > 60 {
		t.Errorf("a step takes %d calls", each)
	}

	do(t, store, "CONFIG", "RESETSTAT")
	for range 20 {
		if most := c.Step(t, carrier.DefaultKeepTopics); most < carrier.MaxSweep {
			t.Errorf("the next step is to come after %v", most)
		}
	}
	if rest := commands(t, store); rest["zadd"]+rest["exists"]+rest["hset"] > 0 || sum(rest) > 20*20 {
		t.Errorf("20 more steps took %v", rest)
	}

	for steps := 1; c.State().TopicsForgotten < remembered; steps++ {
		before := c.State().TopicsForgotten
		c.Step(t, time.Millisecond)
		if n := c.State().TopicsForgotten - before; n > 300 || steps > remembered/100 {
			t.Fatalf("the %dth step forgot %d", steps, n)
		}
	}
	for _, name := range []string{"topics", "topics-seen", "topics-names", "topics-busy", "topics-paused", "deaths-newest"} {
		n, err := store.Client().Exists(t.Context(), store.KeysOf(topic).Base()+name).Result()
		if err != nil || n != 0 {
			t.Errorf("%s is left, %v", name, err)
		}
	}
}

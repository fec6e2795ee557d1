package forecast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// patterns parses patterns.
func patterns(t testing.TB, texts ...string) (all []notify.Pattern) {
	t.Helper()
	for _, text := range texts {
		p, err := notify.ParsePattern(text)
		storetest.Must(t, err)
		all = append(all, p)
	}
	return all
}

// of makes a forecast that must succeed.
func of(t testing.TB, s *notify.Store, o forecast.Options) forecast.Forecast {
	t.Helper()
	f, err := forecast.Of(t.Context(), s, o)
	storetest.Must(t, err)
	return f
}

// A load is what a test put into a store.
type load struct {
	messages   map[string][]time.Time // due times, by topic
	broadcasts []time.Time
}

// fill publishes messages and broadcasts at random times, near and far.
func fill(t testing.TB, s *notify.Store, topics, each int) load {
	t.Helper()
	random, now := rand.New(rand.NewPCG(1, 2)), time.Now().Truncate(time.Millisecond)
	l := load{messages: make(map[string][]time.Time)}
	at := func() time.Time { // of a whole millisecond, as Redis has it
		return now.Add(time.Hour + time.Duration(random.Int64N(int64(60*forecast.Day)))).Truncate(time.Millisecond)
	}
	var all []notify.Message
	for i := range topics {
		topic := fmt.Sprintf("%s.%d", []string{"order", "mail"}[i%2], i)
		for range each {
			m := notify.Message{Topic: topic, Due: at()}
			l.messages[topic] = append(l.messages[topic], m.Due)
			all = append(all, m)
		}
		b := notify.Message{Broadcast: true, Topic: topic, Due: at()}
		l.broadcasts = append(l.broadcasts, b.Due)
		all = append(all, b)
	}
	storetest.Publish(t, s, all...)
	return l
}

// want counts by brute force what a forecast that begins at its own time should say.
func (l load) want(got forecast.Forecast, wants func(topic string) bool) forecast.Forecast {
	f := forecast.Forecast{From: got.From, Bucket: got.Bucket, Counts: make([]int64, len(got.Counts))}
	for topic, dues := range l.messages {
		for _, due := range dues {
			switch i := int(due.Sub(f.From) / f.Bucket); {
			case !wants(topic):
			case i >= len(f.Counts):
				f.Later++
			default:
				f.Counts[i]++
			}
		}
	}
	if got.Broadcasts != nil {
		f.Broadcasts = make([]int64, len(got.Counts))
		for _, due := range l.broadcasts {
			if i := int(due.Sub(f.From) / f.Bucket); i < len(f.Counts) {
				f.Broadcasts[i]++
			}
		}
	}
	return f
}

func TestForecastAgainstBruteForce(t *testing.T) {
	t.Parallel()
	for _, s := range []*notify.Store{storetest.Sharded(t, 1), storetest.Sharded(t, 8)} {
		l := fill(t, s, 40, 50)
		for _, o := range []forecast.Options{
			{},
			{Bucket: time.Minute, Count: 1000},
			{Bucket: time.Hour, Count: 500},
			{Bucket: time.Hour, Count: 501},
			{Bucket: time.Hour, Count: 1000},
			{Bucket: forecast.Day, Count: 100},
			{Bucket: forecast.Day, Count: 1},
			{Bucket: forecast.Day, Count: 30, Topics: patterns(t, "order.*")},
			{Bucket: forecast.Day, Count: 30, Topics: patterns(t, "order.>", "mail.1")},
			{Bucket: forecast.Day, Count: 30, Topics: patterns(t, ">")},
			{Bucket: forecast.Day, Count: 30, Topics: patterns(t, "order.2")},
			{Bucket: forecast.Day, Count: 30, Topics: patterns(t, "order.2", "mail.1", "mail.3", "mail.1", "none")},
			{Count: 3, Topics: patterns(t, "none")},
			{Count: 3, Topics: patterns(t, "none.*")},
		} {
			got := of(t, s, o)
			wants := func(topic string) bool {
				for _, p := range o.Topics {
					if p.Match(topic) {
						return true
					}
				}
				return len(o.Topics) == 0
			}
			storetest.Same(t, fmt.Sprintf("%+v", o), l.want(got, wants), got)
			if all := len(o.Topics) == 0 || o.Topics[0].String() == ">"; all != (got.Broadcasts != nil) {
				t.Errorf("%+v: broadcasts %v", o, got.Broadcasts)
			}
		}
	}
}

// The first bucket is that of now, and begins with a whole minute, hour or day.
func TestFirstBucket(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, bucket := range []time.Duration{time.Minute, time.Hour, forecast.Day} {
		before := time.Now()
		f := of(t, s, forecast.Options{Bucket: bucket, Count: 2})
		if f.From.Location() != time.UTC || !f.From.Equal(f.From.Truncate(bucket)) ||
			f.From.Before(before.UTC().Truncate(bucket)) || f.From.After(time.Now()) {
			t.Errorf("a bucket of %v begins at %v", bucket, f.From)
		}
	}
}

// What is due and was not carried is overdue. What is no scheduled set, or of no topic, counts nothing.
func TestOverdueAndForeign(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	now := time.Now()
	add := func(topic string, dues ...any) {
		t.Helper()
		for i, due := range dues {
			keys := s.KeysOf(topic)
			storetest.Must(t, s.Client().Do(t.Context(), "ZADD", keys.Scheduled(topic), due, fmt.Sprint(topic, ":", i)).Err())
			storetest.Must(t, s.Client().Do(t.Context(), "ZADD", keys.ScheduledTopics(), "LT", due, topic).Err())
		}
	}
	add("a", now.Add(-time.Hour).UnixMilli(), 1, "-inf", 12.5, "inf", now.Add(2*forecast.Day).UnixMilli())
	add("bad topic", now.Add(forecast.Day).UnixMilli())
	for _, topic := range []string{"gone", "wrong"} {
		storetest.Must(t, s.Client().ZAdd(t.Context(), s.KeysOf(topic).ScheduledTopics(), redis.Z{Score: 1, Member: topic}).Err())
	}
	storetest.Must(t, s.Client().Set(t.Context(), s.KeysOf("wrong").Scheduled("wrong"), "x", 0).Err())
	for _, topics := range [][]notify.Pattern{nil, patterns(t, "a", "gone", "wrong")} {
		f := of(t, s, forecast.Options{Topics: topics, Bucket: forecast.Day, Count: 3})
		if f.Overdue != 4 || f.Later != 1 || !cmp.Equal(f.Counts, []int64{0, 0, 1}) {
			t.Errorf("got %+v", f)
		}
	}
	storetest.Must(t, s.Client().Set(t.Context(), s.KeysOf("a").ScheduledTopics(), "x", 0).Err())
	of(t, s, forecast.Options{})
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for want, o := range map[string]forecast.Options{
		"invalid bucket 2m0s: use 1m, 1h or 1d":  {Bucket: 2 * time.Minute},
		"invalid bucket -1m0s: use 1m, 1h or 1d": {Bucket: -time.Minute},
		"invalid count 1001: use 1 to 1000":      {Count: forecast.MaxCount + 1},
		"invalid count -1: use 1 to 1000":        {Count: -1},
	} {
		for _, ask := range []func(context.Context, forecast.Options) (forecast.Forecast, error){
			func(ctx context.Context, o forecast.Options) (forecast.Forecast, error) {
				return forecast.Of(ctx, s, o)
			},
			forecast.NewCache(s).Of,
		} {
			if _, err := ask(t.Context(), o); !errors.Is(err, notify.ErrInvalid) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

func TestForecastWithAShardAway(t *testing.T) {
	t.Parallel()
	const away = 3
	s := storetest.ShardAway(t, 8, away)
	var there, missing string
	for i := 0; there == "" || missing == ""; i++ {
		if topic := fmt.Sprint("t", i); s.Of(topic).Number() == away {
			missing = topic
		} else {
			there = topic
		}
	}
	storetest.Publish(t, s, notify.Message{Topic: there, Delay: 36 * time.Hour})
	o := forecast.Options{Bucket: forecast.Day, Count: 3}
	for _, topics := range [][]notify.Pattern{nil, patterns(t, "*"), patterns(t, there, missing)} {
		o.Topics = topics
		f, err := forecast.Of(t.Context(), s, o)
		if got := store.MissingIn(err); !store.IsPartial(err) || !cmp.Equal(got, []int{away}) || f.Counts[1]+f.Counts[2] != 1 {
			t.Errorf("%v: got %+v, %v", topics, f, err)
		}
	}
	o.Topics = patterns(t, there)
	of(t, s, o)
	o.Topics = patterns(t, missing)
	if f, err := forecast.Of(t.Context(), s, o); err == nil || store.IsPartial(err) {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestForecastInTheTrialServer(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the trial server has no other")
	_, s := storetest.Trial(t, "")
	l := fill(t, s, 20, 20)
	for _, o := range []forecast.Options{{Bucket: forecast.Day, Count: 70}, {Topics: patterns(t, "mail.1"), Count: 1000}} {
		got := of(t, s, o)
		want := l.want(got, func(topic string) bool { return len(o.Topics) == 0 || topic == "mail.1" })
		storetest.Same(t, "forecast", want, got)
	}
}

package notify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// survey surveys a store, which must succeed.
func survey(t testing.TB, pub client, most int) notify.Survey {
	t.Helper()
	s, err := pub.Survey(t.Context(), most)
	storetest.Must(t, err)
	return s
}

// names returns the topics of a list of a survey.
func names(list []notify.Notable) []string {
	topics := []string{}
	for _, n := range list {
		topics = append(topics, n.Topic)
	}
	return topics
}

// wantNames checks the topics of a list of a survey.
func wantNames(t testing.TB, what string, list []notify.Notable, want ...string) {
	t.Helper()
	if got := names(list); !slices.Equal(got, want) {
		t.Errorf("%s are %q, want %q", what, got, want)
	}
}

// of returns a message of a topic, due at a time; the zero time is at once.
func of(name, id string, due time.Time) notify.Message {
	m := notify.Message{Topic: name, ID: id, Body: []byte("x"), Due: due}
	if !due.IsZero() && due.Before(time.Now()) {
		m.Restore = &notify.Restore{}
	}
	return m
}

// A survey names the topics that stand out, each with its time, and counts all.
func TestSurvey(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	now := redisTime(t, store).Truncate(time.Millisecond)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	storetest.Publish(t, store, of("older", "a", ago(3)), of("older", "b", ago(1)), of("old", "a", ago(2)), of("stopped", "a", ago(9)),
		of("later", "a", future), of(topic, "a", ago(5)), of(topic, "b", ago(4)), of(topic, "c", ago(1)))
	bury(t, store, 1)
	storetest.Must(t, claim(t, store, 1)[0].Ack(t.Context()))
	claim(t, store, 1)
	publish(t, pub, announcement("all", future))
	do(t, store, []any{"ZADD", store.KeysOf(topic).ScheduledTopics(), ago(7).UnixMilli(), "late"})
	storetest.Must(t, pub.Pause(t.Context(), "stopped"))
	s := survey(t, pub, 10)
	wantNames(t, "overdue", s.Overdue, "older", "old")
	wantNames(t, "behind", s.Behind, "late")
	wantNames(t, "blocked", s.Blocked)
	wantNames(t, "with deaths", s.Deaths, topic)
	wantNames(t, "paused", s.Paused, "stopped")
	busy := names(s.Busy)
	slices.Sort(busy)
	if want := []string{"later", "old", "older", topic, "stopped"}; !slices.Equal(busy, want) {
		t.Errorf("busy are %q, want %q", busy, want)
	}
	if !s.Overdue[0].Since.Equal(ago(3)) || !s.Behind[0].Since.Equal(ago(7)) || s.Deaths[0].Since.Before(now) || s.Paused[0].Since.Before(now) {
		t.Errorf("since when: %v %v %v %v", s.Overdue, s.Behind, s.Deaths, s.Paused)
	}
	if s.Now.Before(now) {
		t.Errorf("as of %v, before %v", s.Now, now)
	}
	s.Overdue, s.Behind, s.Blocked, s.Deaths, s.Paused, s.Busy, s.Now = nil, nil, nil, nil, nil, nil, time.Time{}
	want := notify.Survey{Topics: 5, Messages: 8, Leased: 1, Dead: 1, Broadcasts: 1, Published: 8, Acked: 1, Died: 1}
	storetest.Same(t, "in all", want, s)
	publish(t, pub, notify.Message{Topic: "later", ID: "first", Key: "k"})
	publish(t, pub, notify.Message{Topic: "later", ID: "second", Key: "k"})
	wantNames(t, "blocked", survey(t, pub, 10).Blocked, "later")
	storetest.Must(t, pub.Resume(t.Context(), "stopped"))
	s = survey(t, pub, 1)
	wantNames(t, "the first overdue", s.Overdue, "stopped")
	wantNames(t, "paused", s.Paused)
}

func TestSurveyOfNothing(t *testing.T) {
	t.Parallel()
	pub, _ := open(t)
	s := survey(t, pub, 10)
	if s.Now.IsZero() || s.Topics+s.Messages+s.Published != 0 || len(s.Overdue)+len(s.Behind)+len(s.Deaths)+len(s.Paused)+len(s.Busy) > 0 {
		t.Errorf("got %+v", s)
	}
	for _, most := range []int{-1, 0, 501} {
		storetest.Fails(t, fmt.Sprintf("%d topics", most), storetest.ErrOf(pub.Survey(t.Context(), most)), notify.ErrInvalid)
	}
}

// Claims and purges leave indexes with a time that is too early or too late: a survey is
// true nevertheless, and corrects what it reads.
func TestSurveySetsIndexesRight(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	const topics = 700
	now := redisTime(t, store).Truncate(time.Millisecond)
	claimer, letters := subscriberstest.Claimer(t, store), storetest.Inspector(t, store)
	var messages []notify.Message
	for i := range topics {
		name := fmt.Sprintf("t.%03d", i)
		messages = append(messages, of(name, "dead", now.Add(-4*anHour)), of(name, "first", now.Add(-3*anHour)), of(name, "second", now.Add(-time.Duration(i)*time.Second)))
	}
	storetest.Publish(t, store, append(messages, of("old", "a", now.Add(-2*anHour)))...)
	for i := range topics {
		name := fmt.Sprintf("t.%03d", i)
		ds, err := claimer.Claim(t.Context(), name, subscribers.ClaimOptions{Max: 2, Lease: time.Minute})
		if err != nil || len(ds) != 2 {
			t.Fatal(ds, err)
		}
		storetest.Must(t, storetest.ErrOf(ds[0].Bury(t.Context(), "test")))
	}
	for i := 10; i < topics; i++ {
		if n, err := letters.Purge(t.Context(), fmt.Sprintf("t.%03d", i), storetest.Dead(t, store, fmt.Sprintf("t.%03d", i))...); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	for range 2 {
		s := survey(t, pub, 3)
		wantNames(t, "overdue", s.Overdue, "old", "t.699", "t.698")
		if newest := s.Deaths[0].Topic; len(s.Deaths) != 3 || newest > "t.009" {
			t.Errorf("with deaths are %v", s.Deaths)
		}
	}
	deaths := int64(0)
	for _, keys := range store.KeysOfAll() {
		wantScores(t, store, keys.ReadyTopics(), func(name string) (time.Time, bool) {
			first := store.Client().ZRangeWithScores(t.Context(), keys.Ready(name), 0, 0).Val()
			return time.UnixMilli(int64(first[0].Score)), true
		})
		deaths += store.Client().ZCard(t.Context(), keys.NewestDeaths()).Val()
	}
	if deaths != 10 {
		t.Errorf("%d topics stand among those with deaths, and 10 have some", deaths)
	}
}

// wantScores checks that all members of an index have the true times.
func wantScores(t testing.TB, store *notify.Store, index string, truth func(name string) (time.Time, bool)) {
	t.Helper()
	for _, z := range store.Client().ZRangeWithScores(t.Context(), index, 0, -1).Val() {
		if want, ok := truth(z.Member.(string)); !ok || want.UnixMilli() != int64(z.Score) {
			t.Errorf("%s stands by %v in %s, want %v, %v", z.Member, int64(z.Score), index, want.UnixMilli(), ok)
		}
	}
}

// While topics come and go a survey is never wrong, and always names first the topic
// that stays overdue.
func TestSurveyUnderChurn(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	old := redisTime(t, store).Add(-anHour).Truncate(time.Millisecond)
	storetest.Publish(t, store, of("old", "a", old))
	var working sync.WaitGroup
	defer working.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for worker := range 3 {
		pub := clientOf(t, store)
		working.Go(func() { churn(t, pub, store, worker, stop) })
	}
	for range 100 {
		s := survey(t, pub, 5)
		if len(s.Overdue) == 0 || s.Overdue[0].Topic != "old" || !s.Overdue[0].Since.Equal(old) || len(s.Overdue) > 5 {
			t.Fatalf("overdue are %v", s.Overdue)
		}
		if !slices.IsSortedFunc(s.Overdue, func(a, b notify.Notable) int { return a.Since.Compare(b.Since) }) {
			t.Errorf("they are not in order: %v", s.Overdue)
		}
	}
}

// churn publishes, claims, settles and cancels messages of some topics, until stop.
func churn(t *testing.T, pub client, store *notify.Store, worker int, stop <-chan struct{}) {
	claimer := subscriberstest.Claimer(t, store)
	ctx, random := context.Background(), rand.New(rand.NewPCG(uint64(worker), 0))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		name := fmt.Sprint("t", random.IntN(400))
		_, _ = pub.Publish(ctx, notify.Message{Topic: name, ID: fmt.Sprint(worker, "-", i), Body: []byte("x")})
		switch random.IntN(4) {
		case 0:
			_, _ = pub.Cancel(ctx, name, fmt.Sprint(worker, "-", i))
		case 1:
			ds, _ := claimer.Claim(ctx, name, subscribers.ClaimOptions{Max: 2, Lease: time.Minute})
			for _, d := range ds {
				_, _ = d.Bury(ctx, "churn")
			}
		case 2:
			ds, _ := claimer.Claim(ctx, name, subscribers.ClaimOptions{Max: 5, Lease: time.Minute})
			_, _ = claimer.AckMany(ctx, name, ds)
		}
	}
}

// Foreign indexes and members spoil nothing but themselves.
func TestSurveyOfForeignThings(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the indexes of one are foreign")
	pub, store := open(t)
	k := store.KeysOf(topic)
	storetest.Publish(t, store, of(topic, "a", past), of(topic, "b", past), of("mail", "a", past))
	bury(t, store, 1)
	storetest.Must(t, pub.Pause(t.Context(), "stopped"))
	strange := []any{1, "*", 1, "", 1, "a b", 1, "no:topic", "inf", "no topic\x00"}
	for _, index := range []string{k.ScheduledTopics(), k.ReadyTopics(), k.NewestDeaths(), k.PausedTopics(), k.BusyTopics(), k.TopicNames()} {
		do(t, store, append([]any{"ZADD", index}, strange...))
	}
	do(t, store, []any{"SET", k.Ready("broken"), "x"}, []any{"ZADD", k.ReadyTopics(), 1, "broken"}, []any{"HSET", k.Topics(), "*:published", "x", "*:", 1})
	s := survey(t, pub, 10)
	wantNames(t, "overdue", s.Overdue, "mail", topic)
	wantNames(t, "with deaths", s.Deaths, topic)
	wantNames(t, "paused", s.Paused, "stopped")
	for _, index := range []string{k.ScheduledTopics(), k.ReadyTopics(), k.NewestDeaths(), k.PausedTopics(), k.BusyTopics(), k.TopicNames(), k.Topics(), k.Messages(), k.Leased(), k.Deaths(), k.Broadcasts()} {
		do(t, store, []any{"DEL", index}, []any{"SET", index, "x"})
	}
	s = survey(t, pub, 10)
	if s.Topics+s.Messages+s.Dead+s.Published != 0 || len(s.Overdue)+len(s.Deaths)+len(s.Paused)+len(s.Busy) > 0 {
		t.Errorf("got %+v", s)
	}
	if all, err := storetest.Collect(pub.Topics(t.Context())); err != nil || len(all) > 0 {
		t.Errorf("topics %v, %v", all, err)
	}
}

// Topics with much traffic come first, and names that come only once push out none of
// them.
func TestBusyTopics(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "the index of one is filled")
	pub, store := open(t)
	flood := func(from, n int) {
		var messages []notify.Message
		for i := range n {
			messages = append(messages, of(fmt.Sprint("flood", from+i), "a", future))
		}
		storetest.Publish(t, store, messages...)
	}
	busy := func(name string, times int) {
		for range times {
			publish(t, pub, notify.Message{Topic: name, Body: []byte("x"), Due: future})
		}
	}
	flood(0, 900)
	busy("one", 63)
	busy("two", 65)
	flood(900, 1500)
	busy("three", 64)
	s := survey(t, pub, 500)
	if got := names(s.Busy)[:2]; !slices.Equal(got, []string{"three", "two"}) && len(s.Busy) != 500 {
		t.Errorf("the busiest are %v of %d", got, len(s.Busy))
	}
	kept := store.Client().ZRange(t.Context(), store.KeysOf(topic).BusyTopics(), 0, -1).Val()
	if len(kept) != 1000 || !slices.Contains(kept, "two") || !slices.Contains(kept, "three") {
		t.Errorf("%d are kept", len(kept))
	}
	for i := range 1000 {
		do(t, store, []any{"HSET", store.KeysOf(topic).Topics(), "loud" + strconv.Itoa(i) + ":published", 63})
		busy("loud"+strconv.Itoa(i), 1)
	}
	if kept := store.Client().ZRange(t.Context(), store.KeysOf(topic).BusyTopics(), 0, -1).Val(); len(kept) != 1000 || slices.Contains(kept, "three") {
		t.Errorf("%d are kept, which the latest ones should be", len(kept))
	}
}

// The counters of all topics are the sums of theirs, whatever happens in one call.
func TestTotals(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	var messages []notify.Message
	for i := range 50 {
		messages = append(messages, of(fmt.Sprint("t", i%7), fmt.Sprint(i), time.Time{}))
	}
	storetest.Publish(t, store, messages...)
	if r := pub.PublishMany(t.Context(), messages[:3]); !errors.Is(r[0].Err, notify.ErrExists) {
		t.Fatal(r[0].Err)
	}
	for i := range 7 {
		name := fmt.Sprint("t", i)
		ds, err := subscriberstest.Claimer(t, store).Claim(t.Context(), name, subscribers.ClaimOptions{Max: 4, Lease: time.Minute})
		if err != nil || len(ds) != 4 {
			t.Fatal(ds, err)
		}
		storetest.Must(t, storetest.ErrOf(ds[3].Bury(t.Context(), "test")))
		storetest.Must(t, storetest.ErrOf(subscriberstest.Claimer(t, store).AckMany(t.Context(), name, ds[:3])))
	}
	carry(t, store)
	for i := range 5 {
		publish(t, pub, notify.Message{Topic: fmt.Sprint("b", i%2), Body: []byte("x"), Broadcast: true})
	}
	storetest.Eventually(t, "all are sent", func() bool { return survey(t, pub, 1).Sent == 5 })
	s, sum := survey(t, pub, 1), notify.Counts{}
	all, err := storetest.Collect(pub.Topics(t.Context()))
	storetest.Must(t, err)
	for _, c := range all {
		sum.Published, sum.Acked, sum.Died, sum.Sent = sum.Published+c.Published, sum.Acked+c.Acked, sum.Died+c.Died, sum.Sent+c.Sent
	}
	got := notify.Counts{Published: s.Published, Acked: s.Acked, Died: s.Died, Sent: s.Sent}
	if diff := gocmp.Diff(sum, got); diff != "" || s.Published != 50 || s.Acked != 21 || s.Died != 7 || s.Topics != int64(len(all)) {
		t.Errorf("%+v, which the sum of topics is not (-want +got):\n%s", s, diff)
	}
}

// A page of very many topics reads little more than itself, whatever its patterns are.
func TestPagesTouchFew(t *testing.T) {
	storetest.OneShard(t, "the calls to one are counted")
	pub, store := open(t)
	const topics = 100_000
	for from := 0; from < topics; from += 1000 {
		command := []any{"ZADD", store.KeysOf(topic).TopicNames()}
		for i := range 1000 {
			command = append(command, 0, fmt.Sprintf("t%03d.%06d", (from+i)%1000, from+i))
		}
		do(t, store, command)
	}
	calls := 0
	store.Observe(func(string, time.Duration, error) { calls++ })
	for _, test := range []struct {
		texts []string
		after string
		limit int
		want  int // topics
		calls int // at the most
	}{
		{nil, "", 100, 100, 5},
		{nil, "t500.", 1, 1, 2},
		{[]string{">"}, "t999.", 500, 100, 5},
		{[]string{"t500.>"}, "", 500, 100, 5},
		{[]string{"t500.*", "t100.000100", "zzz"}, "", 500, 101, 6},
		{[]string{"*.x"}, "", 100, 0, 25},
		{[]string{"*.099999", "t0.>"}, "t999.0", 100, 1, 2},
	} {
		before := storetest.Answered(t, store)
		calls = 0
		page, next, err := pub.TopicsAfter(t.Context(), test.after, test.limit, patterns(t, test.texts...)...)
		if err != nil || len(page) != test.want || calls > test.calls {
			t.Errorf("%v behind %q: %d topics in %d calls, %v; want %d in %d", test.texts, test.after, len(page), calls, err, test.want, test.calls)
		}
		if test.want == 0 && next == "" {
			t.Errorf("%v: it does not go on", test.texts)
		}
		if read := storetest.Answered(t, store) - before; read > 256*1024 {
			t.Errorf("%v behind %q: it read %d bytes", test.texts, test.after, read)
		}
	}
}

// The index of names holds every listed topic from its first use on, even a pause or a
// broadcast.
func TestNamesFollowTopics(t *testing.T) {
	t.Parallel()
	pub, store := open(t)
	want := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, keys := range store.KeysOfAll() {
			got = append(got, store.Client().ZRange(t.Context(), keys.TopicNames(), 0, -1).Val()...)
		}
		slices.Sort(got)
		storetest.Same(t, when, want, got, cmpopts.EquateEmpty())
	}
	publish(t, pub, of("b", "x", future))
	publish(t, pub, notify.Message{Topic: "a", ID: "x", Body: []byte("x"), Due: future, Broadcast: true})
	storetest.Must(t, pub.Pause(t.Context(), "c"))
	want("published, broadcast and paused", "a", "b", "c")
	for _, cancel := range []string{"a", "b"} {
		storetest.Must(t, storetest.ErrOf(pub.Cancel(t.Context(), cancel, "x")))
	}
	storetest.Must(t, pub.Resume(t.Context(), "c"))
	want("cancelled and resumed: only a counter is left", "b")
	storetest.Publish(t, store, of("d", "x", past))
	died := of("e", "x", time.Time{})
	died.Restore = &notify.Restore{Died: past}
	storetest.Publish(t, store, died)
	want("restored", "b", "d", "e")
	wantNames(t, "with deaths", survey(t, pub, 10).Deaths, "e")
}

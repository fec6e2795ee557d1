package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A try is noted of a push that fails, until that is changed. What is foreign there is left out.
func TestPushTried(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	home, key := s.Home(), s.Home().Keys().Pushes()
	crm := store.Push{Name: "crm", Topics: []string{"order.paid"}, URL: "https://crm.example", Secrets: []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	put := func(failing *store.PushFailure) {
		t.Helper()
		err := home.ChangePush(t.Context(), "crm", func(*store.Push) (*store.Push, error) {
			p := crm
			p.Failing = failing
			return &p, nil
		})
		storetest.Must(t, err)
	}
	try := func() {
		t.Helper()
		storetest.Must(t, home.PushTried(t.Context(), "crm", time.Hour, "HTTP 502 Bad Gateway: a b"))
	}
	failing := func() *store.PushFailure {
		t.Helper()
		p, err := home.Push(t.Context(), "crm")
		storetest.Must(t, err)
		return p.Failing
	}
	noted := func(want bool) {
		t.Helper()
		if there, err := s.Client().HExists(t.Context(), key, "*crm").Result(); err != nil || there != want {
			t.Errorf("a try is noted: %v, %v, want %v", there, err, want)
		}
	}
	try() // there is no push
	noted(false)
	put(nil)
	try() // it does not fail
	noted(false)
	since := time.Unix(1_700_000_000, 0).UTC()
	put(&store.PushFailure{Since: since, Answer: "EOF"})
	if f := failing(); f.Answer != "EOF" || !f.Next.IsZero() {
		t.Errorf("got %+v before a try", f)
	}
	before, err := s.Now(t.Context())
	storetest.Must(t, err)
	try()
	if f := failing(); f.Answer != "HTTP 502 Bad Gateway: a b" || !f.Since.Equal(since) || f.Next.Before(before.Add(time.Hour-time.Millisecond)) || f.Next.After(before.Add(2*time.Hour)) {
		t.Errorf("got %+v", f)
	}
	for _, foreign := range []string{"", "soon HTTP 500", "1700000000000", "-1 HTTP 500", "1e99 HTTP 500"} {
		storetest.Must(t, s.Client().HSet(t.Context(), key, "*crm", foreign, "*none", "1 x").Err())
		if f := failing(); f.Answer != "EOF" || !f.Next.IsZero() {
			t.Errorf("got %+v of %q", f, foreign)
		}
	}
	if _, foreign, err := home.ExportPushes(t.Context()); err != nil || foreign != 0 {
		t.Errorf("%d pushes are foreign, %v", foreign, err)
	}
	put(nil)
	noted(false)
	put(&store.PushFailure{Since: since, Answer: "EOF"})
	try()
	storetest.Must(t, home.RemovePush(t.Context(), "crm"))
	noted(false)
}

// broadcasts returns a push of the broadcasts of a pattern.
func broadcasts(name, pattern string) *store.Push {
	p := &store.Push{Name: name, Topics: []string{pattern}, URL: "https://" + name + ".example", Broadcasts: true}
	p.Secrets = []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
	return p
}

// A dying is a process that dies when it is about to remove a listener.
type dying struct{}

func (dying) DialHook(next redis.DialHook) redis.DialHook { return next }

func (dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "fcall" && strings.HasSuffix(fmt.Sprint(cmd.Args()[1]), "_unregister") {
			return errDead
		}
		return next(ctx, cmd)
	}
}

var errDead = errors.New("dead")

// What a push of broadcasts listens under comes and goes with it, also where who changes it dies right behind that. A process that hears of a
// change late does not bring the name, or the pattern, back.
func TestPushListenerGoesWithPush(t *testing.T) {
	t.Parallel()
	messages := broadcasts("crm", "order.*")
	messages.Broadcasts = false
	changes := map[string]*store.Push{"removed": nil, "changed to another pattern": broadcasts("crm", "news.>"), "changed to messages": messages}
	for what, after := range changes {
		s := storetest.Open(t)
		home := s.Home()
		register := func(p *store.Push) error {
			_, _, err := home.Register(t.Context(), p.Listener(), store.Registration{Pattern: p.Topics[0], From: "now"})
			return err
		}
		crm, eu := broadcasts("crm", "prices.*"), broadcasts("crm.eu", "prices.*")
		storetest.Fails(t, "before there is the push", register(crm), notify.ErrNoListener)
		for _, p := range []*store.Push{crm, eu} {
			storetest.Must(t, home.PutPush(t.Context(), *p))
		}
		want := map[string]string{crm.Listener(): "prices.*", eu.Listener(): "prices.*"}
		if got := patterns(t, home); !maps.Equal(got, want) {
			t.Errorf("put, and %v are registered, want %v", got, want)
		}
		s.Client().AddHook(dying{})
		err := home.ChangePush(t.Context(), "crm", func(*store.Push) (*store.Push, error) { return after, nil })
		if err != nil && !errors.Is(err, errDead) {
			t.Errorf("%s: %v", what, err)
		}
		storetest.Fails(t, fmt.Sprintf("%s, then registered", what), register(crm), notify.ErrNoListener)
		delete(want, crm.Listener())
		if after != nil && after.Broadcasts {
			want[crm.Listener()] = after.Topics[0]
		}
		if got := patterns(t, home); !maps.Equal(got, want) {
			t.Errorf("%s, and %v are registered, want %v", what, got, want)
		}
	}
}

// patterns returns the patterns of the named listeners of a shard.
func patterns(t *testing.T, s store.Shard) map[string]string {
	t.Helper()
	all, err := s.Listeners(t.Context())
	storetest.Must(t, err)
	got := make(map[string]string, len(all))
	for _, l := range all {
		got[l.Name] = l.Pattern
	}
	return got
}

// A push of the deaths of a topic has them broadcast in all shards, from its put on, and no more once it has another pattern.
func TestPushOfDeaths(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 8)
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	for _, pattern := range []string{"$dead.mail", "$dead.>", "prices.*"} {
		storetest.Must(t, s.Home().PutPush(t.Context(), *broadcasts("crm", pattern)))
		want := map[string]string{pattern: "1"}
		if pattern == "prices.*" {
			want = map[string]string{}
		}
		for _, shard := range shards {
			if hooks, err := s.Client().HGetAll(t.Context(), shard.Keys().Hooks()).Result(); err != nil || !maps.Equal(hooks, want) {
				t.Errorf("%s: shard %d has %v, %v", pattern, shard.Number(), hooks, err)
			}
		}
	}
}

// The broadcasts of a pattern go to a URL once, whatever the names of pushes.
func TestPushBroadcastsOnce(t *testing.T) {
	t.Parallel()
	home := storetest.Open(t).Home()
	first, again := broadcasts("crm", "prices.*"), broadcasts("again", "prices.*")
	storetest.Must(t, errors.Join(home.PutPush(t.Context(), *first), home.PutPush(t.Context(), *first), home.PutPush(t.Context(), *again)))
	again.URL = first.URL
	if err := home.PutPush(t.Context(), *again); !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), "the push crm sends the broadcasts of prices.* to this url, too") {
		t.Error(err)
	}
	again.Topics = []string{"news.*"}
	storetest.Should(t, home.PutPush(t.Context(), *again))
}

// What a push listened under, and is left in another shard than the first, goes when the push is removed again. That of no other does.
func TestRemovePushAgain(t *testing.T) {
	t.Parallel()
	s := storetest.Sharded(t, 8)
	shards, err := s.Shards(t.Context())
	storetest.Must(t, err)
	home, other := s.Home(), shards[5]
	crm, eu := broadcasts("crm", "prices.*"), broadcasts("crm.eu", "prices.*")
	storetest.Must(t, home.PutPush(t.Context(), *eu))
	// That of a push from before the first shard lost its data stays, so that the push goes on there when it is put again.
	lost := broadcasts("lost", "prices.*").Listener()
	others := []string{eu.Listener(), "crm", "push", lost}
	for _, name := range append(others, crm.Listener()) {
		at := store.Registration{Pattern: "prices.*", From: "now", Began: notify.Position(time.Now().UnixMicro())}
		if name == lost {
			at.Began = 1
		}
		if _, _, err := other.Register(t.Context(), name, at); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Fails(t, "it", home.RemovePush(t.Context(), "crm"), store.ErrNoPush)
	names, err := other.ListenerNames(t.Context())
	slices.Sort(names)
	if slices.Sort(others); err != nil || !slices.Equal(names, others) {
		t.Errorf("left are %q, want %q, %v", names, others, err)
	}
}

// The topics of a push are those that it names, and those that there are of its patterns, of all shards.
func TestPushTopics(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	of := func(topics ...string) *store.Push { return &store.Push{Name: "crm", Topics: topics} }
	storetest.Publish(t, s, notify.Message{Topic: "order.a"}, notify.Message{Topic: "order.b"}, notify.Message{Topic: "order.b.c"}, notify.Message{Topic: "other"})
	for _, test := range []struct {
		of   *store.Push
		want []string
	}{
		{of("order.b", "none"), []string{"none", "order.b"}},
		{of("order.*"), []string{"order.a", "order.b"}},
		{of("order.>", "other", "*"), []string{"order.a", "order.b", "order.b.c", "other"}},
		{of("*.b.c", "nothing.*"), []string{"order.b.c"}},
	} {
		got, all, err := store.PushTopics(t.Context(), s, test.of)
		if err != nil || !slices.Equal(got, test.want) || !all {
			t.Errorf("of %v there are %v, all: %v, %v", test.of.Topics, got, all, err)
		}
	}
	storetest.Fill(t, s, 1100, func(i int) notify.Message { return notify.Message{Topic: fmt.Sprintf("many.%04d", i)} })
	got, all, err := store.PushTopics(t.Context(), s, of("many.*"))
	if err != nil || len(got) < 1000 || all != (storetest.Shards() > 1) {
		t.Errorf("there are %d, all: %v, %v", len(got), all, err)
	}
	if n, err := store.PushLeased(t.Context(), s, of("many.*")); err != nil || (n == nil) != (storetest.Shards() == 1) {
		t.Errorf("%v are leased, %v", n, err)
	}
}

// An endpoint that wants no request for some time is asked again where the clock was set back behind that, and what it says then is noted.
func TestClosedBeforeTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	home := db.Home()
	storetest.Must(t, home.ChangePush(t.Context(), "crm", func(*store.Push) (*store.Push, error) {
		return &store.Push{Name: "crm", Topics: []string{"order.paid"}, URL: "https://crm.example", Secrets: []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}, nil
	}))
	closure := func() string {
		t.Helper()
		p, err := home.Push(t.Context(), "crm")
		storetest.Must(t, err)
		if p.Closed == nil {
			return ""
		}
		return p.Closed.Answer
	}
	storetest.Must(t, home.ClosePush(t.Context(), "crm", time.Hour, "HTTP 503"))
	storetest.Is(t, "closed", closure(), "HTTP 503")
	storetest.Must(t, home.ClosePush(t.Context(), "crm", time.Minute, "HTTP 429"))
	storetest.Is(t, "closed for longer", closure(), "HTTP 503")

	ahead := time.Now().Add(time.Hour).UnixMilli() // the time before the clock was set back
	storetest.Must(t, db.Client().HSet(t.Context(), home.Keys().Pushes(), "*crm", fmt.Sprintf("%d-%d HTTP 503", ahead+1000, ahead)).Err())
	storetest.Is(t, "closed before the clock was set back", closure(), "")
	storetest.Must(t, home.ClosePush(t.Context(), "crm", time.Minute, "HTTP 429"))
	storetest.Is(t, "closed since", closure(), "HTTP 429")
}

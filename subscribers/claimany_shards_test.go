package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/backoff"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A claim whose connection breaks each time is made again after a pause, though its shards can be read.
func TestClaimAcrossPausesAfterACut(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	proxy := storetest.NewProxy(t, server.Addr())
	db, far := shardsAt(t, server.URL(), "t", 8), storetest.With(t, notify.Config{URL: "redis://" + proxy.Address(), Prefix: "t", Shards: 8})
	beating(t, db)
	topics := across(db, 2)
	storetest.Publish(t, db, of(topics[0], "a"))
	p, _ := runClaimer(t, far)
	const most = 6
	cuts := make(chan time.Time, most)
	far.Observe(func(script string, _ time.Duration, err error) {
		if script == "claim" && err != nil {
			select {
			case cuts <- time.Now():
			default:
			}
		}
	})
	proxy.Cut("_claim\r\n")
	ctx, cancel := context.WithCancel(t.Context())
	answer := claimAnyLater(ctx, t, p, topics, long())
	first := storetest.Receive(t, "a claim is cut", cuts)
	last := first
	for range most - 1 {
		last = storetest.Receive(t, "the next one is, too", cuts)
	}
	if took := last.Sub(first); took < (most-1)*backoff.Min/2 {
		t.Errorf("%d claims were cut within %v", most, took)
	}
	cancel()
	storetest.Receive(t, "it ends", answer)
}

// At once: shard by shard for what is left, beginning with another one each time; the oldest of all is refused.
func TestClaimAcrossAtOnce(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Minute} {
		db := storetest.Sharded(t, 8)
		beating(t, db)
		p, _ := runClaimer(t, db)
		topics := across(db, 3)
		for _, topic := range topics {
			for i := range 3 {
				storetest.Publish(t, db, of(topic, fmt.Sprint(i)))
			}
		}
		first := make(map[string]bool)
		for range 3 {
			ds, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Wait: wait})
			if err != nil || len(ds) != 1 {
				t.Fatalf("got %+v, %v", ds, err)
			}
			first[ds[0].Topic] = true
		}
		if wait == 0 && len(first) != 3 { // one that waits takes what the first shard that answers has
			t.Errorf("three claims of one message each came from %v", first)
		}
		for left, first := 6, true; left > 0; first = false {
			ds, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Wait: wait, Max: 5})
			if err != nil || len(ds) == 0 || len(ds) > 5 || first && wait == 0 && len(ds) < 5 {
				t.Fatalf("wait %v: got %d messages of %d, %v", wait, len(ds), left, err)
			}
			left -= len(ds)
		}
		_, err := p.ClaimAny(t.Context(), topics, subscribers.ClaimOptions{Wait: wait, Oldest: true})
		if faults := fault.All(err); len(faults) != 1 || !strings.Contains(err.Error(), db.Of(topics[0]).Label()) {
			t.Errorf("the oldest of all: %v", err)
		}
	}
}

// A caller that waits in several shards gets what any of them has; then it leaves all of them.
func TestClaimAcrossWaits(t *testing.T) {
	t.Parallel()
	db := storetest.Sharded(t, 8)
	topics := across(db, 8)
	quiet(t, db, topics...)
	p, _ := runClaimer(t, db)
	for _, age := range []time.Duration{0, time.Millisecond} {
		for _, topic := range topics {
			o := long()
			o.MinAge = age
			answer := claimAnyLater(t.Context(), t, p, topics, o)
			if age == 0 {
				waitsIn(t, db, topics, 1)
			}
			storetest.Publish(t, db, of(topic, "m"))
			storetest.Should(t, want(t, "the message", answer, "m").ds[0].Ack(t.Context()))
			waitsIn(t, db, topics, 0)
		}
	}
	if n := p.Stats(); n != (subscribers.ClaimerStats{Progress: n.Progress}) {
		t.Errorf("got %+v", n)
	}
	storetest.Empty(t, db)
}

// What is in a shard that a user may not use at first fails with an error that names the shard. Claims, handlers and
// settling of other topics go on, and claims of both kinds of topics are served by the rest, until the shard is back.
func TestShardIsAway(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	all := storetest.Unhurried(storetest.With(t, notify.Config{URL: server.URL(), Shards: 8}))
	topics := across(all, 3)
	for _, topic := range topics {
		storetest.Publish(t, all, of(topic, "before"))
	}
	quiet(t, all, topics...)
	there, away := topics[0], topics[1]
	if all.Of(away) == all.Home() { // home has a test of its own
		there, away = away, there
	}
	number, label := all.Of(away).Number(), all.Of(away).Label()
	set := func(rights ...any) {
		storetest.Must(t, all.Client().Do(t.Context(), append([]any{"ACL", "SETUSER", "guest", "on", ">secret", "+@all"}, rights...)...).Err())
	}
	rights := []any{"resetkeys", "resetchannels", "~bellhop:{0}:*"}
	for i, keys := range all.KeysOfAll() {
		if i != number {
			rights = append(rights, "~"+keys.Base()+"*", "&"+keys.Base()+"*")
		}
	}
	set(rights...)
	db := storetest.With(t, notify.Config{URL: strings.Replace(server.URL(), "redis://", "redis://guest:secret@", 1), Shards: 8})
	log := new(journal)
	p := subscriberstest.Claimer(t, db, subscribers.ClaimerOptions{Logger: slog.New(slog.NewTextHandler(log, nil))})
	storetest.Run(t, p.Run)

	var missing *store.MissingError
	storetest.Eventually(t, "all shards but one answer", func() bool {
		return errors.As(p.Ping(t.Context()), &missing) && slices.Equal(missing.Shards, []int{number})
	})
	storetest.Eventually(t, "it is logged", func() bool { return log.lines("cannot subscribe", "shard="+label) > 0 })
	if n := log.lines("cannot subscribe") - log.lines("cannot subscribe", "no answer within"); n > 1 { // but for a machine that stands still
		t.Errorf("logged %d times, want once, of the shard that is away", n)
	}
	named := func(what string, err error) {
		t.Helper()
		if !reach.Retryable(err) || !strings.Contains(err.Error(), "shard "+label) {
			t.Errorf("%s: got %v, want an error of shard %s", what, err, label)
		}
	}
	_, err := p.Claim(t.Context(), away)
	named("claim", err)
	named("settle", p.Delivery(away, "a", 1).Ack(t.Context()))

	both := []string{away, there}
	g := want(t, "what the other shard has", claimAnyLater(t.Context(), t, p, both, subscribers.ClaimOptions{Max: 9}), "before")
	storetest.Should(t, g.ds[0].Ack(t.Context()))
	for _, o := range []subscribers.ClaimOptions{{}, {Wait: time.Second}, {Wait: time.Second, MinAge: time.Millisecond}} {
		_, err = p.ClaimAny(t.Context(), both, o)
		if !errors.As(err, &missing) || !slices.Equal(missing.Shards, []int{number}) {
			t.Errorf("%+v: got %v, want an error that names shard %d", o, err, number)
		}
	}
	answer, other := claimAnyLater(t.Context(), t, p, both, long()), claimAnyLater(t.Context(), t, p, []string{there}, long())
	storetest.Publish(t, all, of(there, "1"), of(there, "2"))
	storetest.Receive(t, "a message of the other shard", answer)
	storetest.Receive(t, "a message of the other shard", other)

	answer = claimAnyLater(t.Context(), t, p, both, long())
	set("allkeys", "allchannels")
	want(t, "what is in the shard that is back", answer, "before")
	storetest.Eventually(t, "all shards answer", func() bool { return p.Ping(t.Context()) == nil })
	storetest.Eventually(t, "the end of the outage is logged", func() bool { return log.lines("subscribed to redis again", "shard="+label) == 1 })
}

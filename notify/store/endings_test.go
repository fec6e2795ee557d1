package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// openArchive registers an archive.
func openArchive(t testing.TB, s store.Shard, room int) {
	t.Helper()
	storetest.Must(t, s.OpenArchive(t.Context(), room))
}

// endings returns all that the stream of endings holds, without what depends on the time.
func endings(t *testing.T, s store.Shard) (all []string) {
	t.Helper()
	got, err := s.Endings(t.Context(), 1000)
	storetest.Must(t, err)
	for _, e := range got {
		body := string(e.Body)
		if e.Fault != nil {
			body = e.Fault.Error()
		}
		all = append(all, fmt.Sprintf("%s %s %q %d %s", e.State, e.Member, e.Reason, e.Attempts, body))
		if e.Ended.IsZero() {
			t.Errorf("%s ended at no time", e.Member)
		}
	}
	return all
}

func wantEndings(t *testing.T, s store.Shard, want ...string) {
	t.Helper()
	storetest.Same(t, "the stream of endings", want, endings(t, s))
}

// sweep does one step of the housekeeping.
func sweep(t *testing.T, s store.Shard, w store.Sweep) store.Swept {
	t.Helper()
	elected, err := s.Elect(t.Context(), "me", time.Minute, 0)
	if err != nil || !elected.Won {
		t.Fatal(elected, err)
	}
	w.Token = elected.Token
	swept, err := s.Sweep(t.Context(), w)
	storetest.Must(t, err)
	storetest.Must(t, storetest.ErrOf(s.Resign(t.Context(), elected.Token, "", 0)))
	return swept
}

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// of returns a message of the topic t.
func of(id string, change func(*notify.Message)) notify.Message {
	m := notify.Message{Topic: "t", ID: id, Body: []byte("body of " + id)}
	if change != nil {
		change(&m)
	}
	return m
}

func settle(t *testing.T, s store.Shard, n store.Nack) {
	t.Helper()
	got, err := s.Claim(t.Context(), store.Claim{Topic: "t", Max: 1, Lease: time.Minute})
	if err != nil || len(got.Messages) != 1 {
		t.Fatal(got, err)
	}
	n.Lease = got.Messages[0].Lease
	if out, err := s.Nack(t.Context(), "t", n); err != nil || out.Lost {
		t.Fatal(out, err)
	}
}

// ends are the ways in which messages end. ended STATE ID REASON ATTEMPTS BODY: the stream of endings has that next; ended nothing: no more.
const ends = `
== acknowledged
	publish a
	claim 1 = a
	ack a
== acknowledged, of a topic that archives that
	set archive_acked=true
	publish a
	publish b unique_for=1h
	claim 2 = a b
	ack a b
	ended acked a "" 0 "body of a"
	ended acked b "" 0 "body of b"
== acknowledged with the claim, as the store's settings say
	set topic=* archive_acked=true
	publish a
	claim 1 ack = a
	ended acked a "" 0 "body of a"
== failed
	publish a attempts=2
	claim 1 = a
	nack a delay=0s reason=first
	pass 2ms
	carry
	claim 1 = a:1
	nack a delay=0s reason=last = dead
	ended dead a last 2 "body of a"
== buried
	publish a
	claim 1 = a
	bury a reason="no\nmore"
	ended dead a "no\nmore" 1 "body of a"
== buried, and followed
	publish a
	claim 1 = a
	publish a body=next then=after = leased
	bury a reason=no
	ended dead a no 1 "body of a"
== dropped as failed
	publish a attempts=1 fail=drop
	claim 1 = a
	nack a delay=0s reason=no = dropped
	ended dropped a no 1 "body of a"
== expired
	publish a delay=1h ttl=1s
	hasten 2h
	expire a
	carry = dead:a
	ended dead a expired 0 "body of a"
== expired, which a claim finds
	publish a due=past ttl=1s
	claim 1 = dead:a
	ended dead a expired 0 "body of a"
== dropped as expired
	publish a delay=1h ttl=1s fail=drop
	hasten 2h
	expire a
	carry = dropped:a
	ended dropped a expired 0 "body of a"
== dropped as late
	publish a b late_after=1ms late=drop
	pass 2ms
	claim 2 = dropped:a dropped:b
	ended dropped a late 0 "body of a"
	ended dropped b late 0 "body of b"
== buried as late
	publish a late_after=1ms late=bury
	pass 2ms
	claim 1 = dead:a
	ended dead a late 0 "body of a"
== lease ended
	publish a attempts=1
	publish b attempts=1 fail=drop
	claim 2 = a b
	lapse a b
	carry = dead:a dropped:b
	ended dead a "lease expired, out of attempts" 1 "body of a"
	ended dropped b "lease expired, out of attempts" 1 "body of b"
== stray
	publish a topic=u
	redis ZADD scheduled:t 1 u:a
	redis ZADD scheduled 1 t
	carry = dead:a
	ended dead a "member of another topic" 0 "unreadable record: it is missing"
== without a record
	redis ZADD ready:t 1 t:a
	claim 1 = dead:a
	ended dead a "record is missing" 0 "unreadable record: it is missing"
== expired broadcast
	publish a mode=broadcast due=past ttl=1s = scheduled
	carry
	ended dropped a expired 0 "body of a"
== sent, cancelled or replaced
	publish a mode=broadcast = scheduled
	publish b c
	publish c if_exists=replace delay=1h = replaced:scheduled
	pass 2ms
	carry
	cancel b = ready
== purged
	publish a
	claim 1 = a
	bury a reason=no
	purge a
	ended dead a no 1 "body of a"
==
	ended nothing
`

// ended returns how to play ends on the topic t of a store that is prepared by open.
func ended(open func(testing.TB) *notify.Store, verb func(p *storetest.Player, words []string) string) storetest.Scenario {
	return storetest.Scenario{Topic: "t", Open: open, Verbs: map[string]func(*storetest.Player, []string) string{"ended": verb}}
}

// While there is an archive the stream of endings has what ended, and without one there is none.
func TestEndings(t *testing.T) {
	t.Parallel()
	archived := func(t testing.TB) *notify.Store {
		db := storetest.Open(t)
		openArchive(t, db.Of("t"), 100)
		return db
	}
	t.Run("with an archive", func(t *testing.T) {
		storetest.Play(t, ends, ended(archived, func(p *storetest.Player, words []string) string {
			got, err := p.Shard.Endings(p.Context(), 1)
			switch {
			case err != nil:
				return err.Error()
			case len(got) == 0 && words[0] == "nothing":
				return "ok"
			case len(got) == 0:
				return "nothing"
			}
			e := got[0]
			body := string(e.Body)
			if e.Fault != nil {
				body = e.Fault.Error()
			}
			_, id, _ := strings.Cut(e.Member, ":")
			if is := []string{e.State, id, e.Reason, fmt.Sprint(e.Attempts), body}; e.Ended.IsZero() || !slices.Equal(is, words) {
				return fmt.Sprintf("%q at %v", is, e.Ended)
			}
			return storetest.Said(p.Shard.Archived(p.Context(), e.Entry))
		}))
	})
	t.Run("without", func(t *testing.T) {
		storetest.Play(t, ends, ended(nil, func(p *storetest.Player, _ []string) string {
			keys := p.Store.KeysOf("t")
			if entries, extras := p.Store.Client().Exists(p.Context(), keys.Endings()).Val(), p.Store.Client().HLen(p.Context(), keys.Extras()).Val(); entries > 0 || extras > 1 {
				return fmt.Sprintf("there is a stream of endings: %d, and %d extras", entries, extras)
			}
			return "ok"
		}))
	})
}

// A message that was awaited rings when it ends, however it does.
func TestEndsRing(t *testing.T) {
	t.Parallel()
	var heard sync.Map // the rings of each store
	storetest.Play(t, ends, ended(func(t testing.TB) *notify.Store {
		db := storetest.Open(t)
		storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf("t").Extras(), "t:a", " await=99999999999999", "u:a", " await=99999999999999").Err())
		heard.Store(db, ringsOf(t, db, db.Of("t").EndedChannel()))
		return db
	}, func(p *storetest.Player, words []string) string {
		if words[0] == "nothing" {
			rings, _ := heard.Load(p.Store)
			if ring := storetest.Receive(p, "a ring", rings.(<-chan string)); !strings.HasSuffix(ring, ":a") {
				return "rung for " + ring
			}
		}
		return "ok"
	}))
}

// Dead letters that died before there was an archive go to it when they are removed, with the time and the reason of their death.
func TestRemovedBeforeTheArchive(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	for _, id := range []string{"a", "b", "c"} {
		storetest.Publish(t, db, of(id, nil))
		settle(t, s, store.Nack{Bury: true, Reason: "of " + id})
		db.Client().ZAdd(t.Context(), db.KeysOf("t").Dead("t"), z(float64(1000+len(id)), "t:"+id))
	}
	openArchive(t, s, 100)
	storetest.Publish(t, db, of("d", nil))
	settle(t, s, store.Nack{Bury: true, Reason: "of d"})
	storetest.Publish(t, db, of("c", func(m *notify.Message) { m.IfExists, m.Body = notify.Replace, []byte("new") }))
	sweep(t, s, store.Sweep{KeepDeadCount: 0, KeepDeadAge: time.Millisecond, KeepTopics: time.Hour, KeepAge: time.Hour})
	wantEndings(t, s, `dead t:d "of d" 1 body of d`, `removed t:c "of c" 1 body of c`, `removed t:a "of a" 1 body of a`, `removed t:b "of b" 1 body of b`)
	got, err := s.Endings(t.Context(), 10)
	if err != nil || len(got) != 4 || got[1].Ended.UnixMilli() != 1001 {
		t.Error(got, err)
	}
}

// The stream of endings is bounded: what is beyond its room is removed, counted and told, oldest first.
func TestRoomOfEndings(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	openArchive(t, s, 3)
	for i := range 5 {
		storetest.Publish(t, db, of(fmt.Sprint(i), nil))
		settle(t, s, store.Nack{Bury: true, Reason: "no"})
	}
	wantEndings(t, s, `dead t:2 "no" 1 body of 2`, `dead t:3 "no" 1 body of 3`, `dead t:4 "no" 1 body of 4`)
	openArchive(t, s, 1)
	keep := store.Sweep{KeepDeadCount: 100, KeepDeadAge: time.Hour, KeepTopics: time.Hour, KeepAge: time.Hour}
	if swept := sweep(t, s, keep); swept.Unarchived != 4 || swept.Soon {
		t.Errorf("swept %+v", swept)
	}
	if swept := sweep(t, s, keep); swept.Unarchived != 0 {
		t.Errorf("swept %+v", swept)
	}
	b, err := s.Backlog(t.Context())
	if err != nil || b.Entries != 1 || b.Removed != 4 || !b.Open || b.Room != 1 || b.Oldest.IsZero() || b.Oldest.Before(b.Since) {
		t.Errorf("backlog %+v, %v", b, err)
	}
	if n, err := s.CloseArchive(t.Context()); n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if b, err := s.Backlog(t.Context()); err != nil || b != (store.Backlog{Removed: 4}) {
		t.Errorf("backlog %+v, %v", b, err)
	}
	storetest.Is(t, "keys are left", db.Client().Exists(t.Context(), db.KeysOf("t").Extras(), db.KeysOf("t").Endings()).Val(), 0)
}

// However many entries a stream of endings has, each call removes a bounded number of them, and asks for the next.
func TestManyEndings(t *testing.T) {
	t.Parallel()
	const entries, most = 10_000, 2_100
	fill := func(db *notify.Store) {
		script := "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'member', 't:' .. i, 'state', 'dead', 'ended', '1') end"
		if err := db.Client().Eval(t.Context(), script, []string{db.KeysOf("t").Endings()}, entries).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	db := storetest.Open(t)
	s := db.Home()
	openArchive(t, s, 150)
	fill(db)
	for steps, left := 1, int64(entries); left > 150; steps++ {
		swept := sweep(t, s, store.Sweep{KeepDeadCount: 100, KeepDeadAge: time.Hour, KeepTopics: time.Hour, KeepAge: time.Hour})
		if left -= swept.Unarchived; swept.Unarchived < 1 || swept.Unarchived > most || swept.Soon != (left > 150) || steps > entries/1000 {
			t.Fatalf("step %d: %+v, %d are left", steps, swept, left)
		}
	}
	storetest.Is(t, "left", db.Client().XLen(t.Context(), db.KeysOf("t").Endings()).Val(), 150)
	fill(db)
	got, err := s.Endings(t.Context(), 500)
	if err != nil || len(got) != 500 {
		t.Fatal(len(got), err)
	}
	last := db.Client().XRevRangeN(t.Context(), db.KeysOf("t").Endings(), "+", "-", 2).Val()
	if err := s.Archived(t.Context(), last[1].ID); err != nil { // in several calls
		t.Fatal(err)
	}
	if got, err := s.Endings(t.Context(), 500); err != nil || len(got) != 1 || got[0].Entry != last[0].ID {
		t.Errorf("%+v, %v", got, err)
	}
}

// To open an archive again keeps since when it is open.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	db.Client().HSet(t.Context(), db.KeysOf("t").Extras(), "*", " archive=1000 room=7")
	openArchive(t, s, 9)
	if b, err := s.Backlog(t.Context()); err != nil || b.Since.UnixMilli() != 1000 || b.Room != 9 {
		t.Errorf("backlog %+v, %v", b, err)
	}
}

// ringsOf returns the payloads that are received on a channel, which is subscribed to.
func ringsOf(t testing.TB, db *notify.Store, channel reach.Channel) <-chan string {
	t.Helper()
	rings, up := make(chan string, 100), make(chan struct{}, 100)
	storetest.Run(t, func(ctx context.Context) error {
		db.Subscribe(ctx, func(e store.Event) {
			switch e.Kind {
			case reach.Subscribed:
				up <- struct{}{}
			case reach.Received:
				rings <- e.Payload
			}
		}, channel)
		return nil
	})
	storetest.Receive(t, "the subscription", up)
	return rings
}

// The first entry of an empty stream rings; so an archive that read it until it was empty sleeps until then.
func TestEndingsRing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	openArchive(t, s, 10)
	rings := ringsOf(t, db, db.Of("t").EndingsChannel())
	storetest.Publish(t, db, of("a", nil), of("b", nil))
	settle(t, s, store.Nack{Bury: true})
	storetest.Receive(t, "a ring", rings)
	settle(t, s, store.Nack{Bury: true})
	got, err := s.Endings(t.Context(), 1)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	storetest.Must(t, s.Archived(t.Context(), got[0].Entry))
	wantEndings(t, s, `dead t:b "" 1 body of b`)
	got, err = s.Endings(t.Context(), 1)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	for range 2 { // it may be repeated
		storetest.Must(t, s.Archived(t.Context(), got[0].Entry))
	}
	wantEndings(t, s)
	select {
	case <-rings:
		t.Error("it rang for the second entry")
	default:
	}
	storetest.Publish(t, db, of("c", nil))
	settle(t, s, store.Nack{Bury: true})
	storetest.Receive(t, "a ring", rings)
}

// A foreign stream stops nothing: what ends meanwhile is counted.
func TestForeignEndings(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	openArchive(t, s, 10)
	db.Client().Set(t.Context(), db.KeysOf("t").Endings(), "x", 0)
	storetest.Publish(t, db, of("a", nil))
	settle(t, s, store.Nack{Bury: true})
	if b, err := s.Backlog(t.Context()); err != nil || b.Removed != 1 {
		t.Errorf("backlog %+v, %v", b, err)
	}
	if c, err := storetest.Count(db, "t"); c.Dead != 1 || err != nil {
		t.Error(c, err)
	}
}

// The history of a message and a result are in its entry; what is foreign there counts as missing.
func TestEntryOfAnEnding(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	add := func(fields ...any) {
		args := append([]any{"XADD", db.KeysOf("t").Endings(), "*"}, fields...)
		storetest.Must(t, db.Client().Do(t.Context(), args...).Err())
	}
	add("member", "t:a", "state", "acked", "ended", "1000", "reason", "", "attempts", "3\n900 70 h-1 it failed\n950 - - \nx\n960 1 me ",
		"record", "5\nbody", "result", "done", "future", "x")
	add("member", "t:b", "attempts", "x", "record", "foreign")
	got, err := s.Endings(t.Context(), 10)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	history := []record.Attempt{
		{Ended: time.UnixMilli(900), Took: 70 * time.Millisecond, By: "h-1", Reason: "it failed"},
		{Ended: time.UnixMilli(950), Took: -1},
		{Ended: time.UnixMilli(960), Took: time.Millisecond, By: "me"},
	}
	if diff := cmp.Diff(history, got[0].History); diff != "" || got[0].Attempts != 3 || string(got[0].Result) != "done" || string(got[0].Body) != "body" {
		t.Errorf("%+v, history (-want +got):\n%s", got[0], diff)
	}
	if e := got[1]; e.Fault == nil || e.Raw != "foreign" || e.Attempts != 0 || e.Result != nil || !e.Ended.IsZero() {
		t.Errorf("%+v", e)
	}
}

// Large entries come in several pages, and each has at least one.
func TestLargeEntries(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := db.Of("t")
	openArchive(t, s, 100)
	const n = 20
	for i := range n {
		storetest.Publish(t, db, of(fmt.Sprintf("%02d", i), func(m *notify.Message) { m.Body = []byte(strings.Repeat("x", 250_000)) }))
		settle(t, s, store.Nack{Bury: true})
	}
	var all []string
	for len(all) < n {
		got, err := s.Endings(t.Context(), 100)
		if err != nil || len(got) == 0 || len(got) > 18 {
			t.Fatal(len(got), err)
		}
		for _, e := range got {
			all = append(all, e.Member)
		}
		storetest.Must(t, s.Archived(t.Context(), got[len(got)-1].Entry))
	}
	if len(all) != n || !slices.IsSorted(all) {
		t.Error(all)
	}
}

package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

var histories = flag.Int("seats.histories", 300, "how many random histories of keyed messages are played")

// keyed is a topic whose messages have keys, and what a random history does to it.
type keyed struct {
	*storetest.Player
	rand  *rand.Rand
	held  []store.ClaimedMessage // that the history has claimed; the leases of some are over
	log   []string
	fence int64 // of the last claim
	limit int   // of messages of a key
	most  int   // the greatest limit of messages of a key that the topic ever had
	slots int   // the topic's concurrency; 0: none
}

// places is what a shard has of a topic at one moment.
type places struct {
	keys, seats, records           map[string]string
	ready, scheduled, leased, dead map[string]float64
	slots                          map[string]float64
	line                           []string
	heads                          map[string]float64
	index                          *float64 // of the topic among those with keys; nil: it is in none
}

func openKeyed(t *testing.T, db *notify.Store, topic string, seed uint64) *keyed {
	t.Helper()
	p := storetest.NewPlayer(t, storetest.Scenario{Topic: topic, Open: func(testing.TB) *notify.Store { return db }})
	return &keyed{Player: p, rand: rand.New(rand.NewPCG(seed, 0)), limit: 1, most: 1}
}

// take claims one message.
func (k *keyed) take(ctx context.Context) store.ClaimedMessage {
	k.Helper()
	claimed, err := k.Shard.Claim(ctx, store.Claim{Topic: k.Topic, Max: 1, Lease: time.Hour})
	k.must(err)
	if len(claimed.Messages) != 1 {
		k.Fatalf("claimed %+v", claimed)
	}
	return claimed.Messages[0]
}

// read reads all places at one moment.
func (k *keyed) read() places {
	k.Helper()
	keys := k.Store.KeysOf(k.Topic)
	tx := k.Store.Client().TxPipeline()
	ctx := k.Context()
	noted, seats, records := tx.HGetAll(ctx, keys.KeysOf(k.Topic)), tx.HGetAll(ctx, keys.Seats(k.Topic)), tx.HGetAll(ctx, keys.Messages())
	ready, scheduled := tx.ZRangeWithScores(ctx, keys.Ready(k.Topic), 0, -1), tx.ZRangeWithScores(ctx, keys.Scheduled(k.Topic), 0, -1)
	leased, dead := tx.ZRangeWithScores(ctx, keys.Leased(), 0, -1), tx.ZRangeWithScores(ctx, keys.Dead(k.Topic), 0, -1)
	slots := tx.ZRangeWithScores(ctx, keys.Slots(k.Topic), 0, -1)
	line, heads, index := tx.ZRange(ctx, keys.Line(k.Topic), 0, -1), tx.ZRangeWithScores(ctx, keys.Heads(k.Topic), 0, -1), tx.ZScore(ctx, keys.KeyedTopics(), k.Topic)
	if _, err := tx.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		k.Fatal(err)
	}
	scores := func(list []redis.Z) map[string]float64 {
		all := make(map[string]float64)
		for _, z := range list {
			if name := z.Member.(string); strings.HasPrefix(name, k.Topic+":") {
				all[strings.TrimPrefix(name, k.Topic+":")] = z.Score
			} else if !strings.Contains(name, ":") {
				all[name] = z.Score
			}
		}
		return all
	}
	p := places{
		keys: noted.Val(), seats: seats.Val(), records: make(map[string]string), ready: scores(ready.Val()), scheduled: scores(scheduled.Val()),
		leased: scores(leased.Val()), slots: scores(slots.Val()), dead: scores(dead.Val()), line: line.Val(), heads: scores(heads.Val()),
	}
	for member, text := range records.Val() {
		if id, of := strings.CutPrefix(member, k.Topic+":"); of && !strings.HasPrefix(text, "=") {
			p.records[id] = text
		}
	}
	if score, err := index.Result(); err == nil {
		p.index = &score
	}
	return p
}

// check reports what is wrong with the seats and the line.
func (p places) check(limit, most int) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	first, of := make(map[string]string), make(map[string]string) // the first due time of each key that is blocked, and the key of each that is
	for _, entry := range p.line {
		key, due, id := parts(entry)
		if p.keys[id] != key+" "+due {
			fail("%q is in the line, and noted as %q", entry, p.keys[id])
		}
		if _, known := first[key]; !known {
			first[key] = due
		}
		of[id] = key
	}
	for id, text := range p.records {
		r, err := record.Decode(text)
		key, since, blocked := strings.Cut(p.keys[id], " ")
		if err != nil || r.Key != key {
			fail("%s has the key %q, noted as %q: %v", id, r.Key, p.keys[id], err)
		}
		undecided := since == "?"
		if blocked = blocked && !undecided; undecided && (r.IfBusy != "drop" || p.scheduled[id] == 0 && p.dead[id] == 0) {
			fail("%s is noted as %q, and is not scheduled to be dropped if its key is busy", id, p.keys[id])
		}
		var in []string
		for name, place := range map[string]map[string]float64{"ready": p.ready, "scheduled": p.scheduled, "leased": p.leased, "dead": p.dead} {
			if _, is := place[id]; is {
				in = append(in, name)
			}
		}
		if _, is := of[id]; is {
			in = append(in, "line")
		}
		if len(in) != 1 || blocked != (in[0] == "line") {
			fail("%s is in %v, and noted as %q", id, in, p.keys[id])
		}
		if key != "" && (slices.Contains(in, "ready") || slices.Contains(in, "leased")) && !slices.Contains(p.holders(key), id) {
			fail("%s is %v without a seat: of %s sits %q", id, in, key, p.seats[key])
		}
	}
	for id := range p.keys {
		if _, is := p.records[id]; !is {
			fail("%s has a key and no record", id)
		}
	}
	for key := range p.seats {
		n := 0
		for _, word := range strings.Fields(p.seats[key]) {
			id, died := strings.CutPrefix(word, "!")
			_, ready := p.ready[id]
			_, leased := p.leased[id]
			_, off := p.scheduled[id]
			_, dead := p.dead[id]
			if died != dead || !ready && !leased && !off && !dead || p.keys[id] != key {
				fail("%q has a seat of %s, and is noted as %q: ready %v, leased %v, put off %v, dead %v", word, key, p.keys[id], ready, leased, off, dead)
			}
			if !died {
				n++
			}
		}
		if n > most {
			fail("of %s sit %q, more than %d", key, p.seats[key], most)
		}
	}
	for key, due := range first {
		at, _ := strconv.ParseFloat(due, 64)
		if len(strings.Fields(p.seats[key])) < limit && !strings.Contains(p.seats[key], "!") {
			fail("%s has a line and a free seat: %q", key, p.seats[key])
		}
		if head, is := p.heads[key]; !is || head > at {
			fail("%s is first due at %s, and indexed as %v, %v", key, due, head, is)
		}
		if p.index == nil || *p.index > at {
			fail("%s is first due at %s, and its topic is indexed as %v", key, due, p.index)
		}
	}
	for key := range p.heads {
		if first[key] == "" {
			fail("%s is indexed, and has no line", key)
		}
	}
	if len(p.keys) > 0 && p.index == nil {
		fail("the topic is not among those with keys")
	}
	return wrong
}

// holders returns the ids that have the seats of a key, but those of dead letters.
func (p places) holders(key string) []string {
	return slices.DeleteFunc(strings.Fields(p.seats[key]), func(word string) bool { return word[0] == '!' })
}

// parts returns what an entry of a line has.
func parts(entry string) (key, due, id string) {
	key, rest, _ := strings.Cut(entry, "\x00")
	due, id, _ = strings.Cut(rest, "\x00")
	return key, due, id
}

// inOrder reports what was called up before its turn: each key's next is the first of its line.
func inOrder(before, after places) (wrong []string) {
	for key := range after.seats {
		for _, id := range after.holders(key) {
			if !strings.HasPrefix(before.keys[id], key+" ") {
				continue // it was not in the line
			}
			for _, entry := range before.line {
				of, due, other := parts(entry)
				if of == key && after.keys[other] == key+" "+due && entry < key+"\x00"+strings.TrimPrefix(before.keys[id], key+" ")+"\x00"+id {
					wrong = append(wrong, fmt.Sprintf("%s of %s was called up before %s", id, key, other))
				}
			}
		}
	}
	return wrong
}

// slotsOf reports what is wrong with the slots of a topic: those that are leased have one, where there is a limit, and no more are
// leased than that, unless they were before.
func slotsOf(before, after places, limit int) (wrong []string) {
	leased := slices.Sorted(maps.Keys(after.leased))
	if limit == 0 {
		leased = nil
	}
	if slots := slices.Sorted(maps.Keys(after.slots)); !slices.Equal(slots, leased) {
		wrong = append(wrong, fmt.Sprintf("slots have %v, and leased are %v of at most %d", slots, leased, limit))
	}
	if limit > 0 && len(after.leased) > max(limit, len(before.leased)) {
		wrong = append(wrong, fmt.Sprintf("%d are leased of at most %d, behind %d", len(after.leased), limit, len(before.leased)))
	}
	return wrong
}

func (k *keyed) must(err error) {
	k.Helper()
	if err != nil && !errors.Is(err, notify.ErrExists) && !errors.Is(err, notify.ErrLeased) && !errors.Is(err, notify.ErrInvalid) && !errors.Is(err, notify.ErrDead) {
		k.Fatalf("%v\n%s", err, strings.Join(k.log, "\n"))
	}
}

func (k *keyed) one(of ...string) string { return of[k.rand.IntN(len(of))] }

func (k *keyed) id() string { return strconv.Itoa(k.rand.IntN(10)) }

func (k *keyed) message() notify.Message {
	m := notify.Message{Topic: k.Topic, ID: k.id(), Key: k.one("", "a", "a", "a", "b", "b", "ab")}
	m.Delay = []time.Duration{0, 0, 0, time.Millisecond, 3 * time.Millisecond, time.Hour}[k.rand.IntN(6)]
	m.IfExists = notify.IfExists(k.one("", "", "keep", "replace", "replace", "debounce"))
	if k.rand.IntN(4) == 0 {
		m.TTL = 4 * time.Millisecond
	}
	if k.rand.IntN(4) == 0 {
		m.MaxAttempts = 1 + k.rand.IntN(2)
	}
	if k.rand.IntN(5) == 0 {
		m.Fail = notify.FailDrop
	}
	if k.rand.IntN(6) == 0 {
		m.LateAfter, m.Late = time.Millisecond, notify.Late(k.one("drop", "bury"))
	}
	if k.rand.IntN(6) == 0 {
		m.UniqueFor = 2 * time.Millisecond
	}
	if k.rand.IntN(5) == 0 {
		m.Then = notify.After
	}
	if m.Key != "" && k.rand.IntN(4) == 0 {
		m.IfBusy = "drop"
	}
	return m
}

// settings returns some, and notes the limits.
func (k *keyed) settings() store.SettingsChange {
	most := 1 + k.rand.IntN(3)
	k.limit, k.most, k.slots = most, max(k.most, most), k.rand.IntN(4)
	c := store.SettingsChange{KeyConcurrency: &most, OnRetry: new(k.one("block", "pass")), OnDead: new(k.one("go", "stop")), Concurrency: &k.slots}
	if k.slots == 0 {
		c.Concurrency, c.Default = nil, []string{"concurrency"}
	}
	return c
}

// step does something, and returns what.
func (k *keyed) step(ctx context.Context) string {
	member := func(id string) string { return k.Topic + ":" + id }
	lease := store.Lease{Member: member(k.id()), Receipt: 1}
	if len(k.held) > 0 {
		lease = k.held[k.rand.IntN(len(k.held))].Lease
	}
	switch what := k.rand.IntN(16); what {
	case 0, 1:
		m := k.message()
		_, err := k.Publisher.Publish(ctx, m)
		k.must(err)
		return fmt.Sprintf("publish %+v: %v", m, err)
	case 2:
		var all []notify.Message
		for range 1 + k.rand.IntN(6) {
			m := notify.Message{Topic: k.Topic, ID: k.id(), Key: k.one("", "a", "b", "ab"), Delay: []time.Duration{0, 2 * time.Millisecond}[k.rand.IntN(2)]}
			all = append(all, m)
		}
		for _, r := range k.Publisher.PublishMany(ctx, all) {
			k.must(r.Err)
		}
		return fmt.Sprintf("publish many %+v", all)
	case 3, 4:
		k.Carry(k.rand.IntN(2) == 0)
		return "carry"
	case 5, 6, 7:
		c := store.Claim{Topic: k.Topic, Max: 1 + k.rand.IntN(3), Lease: []time.Duration{2 * time.Millisecond, time.Minute}[k.rand.IntN(2)], AckNow: k.rand.IntN(5) == 0}
		claimed, err := k.Shard.Claim(ctx, c)
		k.must(err)
		for _, m := range claimed.Messages {
			if m.Fence <= k.fence && m.Fence != 0 {
				k.Errorf("%s has the fence %d behind %d", m.Member, m.Fence, k.fence)
			}
			k.fence = max(k.fence, m.Fence)
		}
		if !c.AckNow {
			k.held = append(k.held, claimed.Messages...)
		}
		return fmt.Sprintf("claim %+v: %v", c, claimed)
	case 8:
		var some []store.Lease
		for range 1 + k.rand.IntN(3) {
			if len(k.held) > 0 {
				some = append(some, k.held[k.rand.IntN(len(k.held))].Lease)
			}
		}
		if len(some) > 0 {
			lost, err := k.Shard.Ack(ctx, k.Topic, some)
			k.must(err)
			return fmt.Sprintf("ack %v, lost %v", some, lost)
		}
		return ""
	case 9:
		_, _, err := k.Shard.AckWith(ctx, k.Topic, lease, store.Result{Keep: time.Millisecond * time.Duration(k.rand.IntN(2))})
		k.must(err)
		return fmt.Sprintf("ack with %v", lease)
	case 10:
		n := store.Nack{Lease: lease, Delay: 2 * time.Millisecond, Reason: "x", Bury: k.rand.IntN(3) == 0}
		n.Keep = !n.Bury && k.rand.IntN(2) == 0
		done, err := k.Shard.Nack(ctx, k.Topic, n)
		k.must(err)
		return fmt.Sprintf("nack %+v: %+v", n, done)
	case 11:
		back := store.Return{Lease: lease}
		if k.rand.IntN(2) == 0 {
			back.Due = time.Now().Add(-time.Second)
		}
		lost, err := k.Shard.Release(ctx, k.Topic, reach.Inbox{}, 0, []store.Return{back})
		k.must(err)
		return fmt.Sprintf("release %v, lost %v", back, lost)
	case 12:
		id, when := k.id(), []store.When{0, store.In(time.Millisecond), store.In(time.Hour)}[k.rand.IntN(3)]
		was, _, err := k.Shard.Reschedule(ctx, k.Topic, member(id), when, time.Time{})
		k.must(err)
		return fmt.Sprintf("reschedule %s %v: %v", id, when, was)
	case 13:
		id := k.id()
		cancel := k.Shard.Cancel
		if k.rand.IntN(2) == 0 {
			cancel = func(ctx context.Context, topic, member string) (record.State, error) {
				return k.Shard.CancelWaiting(ctx, topic, member, time.Time{})
			}
		}
		was, err := cancel(ctx, k.Topic, member(id))
		k.must(err)
		return fmt.Sprintf("cancel %s: %v", id, was)
	case 14:
		c := k.settings()
		_, err := k.Shard.Set(ctx, k.Topic, c, false)
		k.must(err)
		return fmt.Sprintf("set %d %s %s, %d", *c.KeyConcurrency, *c.OnRetry, *c.OnDead, k.slots)
	default:
		letters := k.oldest(1 + k.rand.IntN(3))
		deal := k.Shard.Requeue
		if k.rand.IntN(4) == 0 {
			deal = k.Shard.Purge
		}
		done, err := deal(ctx, k.Topic, letters)
		k.must(err)
		return fmt.Sprintf("deal %v: %v", letters, done)
	}
}

// oldest returns the dead letters that died first.
func (k *keyed) oldest(n int) (letters store.Letters) {
	ids := storetest.Dead(k.T, k.Store, k.Topic)
	for _, id := range ids[:min(n, len(ids))] {
		letters.Members = append(letters.Members, k.Topic+":"+id)
	}
	return letters
}

// play plays a history, and looks at all places after each step.
func (k *keyed) play(steps int) bool {
	ctx := k.Context()
	before := k.read()
	for range steps {
		k.log = append(k.log, k.step(ctx))
		after := k.read()
		wrong := slices.Concat(after.check(k.limit, k.most), inOrder(before, after), slotsOf(before, after, k.slots))
		if len(wrong) > 0 {
			k.Errorf("%s\nbefore: %+v\nafter: %+v\nthe history:\n%s", strings.Join(wrong, "\n"), before, after, strings.Join(k.log[max(0, len(k.log)-25):], "\n"))
			return false
		}
		before = after
	}
	return true
}

// drain handles all that is left, and checks that nothing stays blocked, and no key, seat or line stays. What dies again and again,
// since its time to live is shorter than this takes, is purged in the end.
func (k *keyed) drain() {
	ctx := k.Context()
	for round := range 200 {
		p := k.read()
		if len(p.records) == 0 && len(p.keys)+len(p.seats)+len(p.line)+len(p.heads) == 0 {
			return
		}
		deal := k.Shard.Requeue
		if round >= 20 {
			deal = k.Shard.Purge
		}
		_, err := deal(ctx, k.Topic, k.oldest(50))
		k.must(err)
		for id := range p.scheduled {
			_, _, err := k.Shard.Reschedule(ctx, k.Topic, k.Topic+":"+id, 0, time.Time{})
			k.must(err)
		}
		k.Carry(false)
		for _, m := range k.held {
			_, err := k.Shard.Ack(ctx, k.Topic, []store.Lease{m.Lease})
			k.must(err)
		}
		claimed, err := k.Shard.Claim(ctx, store.Claim{Topic: k.Topic, Max: 100, Lease: time.Minute})
		k.must(err)
		k.held = claimed.Messages
	}
	k.Errorf("still there: %+v\nthe history:\n%s", k.read(), strings.Join(k.log, "\n"))
}

// Of a key no more messages than its limit are ready, leased or put off, whatever is done to the messages; the next one is
// the one due first; and nothing is blocked for ever.
func TestSeats(t *testing.T) {
	t.Parallel()
	playAll(t, storetest.Open(t), *histories)
}

// The in-memory server of bellhop dev keeps seats, too.
func TestSeatsInMemory(t *testing.T) {
	if storetest.Shards() > 1 {
		t.Skip("it holds one shard")
	}
	t.Parallel()
	_, db := storetest.Trial(t, "seats")
	playAll(t, db, 20)
}

// playAll plays n random histories, each on a topic of its own.
func playAll(t *testing.T, db *notify.Store, n int) {
	t.Helper()
	for i := range n {
		seed := rand.Uint64()
		k := openKeyed(t, db, fmt.Sprint("t", i), seed)
		if k.play(40) {
			k.drain()
		}
		if t.Failed() {
			t.Fatalf("history %d of the seed %d", i, seed)
		}
		storetest.Must(t, storetest.ErrOf(k.Shard.Resign(t.Context(), k.Token(), "", 0)))
	}
}

// A publish of several reports which of them are blocked.
func TestPublishReportsWhatIsBlocked(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, seated(1))
	message := func(id, key string, delay time.Duration) notify.Message {
		return notify.Message{Topic: p.Topic, ID: id, Key: key, Delay: delay}
	}
	var got []string
	for _, r := range p.Publisher.PublishMany(t.Context(), []notify.Message{
		message("c", "acct-7", 0), message("plain", "", 0), message("b", "acct-7", 0), message("a", "acct-7", 0), message("later", "acct-7", time.Hour), message("other", "acct-8", 0),
	}) {
		got = append(got, fmt.Sprint(r.ID, " ", r.State, r.Err))
	}
	if want := []string{"c blocked <nil>", "plain ready <nil>", "b blocked <nil>", "a ready <nil>", "later scheduled <nil>", "other ready <nil>"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Play("publish d key=acct-8 = blocked")
}

// Where a key of the seats is foreign no message is lost: it goes as if it had no key.
func TestForeignSeats(t *testing.T) {
	t.Parallel()
	foreign := func(p *storetest.Player, words []string) string { // the key is replaced
		key := p.Store.KeysOf(p.Topic).Base() + words[0] + ":" + p.Topic
		return fmt.Sprint(p.Store.Client().Del(p.Context(), key).Err(), p.Store.Client().Set(p.Context(), key, "foreign", 0).Err())
	}
	work := func(p *storetest.Player, words []string) string { // which messages are carried, claimed and acknowledged
		got := make(map[string]bool)
		for range 10 {
			p.Carry(false)
			claimed, err := p.Shard.Claim(p.Context(), store.Claim{Topic: p.Topic, Max: 10, Lease: time.Minute})
			if err != nil {
				return err.Error()
			}
			for _, m := range claimed.Messages {
				got[m.Member] = true
				if lost, err := p.Shard.Ack(p.Context(), p.Topic, []store.Lease{m.Lease}); err != nil || len(lost) > 0 {
					return fmt.Sprint(m.Member, lost, err)
				}
			}
		}
		return fmt.Sprint(slices.Sorted(maps.Keys(got)))
	}
	storetest.Play(t, `
	publish a b c key=acct-7 delay=1h
== keys
	foreign keys = <nil> <nil>
== seats
	foreign seats = <nil> <nil>
== line
	foreign line = <nil> <nil>
== heads
	foreign heads = <nil> <nil>
==
	hasten 1h
	pass 1ms                     # delays are rounded up
	work = [ledger:a ledger:b ledger:c]
	`, storetest.Scenario{Topic: "ledger", Verbs: map[string]func(*storetest.Player, []string) string{"foreign": foreign, "work": work}})
}

// A fence is greater than those before, also if the clock was set back; what has no key in a topic without keys has none.
func TestFence(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	k := openKeyed(t, db, "ledger", 0)
	claim := func(topic string) (all []int64) {
		claimed, err := db.Of(topic).Claim(t.Context(), store.Claim{Topic: topic, Max: 10, Lease: time.Minute})
		k.must(err)
		for _, m := range claimed.Messages {
			all = append(all, m.Fence)
		}
		return all
	}
	storetest.Publish(t, db, notify.Message{Topic: "plain", ID: "a"}, notify.Message{Topic: "ledger", ID: "a", Key: "1"}, notify.Message{Topic: "ledger", ID: "b", Key: "2"})
	if got := claim("plain"); !slices.Equal(got, []int64{0}) {
		t.Errorf("without keys fences are %v", got)
	}
	first := claim("ledger")
	if len(first) != 2 || first[0] < 1e15 || first[1] != first[0]+1 {
		t.Errorf("the first fences are %v", first)
	}
	const later = 4e15 // us, in the year 2096
	storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOf("ledger").Topics(), "ledger:fence", int64(later)).Err())
	for i := range int64(3) {
		storetest.Publish(t, db, notify.Message{Topic: "ledger", Key: fmt.Sprint("later", i)})
		if got := claim("ledger"); !slices.Equal(got, []int64{later + i}) {
			t.Errorf("behind %d the fences are %v", int64(later), got)
		}
	}
}

// What was blocked is not handed out before it is due, also if the clock was set back meanwhile.
func TestCallUpIsNotEarly(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	k := openKeyed(t, db, "ledger", 0)
	storetest.Publish(t, db, notify.Message{Topic: k.Topic, ID: "a", Key: "1"}, notify.Message{Topic: k.Topic, ID: "b", Key: "1"})
	key, was, _ := parts(k.read().line[0])
	const due = 4_000_000_000_000 // ms: for Redis's clock it is as if it was set back by decades
	keys, noted := db.KeysOf(k.Topic), fmt.Sprintf("%015d", int64(due))
	tx := db.Client().TxPipeline()
	tx.ZRem(t.Context(), keys.Line(k.Topic), key+"\x00"+was+"\x00b")
	tx.ZAdd(t.Context(), keys.Line(k.Topic), redis.Z{Member: key + "\x00" + noted + "\x00b"})
	tx.HSet(t.Context(), keys.KeysOf(k.Topic), "b", key+" "+noted)
	storetest.Must(t, storetest.ErrOf(tx.Exec(t.Context())))
	claimed, err := k.Shard.Claim(t.Context(), store.Claim{Topic: k.Topic, Max: 10, AckNow: true})
	k.must(err)
	if p := k.read(); len(claimed.Messages) != 1 || p.ready["b"] != due || len(p.line) > 0 {
		t.Errorf("claimed %d messages; b is ready at %.0f, want %d", len(claimed.Messages), p.ready["b"], int64(due))
	}
}

// A limit that grows by far calls up as many as one call may, and the housekeeping the others.
func TestLimitGrows(t *testing.T) {
	t.Parallel()
	const keys, each, limit = 100, 110, 100
	db := storetest.Open(t)
	k := openKeyed(t, db, "ledger", 0)
	for i := range each {
		var some []notify.Message
		for key := range keys {
			some = append(some, notify.Message{Topic: k.Topic, ID: fmt.Sprint(key, "-", i), Key: fmt.Sprint(key)})
		}
		storetest.Publish(t, db, some...)
	}
	storetest.Must(t, storetest.ErrOf(k.Shard.Set(t.Context(), k.Topic, store.SettingsChange{KeyConcurrency: new(limit)}, false)))
	if n := len(k.read().ready); n <= keys || n >= keys*limit {
		t.Errorf("%d are ready at once", n)
	}
	var w store.Sweep
	for range 10 {
		swept := k.Sweep(w)
		w.Seat = swept.Seat
		if !swept.Soon {
			break
		}
	}
	p := k.read()
	if len(p.ready) != keys*limit || len(p.line) != keys*(each-limit) {
		t.Errorf("%d are ready, and %d blocked", len(p.ready), len(p.line))
	}
	for _, wrong := range p.check(limit, limit) {
		t.Error(wrong)
	}
}

// A setting that lets more of a key go does so at once, whether it is the topic's or that of all topics.
func TestSettingsFree(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"ledger", notify.AllTopics} {
		t.Run(of, func(t *testing.T) {
			storetest.Play(t, strings.ReplaceAll(`
== a dead letter bars no more
	set on_dead=stop
	publish a b c key=x
	claim 1 = a
	bury a
	list ready = nothing
	set on_dead=go
	list ready = b
== what is put off leaves its seat
	set on_dead=stop
	publish a b c key=x
	claim 1 = a
	nack a delay=1h
	list ready = nothing
	set on_retry=pass
	list ready = b
== there are more seats
	set on_dead=stop
	publish a b c key=x
	claim 1 = a
	nack a delay=1h
	list ready = nothing
	set key_concurrency=3
	list ready = b c
== what keeps its seat keeps others
	set on_dead=go
	publish a b c key=x
	claim 1 = a
	nack a delay=1h
	list ready = nothing
	set on_dead=stop
	list ready = nothing
			`, "set ", "set topic="+of+" "), seated(0))
		})
	}
}

// The housekeeping looks at the seats of a topic however many messages sit of one key: each that expired behind a death bars it, too.
func TestManyBarOneKey(t *testing.T) {
	t.Parallel()
	const behind = 8_100
	k := openKeyed(t, storetest.Open(t), "ledger", 0)
	_, err := k.Shard.Set(t.Context(), k.Topic, store.SettingsChange{OnDead: new("stop")}, false)
	k.must(err)
	storetest.Publish(t, k.Store, notify.Message{Topic: k.Topic, ID: "first", Key: "barred"})
	_, err = k.Shard.Nack(t.Context(), k.Topic, store.Nack{Lease: k.take(t.Context()).Lease, Bury: true})
	k.must(err)
	all := make([]notify.Message, behind)
	for i := range all {
		all[i] = notify.Message{Topic: k.Topic, Key: "barred", TTL: time.Millisecond}
	}
	for some := range slices.Chunk(all, 1000) {
		storetest.Publish(t, k.Store, some...)
	}
	k.Play("pass 2ms")
	for range 2 {
		_, err = k.Shard.Carry(t.Context(), store.Carry{Token: k.Token(), Lease: time.Minute, Batch: 5 * behind, KeepCount: 1, KeepAge: time.Hour, Ready: "0"})
		k.must(err)
	}
	if p := k.read(); len(p.dead) != behind+1 || strings.Count(p.seats["barred"], "!") != behind+1 {
		t.Fatalf("%d are dead, and %d bar the key", len(p.dead), strings.Count(p.seats["barred"], "!"))
	}
	k.must(k.Store.Client().HSet(t.Context(), k.Store.KeysOf(k.Topic).Seats(k.Topic), "lost", "nobody !nobody-2").Err())
	w := store.Sweep{KeepDeadCount: 2 * behind}
	storetest.Eventually(t, "the seats of nobody are taken away", func() bool {
		w.Seat = k.Sweep(w).Seat
		return k.read().seats["lost"] == ""
	})
	storetest.Is(t, "that bar the key", strings.Count(k.read().seats["barred"], "!"), behind+1)
}

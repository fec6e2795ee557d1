package subscribers_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// An audience is one of each kind of listener, each with a hub of its own.
type audience struct {
	wild, exact, namedWild, namedExact *received
	listeners                          []*subscribers.Listener
}

// gather has an audience listen, to all and to one topic.
func gather(t *testing.T, store *notify.Store, one string) *audience {
	t.Helper()
	a := &audience{}
	add := func(pattern, name string) *received {
		l := newListener(t, store)
		a.listeners = append(a.listeners, l)
		h, _ := listen(t, l, pattern, subscribers.ListenOptions{Name: name})
		return h
	}
	a.wild, a.exact = add(">", ""), add(one, "")
	a.namedWild, a.namedExact = add(">", "wild"), add(one, "exact")
	return a
}

// want waits until all have received what they should, and checks that they got no gap.
func (a *audience) want(t *testing.T, all, one []string) {
	t.Helper()
	wantIDs(t, a.wild, all...)
	wantIDs(t, a.exact, one...)
	wantSet(t, a.namedWild, all...)
	wantSet(t, a.namedExact, one...)
	for _, l := range a.listeners {
		if n := l.Stats(); n.Gaps > 0 {
			t.Errorf("gaps are reported: %+v", n)
		}
	}
}

// Redis refuses the carrier's bells for a while: what was carried meanwhile is received by every listener, in order.
func TestBellsAreRefused(t *testing.T) {
	t.Parallel()
	mover := storetest.NewUser(t)
	store := mover.Admin
	carry(t, mover.Store)
	a, b := gather(t, store, "a"), storetest.Beside(store, "a", "b")
	broadcast(t, store, "a", "1")
	broadcast(t, store, b, "2")
	a.want(t, []string{"1", "2"}, []string{"1"})

	rights := []any{"resetchannels"} // no bell, but beats
	for _, keys := range store.KeysOfAll() {
		rights = append(rights, "&"+keys.Nudge(), "&"+keys.Beat(), "&"+keys.Here("*"))
	}
	mover.ACL(t, rights...)
	broadcast(t, store, "a", "3")
	broadcast(t, store, b, "4")
	broadcast(t, store, "a", "5")
	a.want(t, []string{"1", "2", "3", "4", "5"}, []string{"1", "3", "5"})

	broadcast(t, store, b, "6")
	broadcast(t, store, "a", "7")
	mover.ACL(t, "allchannels")
	broadcast(t, store, b, "8") // the bell of which follows others that were lost
	a.want(t, []string{"1", "2", "3", "4", "5", "6", "7", "8"}, []string{"1", "3", "5", "7"})
}

// unrung appends a broadcast to a log as a carrier does that ends before it
// rings the bell: at once, and behind all that was sent, also by a carrier that
// is sending.
func unrung(t *testing.T, store *notify.Store, topic, id string) {
	t.Helper()
	script := redis.NewScript(`
		local t = redis.call('TIME')
		local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
		local at = math.max(t[1] * 1000000 + t[2], last + 1)
		local entry = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
		local of = {}
		for i = 1, #entry[2], 2 do of[entry[2][i]] = entry[2][i + 1] end
		redis.call('XADD', KEYS[1], string.format('%.0f-%.0f', math.floor(at / 1000), at % 1000),
			'id', ARGV[2], 'due', of.due, 'prev', entry[1], 'record', of.record)
		redis.call('ZADD', KEYS[2], string.format('%.0f', at), ARGV[1])
		return 1`)
	keys := store.KeysOf(topic)
	storetest.Must(t, script.Run(t.Context(), store.Client(), []string{keys.Log(topic), keys.Logs()}, topic, id).Err())
}

// A carrier ends between a log and its bell: what it sent is received with the next bell, of whatever topic, or the next beat.
func TestBellIsNeverRung(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	a, b := gather(t, store, "a"), storetest.Beside(store, "a", "b")
	broadcast(t, store, "a", "1")
	broadcast(t, store, b, "2")
	a.want(t, []string{"1", "2"}, []string{"1"})
	unrung(t, store, "a", "3")
	a.want(t, []string{"1", "2", "3"}, []string{"1", "3"}) // by the beat
	unrung(t, store, "a", "4")
	broadcast(t, store, b, "5")
	unrung(t, store, b, "6")
	unrung(t, store, "a", "7")
	broadcast(t, store, "a", "8")
	a.want(t, []string{"1", "2", "3", "4", "5", "6", "7", "8"}, []string{"1", "3", "4", "7", "8"})
}

// Bells of broadcasts that a hub does not want are no reason to read, and none that is lost among them is overlooked.
func TestBellIsLostAmongOthers(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	l := newListener(t, store)
	h, _ := listen(t, l, "a.*")
	n, _ := listen(t, l, "a.*", subscribers.ListenOptions{Name: "n"})
	broadcast(t, store, "a.x", "1")
	wantIDs(t, h, "1")
	var others []string
	for i := range 600 { // more than a read looks at
		others = append(others, storetest.Beside(store, "a.x", fmt.Sprintf("other.%03d", i)))
	}
	flood(t, store, others, numbers("o", 2000)...)
	unrung(t, store, "a.x", "2")
	flood(t, store, others, numbers("p", 1200)...)
	broadcast(t, store, storetest.Beside(store, "a.x", "a.y"), "3")
	wantIDs(t, h, "1", "2", "3")
	wantSet(t, n, "1", "2", "3")
	if n := l.Stats(); n.Gaps > 0 {
		t.Errorf("%+v", n)
	}
}

// Whatever is published, listeners hear what is sent, and a hub asks Redis at most ten times a second for nothing.
func TestForgedBells(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	carry(t, store)
	for _, pattern := range []string{"px", ">"} {
		own := storetest.At(t, storetest.URL(), store.Keys().Prefix())
		var asked atomic.Int64
		own.Observe(func(script string, _ time.Duration, _ error) {
			if script == "read" || script == "grown" {
				asked.Add(1)
			}
		})
		l := newListener(t, own)
		h, _ := listen(t, l, pattern)
		n, _ := listen(t, l, pattern, subscribers.ListenOptions{Name: "n" + strings.Trim(pattern, ">")})
		broadcast(t, store, "px", "1")
		wantIDs(t, h, "1")
		keys := store.KeysOf("px")
		const far, huge = "253402300799999-999", "9007199254740-991"
		forged := []string{
			huge + " px", far + "," + far + ",px", "0-0," + huge + ",px", h.all[0].Position.String() + "," + far + ",px",
			far + ",0-0,px", "-5-1,9-9,px", "", "px", "\xff", strings.Repeat("1", 4000) + "-1,2-2,px", "0-0,1-1",
		}
		began, before := time.Now(), asked.Load()
		for i := 0; time.Since(began) < 1500*time.Millisecond; i++ {
			payload := forged[i%len(forged)]
			for channel, payload := range map[string]string{
				keys.Log("px"): payload, keys.Logs(): payload, keys.Beat(): "1 1 store " + payload + " px",
			} {
				storetest.Must(t, storetest.ErrOf(storetest.Tell(t.Context(), store, channel, payload)))
			}
		}
		// A look and a read each time, and the carrier's beats.
		if n, most := asked.Load()-before, int64(time.Since(began)/(50*time.Millisecond))+10; n > most {
			t.Errorf("%s: redis was asked %d times, want %d at the most", pattern, n, most)
		}
		broadcast(t, store, "px", "2", "3")
		wantIDs(t, h, "1", "2", "3")
		wantSet(t, n, "1", "2", "3")
		for _, payload := range forged { // one at a time: nothing follows it that would have the hub look again
			for _, channel := range []string{keys.Log("px"), keys.Logs(), keys.Name("n" + strings.Trim(pattern, ">"))} {
				storetest.Must(t, storetest.ErrOf(storetest.Tell(t.Context(), store, channel, payload)))
				id := fmt.Sprint("next-", h.size())
				broadcast(t, store, "px", id)
				storetest.Eventually(t, fmt.Sprintf("%s is received after %q", id, payload), func() bool {
					all := h.list()
					return all[len(all)-1] == id
				})
			}
		}
		if n := l.Stats(); n.Gaps > 0 {
			t.Errorf("%+v", n)
		}
	}
}

// A listener of one topic asks Redis for nothing while others are sent to, not even with the beats.
func TestOthersCostNothing(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	own := storetest.At(t, storetest.URL(), store.Keys().Prefix())
	carry(t, store)
	var asked atomic.Int64
	own.Observe(func(script string, _ time.Duration, _ error) { asked.Add(1) })
	l := newListener(t, own)
	h, _ := listen(t, l, topic)
	broadcast(t, store, topic, "1")
	wantIDs(t, h, "1")
	beats := storetest.Subscribe(t, store, store.KeysOf(topic).Beat())
	beat := func() {
		storetest.Must(t, storetest.ErrOf(beats.ReceiveMessage(t.Context())))
	}
	for range 4 { // in which the beats name this topic
		beat()
	}
	i := 0
	storetest.Eventually(t, "it asks redis for nothing in three beats", func() bool { // those before may reach it late
		before := asked.Load()
		for range 3 {
			i++
			broadcast(t, store, "other", fmt.Sprint("o", i))
			broadcast(t, store, "another", fmt.Sprint("p", i))
			beat()
		}
		return asked.Load() == before
	})
	broadcast(t, store, topic, "2")
	wantIDs(t, h, "1", "2")
}

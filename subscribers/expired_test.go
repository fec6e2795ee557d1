package subscribers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// sendBrief sends a, b and c, of which b expires after so long. It returns a function
// that waits until then.
func sendBrief(t *testing.T, db *notify.Store, ttl time.Duration) (over func()) {
	t.Helper()
	began := redisNow(t, db)
	messages := make([]notify.Message, 3)
	for i, id := range []string{"a", "b", "c"} {
		messages[i] = notify.Message{Topic: topic, ID: id, Body: []byte("x"), Broadcast: true, Due: began.Add(time.Duration(i-10) * time.Millisecond)}
	}
	messages[1].TTL = ttl + 10*time.Millisecond
	storetest.Publish(t, db, messages...)
	sentAll(t, db)
	if sent := sentTo(t, db); len(sent) != 3 {
		t.Fatalf("sent were %v", sent)
	}
	end := messages[1].Due.Add(messages[1].TTL + 2*time.Millisecond) // both are rounded to a millisecond
	return func() {
		storetest.Eventually(t, "b expires", func() bool { return redisNow(t, db).After(end) })
	}
}

// ttlOfB is a TTL that lasts until the broadcast is read, and is over soon.
const ttlOfB = 10 * time.Second

// Whoever reads a broadcast before it expires receives it, with what is left of its TTL.
func TestBroadcastWithATTL(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	carry(t, db)
	l := newListener(t, db)
	before, _ := listen(t, l, topic)
	began := time.Now()
	sendBrief(t, db, time.Minute)
	after, _ := listen(t, l, ">", subscribers.ListenOptions{From: subscribers.FromBeginning()})
	named, _ := listen(t, l, topic, subscribers.ListenOptions{From: subscribers.FromBeginning(), Name: "n"})
	for _, h := range []*received{before, after, named} {
		wantIDs(t, h, "a", "b", "c")
		b, left := h.all[1], h.all[1].Expires.Sub(began)
		if b.TTL != time.Minute+10*time.Millisecond || left < time.Minute-storetest.Deadline || left > time.Minute+storetest.Deadline || b.Expired() {
			t.Errorf("it has a ttl of %v, and %v left", b.TTL, left)
		}
		if !h.all[0].Expires.IsZero() || h.all[0].Expired() {
			t.Errorf("one without a ttl expires at %v", h.all[0].Expires)
		}
	}
}

// A broadcast that expired is left out, without a gap, wherever a listener gets it from.
func TestExpiredBroadcastIsLeftOut(t *testing.T) {
	t.Parallel()
	beginning := subscribers.FromBeginning()
	for who, test := range map[string]struct {
		o     subscribers.ListenOptions
		holds bool // it has a in hand when b expires
		first bool // it listens before they are sent
	}{
		"window":           {holds: true, first: true},
		"reads alone":      {holds: true, o: subscribers.ListenOptions{From: beginning}},
		"reads later":      {o: subscribers.ListenOptions{From: beginning}},
		"named":            {holds: true, first: true, o: subscribers.ListenOptions{Name: "n"}},
		"named reads late": {o: subscribers.ListenOptions{Name: "n", From: beginning}},
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, db *notify.Store) {
				l := newListener(t, db)
				h := &received{}
				if test.holds {
					h.hold = make(chan struct{})
				}
				if test.first {
					listenInto(t, l, topic, h, test.o)
				}
				over := sendBrief(t, db, ttlOfB)
				if !test.first && test.holds {
					listenInto(t, l, topic, h, test.o)
				}
				if test.holds {
					storetest.Eventually(t, "it has one in hand", func() bool { return l.Stats().Handled > 0 })
				}
				over()
				if test.holds {
					close(h.hold)
				} else {
					listenInto(t, l, topic, h, test.o)
				}
				wantIDs(t, h, "a", "c")
				if s := l.Stats(); s.Gaps+s.Unreadable+s.GivenUp != 0 || s.Handled != 2 {
					t.Errorf("%+v", s)
				}
				if test.o.Name != "" {
					nothingHeld(t, db, test.o.Name)
				}
			})
		})
	}
}

// A broadcast that expires between the attempts of a named listener is acknowledged
// silently, also where another process takes it over.
func TestNamedBroadcastExpiresBetweenAttempts(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, db *notify.Store) {
				handled := make(chan string, 100)
				l, err := subscribers.NewListener(db, subscribers.ListenerOptions{Grace: time.Millisecond})
				storetest.Must(t, err)
				listen := func(ctx context.Context) error {
					return l.Listen(ctx, topic, func(ctx context.Context, b *subscribers.Broadcast) error {
						handled <- b.ID
						switch {
						case b.ID != "b":
							return nil
						case dies:
							<-ctx.Done()
							return subscribers.ErrStopping // it is released
						}
						return subscribers.RetryAfter(errors.New("not yet"), ttlOfB+20*time.Millisecond) // its TTL is longer by 10 ms
					}, subscribers.ListenOptions{Name: "n", From: subscribers.FromBeginning(), OnGivenUp: func(b *subscribers.Broadcast, reason string) {
						t.Errorf("%s is given up: %s", b.ID, reason)
					}})
				}
				stop := storetest.Run(t, listen)
				over := sendBrief(t, db, ttlOfB)
				for _, want := range []string{"a", "b"} {
					if got := storetest.Receive(t, want, handled); got != want {
						t.Fatalf("it handled %s, want %s", got, want)
					}
				}
				over()
				if dies {
					stop()
					storetest.Run(t, listen)
				}
				if got := storetest.Receive(t, "c", handled); got != "c" {
					t.Errorf("it handled %s, want c", got)
				}
				nothingHeld(t, db, "n")
			})
		})
	}
}

package signing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/signing"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// get returns the secret, which must be known.
func get(t *testing.T, s *signing.Secret) []byte {
	t.Helper()
	text, err := s.Get(t.Context())
	if err != nil || len(text) == 0 {
		t.Fatalf("got %q, %v", text, err)
	}
	return text
}

// is returns what a thing that was signed with a secret says of others.
func is(with []byte) func([]byte) bool {
	return func(secret []byte) bool { return bytes.Equal(secret, with) }
}

// verify reports whether a secret signed something.
func verify(t *testing.T, s *signing.Secret, with []byte) bool {
	t.Helper()
	ok, err := s.Verify(t.Context(), is(with))
	storetest.Must(t, err)
	return ok
}

func TestRotation(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	one, two := signing.New(store), signing.New(store)
	before := get(t, one)
	if !verify(t, two, before) {
		t.Error("another does not know the secret")
	}
	storetest.Must(t, store.Home().RotateSecret(t.Context()))
	storetest.Eventually(t, "the old one is refused by who only verifies it", func() bool { return !verify(t, one, before) })
	after := get(t, one)
	storetest.Eventually(t, "the new one is known", func() bool { return verify(t, two, after) })
	if verify(t, two, before) || bytes.Equal(before, after) {
		t.Error("the old one is accepted")
	}
}

// While Redis is away the secret stays known to who had it. Who had none gets it as soon as
// Redis is back, and all find out that it was rotated meanwhile.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--appendonly", "yes", "--appendfsync", "always")
	store := storetest.Unhurried(storetest.At(t, server.URL(), ""))
	storetest.Found(t, store)
	had, without, late := signing.New(store), signing.New(store), signing.New(store)
	before := get(t, had)
	server.Kill()
	for range 2 {
		if _, err := without.Get(t.Context()); err == nil {
			t.Error("there is no error")
		}
	}
	if ok, err := without.Verify(t.Context(), is(before)); ok || err == nil {
		t.Errorf("got %v, %v", ok, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := late.Get(gone); err == nil {
		t.Error("there is no error")
	}
	if !verify(t, had, before) || !bytes.Equal(get(t, had), before) {
		t.Error("it is forgotten")
	}
	storetest.Eventually(t, "another one, which may be new, is not denied", func() bool {
		ok, err := had.Verify(t.Context(), is([]byte("another")))
		return !ok && err != nil
	})
	storetest.Restart(t, server)
	storetest.Eventually(t, "it is read", func() bool {
		text, err := without.Get(t.Context())
		return err == nil && bytes.Equal(text, before)
	})
	storetest.Eventually(t, "it is rotated", func() bool { return store.Home().RotateSecret(t.Context()) == nil })
	for _, s := range []*signing.Secret{had, without} {
		storetest.Eventually(t, "the old one is refused", func() bool {
			ok, err := s.Verify(t.Context(), is(before))
			return !ok && err == nil
		})
	}
}

// A key that holds none of ours is told, and not used.
func TestForeignSecret(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	s := signing.New(db)
	before := get(t, s)
	storetest.Must(t, db.Client().Set(t.Context(), db.Keys().Secret(), "foreign", 0).Err())
	storetest.Eventually(t, "it is told", func() bool {
		_, err := s.Verify(t.Context(), is([]byte("foreign")))
		return errors.Is(err, store.ErrNoSecret)
	})
	if _, err := s.Get(t.Context()); !errors.Is(err, store.ErrNoSecret) {
		t.Errorf("got %v", err)
	}
	storetest.Must(t, db.Home().RotateSecret(t.Context()))
	storetest.Eventually(t, "a new one is read", func() bool {
		text, err := s.Get(t.Context())
		return err == nil && !bytes.Equal(text, before)
	})
}

// What one daemon sealed another one opens, for the same use, until the secret is rotated.
func TestSeal(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	one, two := signing.New(store), signing.New(store)
	open := func(s *signing.Secret, use, sealed string) (string, bool) {
		t.Helper()
		text, known, err := s.Open(t.Context(), use, sealed)
		storetest.Must(t, err)
		return text, known
	}
	for _, text := range []string{"", "order-47", string(bytes.Repeat([]byte{0xff}, 5000))} {
		sealed, err := one.Seal(t.Context(), "use", text)
		storetest.Must(t, err)
		if got, known := open(two, "use", sealed); !known || got != text {
			t.Errorf("got %q, %v for %q", got, known, text)
		}
		for _, other := range []string{"", "x", "=", sealed[1:], sealed + "A", sealed[:len(sealed)-4]} {
			if got, known := open(two, "use", other); known || got != "" {
				t.Errorf("%q is opened as %q", other, got)
			}
		}
		if _, known := open(two, "another use", sealed); known {
			t.Error("it is opened for another use")
		}
	}
	sealed, err := one.Seal(t.Context(), "use", "a")
	storetest.Must(t, err)
	storetest.Must(t, store.Home().RotateSecret(t.Context()))
	storetest.Eventually(t, "it is refused", func() bool { _, known := open(one, "use", sealed); return !known })
}

// A login that ended is refused at once where it ended, and soon by others. Of more logouts than are noted the forgotten
// ones count, with all that would have ended before them. What is noted goes with the secret.
func TestLogouts(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	one, two := signing.New(db), signing.New(db)
	get(t, one)
	get(t, two)
	good := time.Now().Add(time.Hour).Truncate(time.Second)
	storetest.Must(t, one.End(t.Context(), "a", good))
	if !one.Ended("a", good) || one.Ended("b", good) {
		t.Error("another ended than that")
	}
	storetest.Eventually(t, "it ended elsewhere", func() bool { get(t, two); return two.Ended("a", good) })
	storetest.Must(t, one.End(t.Context(), "old", time.Now().Add(-2*time.Hour)))
	if one.Ended("old", good) {
		t.Error("what is over is noted")
	}
	const most = 1000
	for i := range most {
		storetest.Must(t, db.Home().Logout(t.Context(), fmt.Sprint("more-", i), good.Add(time.Duration(i+1)*time.Second)))
	}
	if n := db.Client().ZCard(t.Context(), db.Keys().Logouts()).Val(); n != most {
		t.Errorf("%d are noted", n)
	}
	storetest.Eventually(t, "all are known", func() bool { get(t, two); return two.Ended(fmt.Sprint("more-", most-1), good.Add(most*time.Second)) })
	for _, test := range []struct {
		id    string
		at    time.Duration
		ended bool
	}{{"a", 0, true}, {"before", -time.Minute, true}, {"with the first", time.Second, true}, {"behind the first", 2 * time.Second, false}, {"more-1", 2 * time.Second, true}} {
		if two.Ended(test.id, good.Add(test.at)) != test.ended {
			t.Errorf("%s: it is the other way round", test.id)
		}
	}
	storetest.Must(t, db.Home().RotateSecret(t.Context()))
	storetest.Eventually(t, "they go with the secret", func() bool { get(t, two); return !two.Ended("more-1", good) })
}

package subscribers

import (
	"context"
	"testing"
	"time"
)

// Shards claim in turn for the hands that they share, and these have no more in hand than they are.
func TestShardsTakeTurns(t *testing.T) {
	virtually(t, terms{concurrency: 1, claimsSettle: true}, func(t *testing.T, f *fake) {
		all := []*fake{f, f.beside(), f.beside()}
		for i, one := range all {
			one.takes["handle"] = time.Second
			one.start([][]string{{"a", "b", "c"}, {"d"}, {"e", "f"}}[i]...)
		}
		f.at(time.Minute)
		all[0].want("handle", "0s a", "3s b", "5s c")
		all[1].want("handle", "1s d")
		all[2].want("handle", "2s e", "4s f")
		for _, one := range all {
			one.want("release")
		}
		all[0].want("ack", "1s [a]", "4s [b]", "6s [c]")
	})
}

// Hands that are fast have shards claim ahead, too.
func TestShardsClaimAhead(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500, claimsSettle: true}, func(t *testing.T, f *fake) {
		f.mean = time.Millisecond
		other := f.beside()
		for _, one := range []*fake{f, other} {
			one.takes["handle"], one.takes["claim"] = time.Millisecond, time.Millisecond
			one.start(ids(30)...)
		}
		f.at(70 * time.Millisecond)
		if n, m := len(f.notes["handle"]), len(other.notes["handle"]); n+m != 60 {
			t.Errorf("they handled %d and %d", n, m)
		}
	})
}

// A shard whose claims take long, or fail, keeps the hands from others for a moment, and no more
// than they can do is begun when it answers.
func TestShardThatHangs(t *testing.T) {
	for name, fault := range map[string]error{"late": nil, "in vain": errAway} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1, claimsSettle: true}, func(t *testing.T, f *fake) {
				f.takes["claim"], f.takes["handle"] = 10*time.Second, time.Second
				f.fault = func(kind string, n int) error {
					if kind == "claim" && n == 1 {
						return fault
					}
					return nil
				}
				other := f.beside()
				f.start("x")
				other.takes["handle"] = 3 * time.Second
				other.start("a", "b", "c", "d")
				f.at(time.Minute)
				other.want("handle", "20ms a", "3.02s b", "6.02s c", "9.02s d")
				if got := f.notes["handle"]; len(got) != 1 {
					t.Errorf("of the other it handled %v", got)
				}
			})
		})
	}
}

// Leases are extended while another shard does not answer.
func TestLeasesBesideAShardThatHangs(t *testing.T) {
	virtually(t, terms{concurrency: 2, claimsSettle: true}, func(t *testing.T, f *fake) {
		other := f.beside()
		f.takes["extend"] = time.Hour
		for i, one := range []*fake{f, other} {
			one.takes["handle"] = 25 * time.Second
			one.start([]string{"a", "b"}[i])
		}
		f.at(time.Minute)
		f.want("extend")
		other.want("extend", "10s [b] by 30s", "20s [b] by 30s")
	})
}

// A NotNow pauses the claims of all shards, and what they have queued is released before they claim again.
func TestNotNowInOneShard(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500, claimsSettle: true}, func(t *testing.T, f *fake) {
		other := f.beside()
		f.mean, f.handler = 2*time.Millisecond, refusing(10*time.Millisecond, time.Second)
		f.start("a")
		other.start("b", "c")
		f.at(time.Second)
		f.want("handle", "0s a")
		f.want("release", "10ms [a] and rest")
		other.want("release", "10ms [b c] and rest")
		other.want("handle")
		f.at(time.Minute)
		if n, m := len(f.notes["handle"]), len(other.notes["handle"]); n != 2 || m != 2 {
			t.Errorf("they handled %v and %v", f.notes["handle"], other.notes["handle"])
		}
	})
}

// A shard that does not answer the release of what a handler refused keeps no hand from others. What is
// released comes again in its order, and its lease is extended until then.
func TestShardThatHangsInARelease(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		then string // when another shard goes on
	}{
		"not now":  {NotNow(errBusy, time.Second), "1.01s b"},
		"stopping": {ErrStopping, "10ms b"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1, claimsSettle: true}, func(t *testing.T, f *fake) {
				other, refused := f.beside(), false
				f.takes["release"] = 9 * time.Second
				f.handler = func(ctx context.Context, _ string) error {
					if first := !refused; first {
						refused = true
						_ = pass(ctx, 10*time.Millisecond)
						return test.err
					}
					return nil
				}
				f.start("a1", "a2")
				f.at(5 * time.Millisecond)
				other.start("b")
				f.at(8 * time.Second)
				other.want("handle", test.then)
				f.want("handle", "0s a1")
				f.at(time.Minute)
				f.want("release", "9.01s [a1] and rest")
				f.want("handle", "0s a1", "9.01s a1", "9.01s a2")
			})
		})
	}
}

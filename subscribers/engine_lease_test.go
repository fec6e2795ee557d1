package subscribers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// untilEnd is a handler that notes why its context ends.
func (f *fake) untilEnd(ctx context.Context, id string) error {
	<-ctx.Done()
	f.note("over", "%s: %v", id, context.Cause(ctx))
	return ctx.Err()
}

// A lease is extended each time that a third of it has passed, and settled by the receipt that it has then.
func TestLeaseIsExtended(t *testing.T) {
	for lease, want := range map[time.Duration][]string{
		30 * time.Second:       {"10s [a] by 30s", "20s [a] by 30s"},
		900 * time.Millisecond: {"300ms [a] by 900ms", "600ms [a] by 900ms"},
	} {
		t.Run(lease.String(), func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.length, f.takes["handle"] = lease, lease*9/10
				f.start("a")
				f.at(time.Minute)
				f.want("extend", want...)
				f.want("ack", fmt.Sprint(lease*9/10, " [a'']"))
			})
		})
	}
}

// Leases of several lengths are extended each by its own, those of one length together.
func TestLeasesOfSeveralLengths(t *testing.T) {
	virtually(t, terms{concurrency: 4}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 40 * time.Second
		f.start("a", "b")
		f.at(5 * time.Second)
		f.length = 12 * time.Second
		f.add("c")
		f.at(18 * time.Second)
		f.want("extend", "9s [c] by 12s", "13s [a b] by 30s", "13s [c] by 12s", "17s [c] by 12s")
	})
}

// While nothing is leased nothing is extended, and what comes later is, in time.
func TestLeaseBehindARest(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 15 * time.Second
		f.start("a")
		f.at(time.Hour)
		f.add("b")
		f.at(2 * time.Hour)
		f.want("extend", "10s [a] by 30s", "1h0m10s [b] by 30s")
	})
}

// The handler of a lost lease learns of it at once. Its piece is not acknowledged, and those beside it are.
func TestLostLeaseEndsItsHandler(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.lost["a"] = true
		f.handler = func(ctx context.Context, id string) error {
			if id == "a" {
				_ = f.untilEnd(ctx, id)
				return nil
			}
			return pass(ctx, 12*time.Second)
		}
		f.start("a", "b")
		f.at(time.Minute)
		f.want("over", "10s a: lease lost")
		f.want("ack", "12s [b']")
		f.want("release")
	})
}

// A lease that cannot be extended is lost when it ends, by the clock of this process.
func TestLeaseEndsUnextended(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.handler = f.untilEnd
		f.fault = func(kind string, _ int) error { return map[string]error{"extend": errAway}[kind] }
		f.start("a")
		f.at(time.Hour)
		f.want("over", "30s a: lease lost")
		f.want("release")
		f.wantLog(1, "cannot extend leases; retrying")
	})
}

// An extension that fails is repeated after an eighth of the time.
func TestExtensionIsRepeated(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 22 * time.Second
		f.fault = func(kind string, n int) error {
			if kind == "extend" && n < 3 {
				return errAway
			}
			return nil
		}
		f.start("a")
		f.at(time.Minute)
		f.want("extend", "10s failed", "11.25s failed", "12.5s [a] by 30s")
		f.want("ack", "22s [a']")
		f.wantLog(1, "extending leases again")
	})
}

// The time of an attempt ends extensions, and the handler's context a little before: by a tenth of it, or 50 ms.
func TestTimeOfAnAttempt(t *testing.T) {
	for _, test := range []struct {
		most, lease time.Duration
		extend      []string
		over        string
	}{
		{time.Second, time.Second, nil, "950ms a: try timed out"},
		{100 * time.Millisecond, 100 * time.Millisecond, nil, "90ms a: try timed out"},
		{45 * time.Second, 30 * time.Second, []string{"10s [a] by 30s", "20s [a] by 30s"}, "44.95s a: try timed out"},
	} {
		t.Run(test.most.String(), func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.most, f.length, f.handler = test.most, test.lease, f.untilEnd
				f.start("a")
				f.at(time.Hour)
				f.want("extend", test.extend...)
				f.want("over", test.over)
				f.want("reject", test.over[:len(test.over)-len(" a: try timed out")]+" a: try timed out")
			})
		})
	}
}

// A handler that extends its lease decides how often it is extended from then on.
func TestHandlerExtendsItsLease(t *testing.T) {
	for name, test := range map[string]struct {
		lease, until time.Duration
		want         []string
	}{
		"shorter":        {3 * time.Second, 3500 * time.Millisecond, []string{"2s [a] by 3s", "3s [a] by 3s"}},
		"longer":         {time.Minute, 31 * time.Second, []string{"30s [a] by 1m0s"}},
		"by what it has": {0, 31 * time.Second, []string{"20s [a] by 30s", "30s [a] by 30s"}},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.handler = func(ctx context.Context, _ string) error {
					_ = pass(ctx, time.Second)
					for j := range f.leased {
						if err := f.extendOne(j, test.lease, func(*piece, time.Duration) error { return nil }); err != nil {
							return err
						}
					}
					return pass(ctx, time.Minute)
				}
				f.start("a")
				f.at(test.until)
				f.want("extend", test.want...)
			})
		})
	}
}

// Handlers that extend their leases do not wait for each other.
func TestHandlersExtendAtOnce(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.handler = func(ctx context.Context, id string) error {
			f.engine.mu.Lock()
			var own *job[piece]
			for j := range f.leased {
				if j.work.id == id {
					own = j
				}
			}
			f.engine.mu.Unlock()
			err := f.extendOne(own, 0, func(*piece, time.Duration) error { return pass(ctx, 2*time.Second) })
			f.note("extended", "%s", id)
			return err
		}
		f.start("a", "b")
		f.at(3 * time.Second)
		f.want("extended", "2s a", "2s b")
	})
}

// A call of the handler that finds the lease lost ends its context.
func TestHandlerFindsItsLeaseLost(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.handler = func(ctx context.Context, id string) error {
			for j := range f.leased {
				storetest.Fails(t, "its call", f.withReceipt(j, func(*piece) error { return notify.ErrLeaseLost }), notify.ErrLeaseLost)
			}
			return f.untilEnd(ctx, id)
		}
		f.start("a")
		f.at(time.Second)
		f.want("over", "0s a: lease lost")
		f.want("release")
	})
}

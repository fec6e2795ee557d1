package subscribers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// An idle engine rests and ends at once.
func TestStopOfAnIdleEngine(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.start()
		f.at(time.Hour)
		f.stop()
		f.at(time.Hour)
		f.want("release", "1h0m0s [] and rest")
		f.want("end", "1h0m0s <nil>")
	})
}

// What is in hand is finished within the grace and acknowledged. What is queued is released at once, not begun.
func TestStopFinishesWhatIsInHand(t *testing.T) {
	for _, settle := range []bool{false, true} {
		t.Run(fmt.Sprint("claims settle ", settle), func(t *testing.T) {
			virtually(t, terms{concurrency: 1, ahead: 500, claimsSettle: settle}, func(t *testing.T, f *fake) {
				f.mean, f.takes["handle"] = 2*time.Millisecond, 5*time.Second
				f.start("a", "b", "c")
				f.at(50 * time.Millisecond)
				f.stop()
				f.at(time.Minute)
				f.want("handle", "0s a")
				f.want("release", "50ms [b c] and rest")
				f.want("ack", "5s [a]")
				f.want("end", "5s <nil>")
			})
		})
	}
}

// The grace ends the contexts of handlers. Their pieces are released, and use up no attempt.
func TestGraceEndsHandlers(t *testing.T) {
	virtually(t, terms{concurrency: 2, grace: 20 * time.Second}, func(t *testing.T, f *fake) {
		f.handler = f.untilEnd
		f.start("a")
		f.at(time.Second)
		f.stop()
		f.at(time.Hour)
		f.want("over", "21s a: subscriber is stopping")
		f.want("release", "1s [] and rest", "21s [a''] and go on")
		f.want("reject")
		f.want("end", "21s <nil>")
	})
}

// While it stops it acknowledges what is done, and does not wait for what takes longer.
func TestStopAcknowledgesAsItGoes(t *testing.T) {
	virtually(t, terms{concurrency: 2, claimsSettle: true}, func(t *testing.T, f *fake) {
		f.handler = stuckOn("b", 9*time.Second, 3*time.Second)
		f.start("a", "b")
		f.at(time.Second)
		f.stop()
		f.at(time.Minute)
		f.want("ack", "3s [a]", "9s [b]")
		f.want("end", "9s <nil>")
	})
}

// A claim that is under way as it stops brings what is released.
func TestStopDuringAClaim(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.takes["claim"] = time.Second
		f.start("a")
		f.at(500 * time.Millisecond)
		f.stop()
		f.at(time.Minute)
		f.want("handle")
		f.want("release", "1s [a] and rest")
		f.want("end", "1s <nil>")
	})
}

// Where Redis is away, it settles until some seconds after the grace; a handler that returns later still gets half a second.
func TestStopWithoutRedis(t *testing.T) {
	for name, test := range map[string]struct {
		handled time.Duration
		err     error         // of the handler
		least   time.Duration // of the end
	}{
		"within the grace":         {5 * time.Second, nil, 11*time.Second + reach.SettleFor},
		"after all that was given": {20 * time.Second, nil, 20*time.Second + settleMin},
		"with a failure":           {5 * time.Second, errBusy, 11*time.Second + reach.SettleFor},
	} {
		for _, settle := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", claims settle ", settle), func(t *testing.T) {
				virtually(t, terms{concurrency: 1, grace: 10 * time.Second, claimsSettle: settle}, func(t *testing.T, f *fake) {
					f.length = time.Hour
					f.handler = func(context.Context, string) error {
						_ = pass(context.Background(), test.handled)
						return test.err
					}
					f.start("a")
					f.at(time.Second)
					f.fault = func(string, int) error { return errAway }
					f.stop()
					f.at(time.Hour)
					took, err := time.ParseDuration(strings.Fields(f.notes["end"][0])[0])
					if err != nil || took < test.least || took > test.least+2*time.Second { // a pause between calls more, at the most
						t.Errorf("it ended after %v, %v; want %v", took, err, test.least)
					}
				})
			})
		}
	}
}

// An error that ends the source ends the engine, and interrupts the handlers: they may not go on.
func TestSourceEnds(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.handler = f.untilEnd
		f.fault = func(kind string, n int) error {
			if kind == "claim" && n == 2 {
				return errOver
			}
			return nil
		}
		f.start("a")
		f.at(time.Second)
		signal(f.rung)
		f.at(time.Minute)
		f.want("over", "1s a: the source has ended")
		f.want("end", "1s the source has ended")
	})
}

// In a Redis that is unfit handlers go on, as in one that is away.
func TestRedisIsUnfit(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 5 * time.Second
		f.fault = func(kind string, n int) error {
			if kind == "claim" && n == 2 {
				return notify.ErrUnfit
			}
			return nil
		}
		f.start("a")
		f.at(time.Second)
		signal(f.rung)
		f.at(time.Minute)
		f.want("ack", "5s [a]")
		f.want("end", "5s "+notify.ErrUnfit.Error())
	})
}

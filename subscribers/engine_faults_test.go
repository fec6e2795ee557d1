package subscribers

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// Claims that fail are repeated, each time later, and are logged once.
func TestClaimsAreRepeated(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.fault = func(string, int) error {
			if time.Since(f.began) < time.Minute {
				return errAway
			}
			return nil
		}
		f.start("a")
		f.at(time.Minute + time.Second) // the longest pause
		f.wantLog(1, "call to redis failed; retrying")
		f.wantLog(1, "calls to redis succeed again")
		if n := len(f.notes["claim"]); n < 60 || n > 140 || len(f.notes["ack"]) != 1 {
			t.Errorf("%d claims, acknowledged were %v", n, f.notes["ack"])
		}
	})
}

// A handler that ends its goroutine keeps neither its hand nor its lease: the next piece is handled, and another process gets this one.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 10}, func(t *testing.T, f *fake) {
		f.handler = func(_ context.Context, id string) error {
			if id != "c" {
				runtime.Goexit()
			}
			return nil
		}
		f.start("a", "b", "c")
		f.at(time.Minute)
		f.want("handle", "0s a", "0s b", "0s c")
		f.want("ack", "0s [c]")
		f.want("extend")
		f.want("release")
		f.wantLog(2, "handler ended its goroutine")
		if f.open != 0 || f.busy != 0 || len(f.leased) > 0 {
			t.Errorf("open are %d, busy %d, leased %d", f.open, f.busy, len(f.leased))
		}
	})
}

// What the acknowledgement meets decides whether it is repeated, and what is logged.
func TestAcknowledgementFails(t *testing.T) {
	const lost = "lease lost before the acknowledgement"
	for name, test := range map[string]struct {
		err   error // of the first call
		lost  bool  // its lease
		calls int
		log   string
	}{
		"it is lost":                        {nil, true, 1, lost},
		"redis is away":                     {errAway, false, 2, "retrying"},
		"it was lost by the first call":     {errAway, true, 2, "retrying"}, // the reply names what the first call acknowledged
		"it is not replicated":              {notify.ErrUnreplicated, false, 1, "acknowledged, but not replicated; a failover may bring the pieces back"},
		"no script answers so":              {&script.ReplyError{Script: "ack"}, false, 1, "wrong answer to an acknowledgement; the pieces may come again"},
		"redis refuses it for good":         {errors.New("WRONGTYPE"), false, 1, "cannot acknowledge; the pieces will come again"},
		"it is locked out, and let in then": {errors.New("NOAUTH Authentication required"), false, 1, "cannot acknowledge"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.lost["a"] = test.lost
				f.fault = func(kind string, n int) error {
					if kind == "ack" && n == 1 {
						return test.err
					}
					return nil
				}
				f.start("a")
				f.at(5 * time.Second)
				if f.count["ack"] != test.calls || len(f.leased) > 0 {
					t.Errorf("%d calls, and %d are leased", f.count["ack"], len(f.leased))
				}
				f.wantLog(1, test.log)
				if test.log != lost {
					f.wantLog(0, lost)
				}
			})
		})
	}
}

// Acknowledgements are gathered while the one before is under way.
func TestAcknowledgementsAreGathered(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.takes["handle"], f.takes["ack"] = time.Millisecond, time.Millisecond, 3500*time.Microsecond
		f.start("a", "b", "c", "d", "e")
		f.at(time.Second)
		f.want("ack", "4.5ms [a]", "8ms [b c d]", "11.5ms [e]")
	})
}

// Where claims settle, what a claim that failed was to acknowledge is in the next one, before what is done since.
func TestClaimThatSettlesFails(t *testing.T) {
	virtually(t, terms{concurrency: 1, claimsSettle: true}, func(t *testing.T, f *fake) {
		f.fault = func(_ string, n int) error {
			if n == 2 {
				return errAway
			}
			return nil
		}
		f.takes["handle"] = time.Second
		f.start("a")
		f.at(10 * time.Second)
		if len(f.notes["ack"]) != 1 || f.count["claim"] < 3 {
			t.Errorf("acknowledged were %v, by %d claims", f.notes["ack"], f.count["claim"])
		}
	})
}

// What cannot be released holds up nothing: its lease ends.
func TestReleaseFails(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.handler = refusing(0, time.Minute)
		f.fault = func(kind string, _ int) error { return map[string]error{"release": errors.New("WRONGTYPE")}[kind] }
		f.start("a", "b")
		f.at(time.Hour)
		f.want("handle", "0s a", "1m0s b")
		f.wantLog(1, "cannot release pieces; their leases expire")
	})
}

// A panic, also of an error that cannot be read, is an error of the handler.
func TestHandlerPanics(t *testing.T) {
	for want, handler := range map[string]func(context.Context, string) error{
		"0s a: panic: worse":   func(context.Context, string) error { panic("worse") },
		"0s a: panic: no text": func(context.Context, string) error { return unreadable{} },
	} {
		t.Run(want, func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.handler = handler
				f.start("a")
				f.at(time.Second)
				f.want("reject", want)
				f.wantLog(1, "handler panicked")
			})
		})
	}
}

type unreadable struct{}

func (unreadable) Error() string { panic("no text") }

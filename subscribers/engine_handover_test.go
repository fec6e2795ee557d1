package subscribers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A hand-over is handled at once, and confirmed where its handler runs for more than 2 ms: then it has its whole lease.
func TestHandoverIsConfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		takes        time.Duration
		extend, acks []string
	}{
		"fast": {1900 * time.Microsecond, nil, []string{"1.0019s [a]"}},
		"slow": {15 * time.Second, []string{"1.002s [a] by 30s", "11.002s [a] by 30s"}, []string{"16s [a'']"}},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.takes["handle"] = test.takes
				f.start()
				f.at(time.Second)
				if !f.handOver("a", 1, 0) {
					t.Error("it was not taken")
				}
				f.at(time.Minute)
				f.want("handle", "1s a")
				f.want("extend", test.extend...)
				f.want("ack", test.acks...)
			})
		})
	}
}

// A hand-over that cannot be confirmed ends with its lease of a second, counted from when it was made.
func TestHandoverIsNotConfirmed(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.handler = f.untilEnd
		f.fault = func(kind string, _ int) error { return map[string]error{"extend": errAway}[kind] }
		f.start()
		f.handOver("a", 1, record.HandoverLease-600*time.Millisecond)
		f.at(record.HandoverLease + record.HandoverLease/24)
		if len(f.notes["over"]) != 1 || f.notes["over"][0] < "600ms a: lease lost" {
			t.Errorf("its handler ended: %v", f.notes["over"])
		}
	})
}

// What comes twice, too late, or to an engine that does not run is dropped.
func TestHandoverIsRefused(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		refused := func(why string, at int64, age time.Duration) {
			t.Helper()
			if f.handOver("a", at, age) {
				t.Errorf("it was taken %s", why)
			}
		}
		refused("before the engine ran", 1, 0)
		f.takes["handle"] = time.Second
		f.start()
		refused("when its lease was over", 1, record.HandoverLease)
		if !f.handOver("a", 1, record.HandoverLease-1) {
			t.Error("it was not taken in time")
		}
		refused("while it was handled", 1, 0)
		f.at(time.Minute)
		refused("when it was done", 1, 0)
		f.stop()
		f.at(time.Minute)
		refused("when the engine had ended", 2, 0)
		f.want("handle", "0s a")
	})
}

// What is handed over during a claim is younger than what that brings: it is handled behind it, and once.
func TestHandoverDuringAClaim(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.takes["claim"], f.takes["handle"] = 2*time.Millisecond, 10*time.Millisecond, time.Millisecond
		f.start("b", "c")
		f.at(5 * time.Millisecond)
		if !f.handOver("d", 1, 0) || f.handOver("d", 1, 0) || !f.handOver("e", 2, 0) {
			t.Error("they were not taken once each")
		}
		f.at(time.Second)
		f.want("handle", "10ms b", "11ms c", "12ms d", "13ms e")
	})
}

// While a NotNow asks for rest, what was on its way before is taken back: it would overtake what was released.
func TestHandoverDuringAPause(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.handler = refusing(0, time.Minute)
		f.start("a")
		f.at(time.Second)
		f.handOver("b", 1, 0)
		f.at(time.Second)
		f.want("release", "0s [a] and rest")
		f.want("handle", "0s a")
	})
}

// A hand-over that waits behind a hand that is stuck is released as what was claimed ahead is.
func TestHandoverIsStalled(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.takes["handle"] = time.Hour
		f.start("a")
		f.at(time.Second)
		f.handOver("b", 1, 0)
		f.at(time.Minute)
		f.want("release", "1.1s [b'] and rest")
		f.want("handle", "0s a")
	})
}

// A hand-over that was on its way when what was queued is released does not overtake that: it is released, too.
func TestHandoverBehindReleasedWork(t *testing.T) {
	for name, at := range map[string]time.Duration{
		"while it is released":           105 * time.Millisecond,
		"before it is claimed":           150 * time.Millisecond,
		"while some of it is claimed":    205 * time.Millisecond,
		"while one of two is being done": 215 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
				f.mean, f.handler = 2*time.Millisecond, stuckOn("a", 190*time.Millisecond, 20*time.Millisecond)
				f.takes["release"], f.takes["answer"] = 10*time.Millisecond, 10*time.Millisecond
				f.start("a", "b", "c")
				time.AfterFunc(at, func() { f.handOver("d", 1, 0) })
				f.at(time.Minute)
				f.want("handle", "10ms a", "210ms b", "240ms c", "270ms d")
			})
		})
	}
}

// What was handed over before the source rested, and arrives when the engine stops, is dropped: it was taken back.
func TestHandoverToOneThatStops(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.takes["release"] = 10 * time.Millisecond
		f.start()
		f.at(time.Second)
		f.stop()
		f.at(1005 * time.Millisecond)
		if f.handOver("a", 1, 0) {
			t.Error("it was taken")
		}
		f.at(time.Minute)
		f.want("release", "1.01s [] and rest")
		f.want("handle")
		f.want("end", "1.01s <nil>")
	})
}

// What is handed over while one is done at a time is released before the next claim, which it would overtake.
func TestHandoverBesideAProbe(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		tries := 0
		f.handler = func(ctx context.Context, id string) error {
			if tries++; tries == 1 {
				return NotNow(errBusy, time.Second)
			}
			return pass(ctx, 10*time.Millisecond)
		}
		f.start("a")
		f.at(1005 * time.Millisecond)
		f.handOver("b", 1, 0)
		f.at(time.Minute)
		f.want("release", "0s [a] and rest", "1.005s [b] and rest")
		f.want("handle", "0s a", "1s a", "1.01s b")
	})
}

// Who may PUBLISH can make up hand-overs: an engine takes no more than an inbox with room may have been sent.
func TestHandoversAreBounded(t *testing.T) {
	virtually(t, terms{concurrency: 2, ahead: 3}, func(t *testing.T, f *fake) {
		f.takes["handle"] = 150 * time.Millisecond
		f.start()
		took := 0
		for at := range int64(2 * record.MaxClaim) {
			if f.handOver(fmt.Sprint(at), at+1, 0) {
				took++
			}
		}
		if want := 2 + 3 + record.MaxClaim; took != want {
			t.Errorf("it took %d, want %d", took, want)
		}
		f.at(time.Hour)
		if !f.handOver("later", 1e6, 0) {
			t.Error("it took none when it had room")
		}
	})
}

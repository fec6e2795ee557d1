package subscribers

import (
	"context"
	"errors"
	"testing"
	"time"
)

// refusing returns a handler that returns a NotNow for each of the pauses, and then nil. Each call takes a while.
func refusing(takes time.Duration, pauses ...time.Duration) func(context.Context, string) error {
	left := make(chan time.Duration, len(pauses))
	for _, pause := range pauses {
		left <- pause
	}
	return func(ctx context.Context, _ string) error {
		if err := pass(ctx, takes); err != nil {
			return err
		}
		select {
		case pause := <-left:
			return NotNow(errBusy, pause)
		default:
			return nil
		}
	}
}

// With one hand a NotNow is followed by its pause, and nothing else has to wake the engine.
func TestNotNowPauses(t *testing.T) {
	for name, test := range map[string]struct {
		takes  time.Duration
		pauses []time.Duration
		want   []string // of the handler
	}{
		"one pause":                      {0, []time.Duration{time.Hour}, []string{"0s a", "1h0m0s a", "1h0m0s b"}},
		"as long again":                  {0, []time.Duration{time.Second, time.Second}, []string{"0s a", "1s a", "2s a", "2s b"}},
		"longer pauses":                  {0, []time.Duration{10 * time.Millisecond, time.Second, time.Minute}, []string{"0s a", "10ms a", "1.01s a", "1m1.01s a", "1m1.01s b"}},
		"from the end of the handler on": {time.Second, []time.Duration{time.Minute, time.Minute}, []string{"0s a", "1m1s a", "2m2s a", "2m3s b"}},
		"no pause":                       {time.Millisecond, []time.Duration{0, -time.Hour, 0}, []string{"0s a", "1ms a", "2ms a", "3ms a", "4ms b"}},
		"hardly one":                     {0, []time.Duration{1}, []string{"0s a", "1ns a", "1ns b"}},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
				f.handler = refusing(test.takes, test.pauses...)
				f.start("a", "b")
				f.at(10 * time.Hour)
				f.want("handle", test.want...)
				f.want("reject")
				f.wantLog(0, "level=WARN")
			})
		})
	}
}

// What was claimed behind the refused piece is released with it, before any of it is handled, and then nothing rings.
func TestNotNowReleasesWhatIsQueued(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean, f.handler = 2*time.Millisecond, refusing(10*time.Millisecond, time.Second)
		f.start("a", "b", "c", "d")
		f.at(500 * time.Millisecond)
		f.want("release", "10ms [a b c] and rest")
		f.add("e")
		f.at(1015 * time.Millisecond) // it probes
		f.want("claim", "0s 3 [a b c]", "1.01s 1 [a]")
	})
}

// A ring during the pause does not end it.
func TestNotNowOutlastsRings(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.handler = refusing(0, time.Minute)
		f.start("a")
		f.at(time.Second)
		signal(f.rung)
		f.at(time.Hour)
		f.want("claim", "0s 2 [a]", "1m0s 1 [a]", "1m0s 2 []")
	})
}

// Behind the pause one piece is claimed at a time, until one is dealt with: then all hands work again.
func TestNotNowProbes(t *testing.T) {
	for name, deal := range map[string]func() error{
		"it is done": func() error { return nil },
		"it fails":   func() error { return errBusy },
		"it panics":  func() error { panic("worse") },
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 4}, func(t *testing.T, f *fake) {
				f.handler = func(_ context.Context, id string) error {
					switch now := time.Since(f.began); {
					case now == 0: // one refuses after the other
						<-time.After(time.Duration(id[0]-'a'+1) * 10 * time.Millisecond)
						return NotNow(errBusy, time.Second)
					case now < 2*time.Second:
						return NotNow(errBusy, time.Second)
					}
					<-time.After(time.Minute)
					return deal()
				}
				f.start("a", "b", "c", "d", "e", "f")
				f.at(90 * time.Second)
				f.want("claim", "0s 4 [a b c d]", "1.04s 1 [a]", "2.04s 1 [a]", "1m2.04s 4 [b c d e]")
				f.want("release", "10ms [a] and rest", "20ms [b] and rest", "30ms [c] and rest", "40ms [d] and rest", "1.04s [a] and rest")
			})
		})
	}
}

// Work that hangs keeps no hand that is free from the next one: neither what is claimed nor what is handed over.
func TestNotNowProbesBesideWorkThatHangs(t *testing.T) {
	virtually(t, terms{concurrency: 3}, func(t *testing.T, f *fake) {
		f.handler = func(_ context.Context, id string) error {
			switch now := time.Since(f.began); {
			case id == "a":
				<-time.After(time.Hour)
			case now < 2*time.Second:
				<-time.After(10 * time.Millisecond)
				return NotNow(errBusy, time.Second)
			}
			return nil
		}
		f.start("a", "b", "c", "d", "e")
		f.at(2 * time.Second)
		f.want("claim", "0s 3 [a b c]", "1.01s 1 [b]")
		f.at(time.Minute)
		f.want("handle", "0s a", "0s b", "0s c", "1.01s b", "2.02s b", "2.02s c", "2.02s d", "2.02s e")
		f.at(2 * time.Hour)
	})
}

// Where all hands hang nothing is claimed until one is free.
func TestNotNowProbesNothingWithoutAHand(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.handler = func(_ context.Context, id string) error {
			switch now := time.Since(f.began); {
			case id == "a" || id == "c":
				<-time.After(time.Hour)
			case now < time.Second:
				return NotNow(errBusy, time.Second)
			}
			return nil
		}
		f.start("a", "b", "c", "d")
		f.at(30 * time.Minute)
		f.want("handle", "0s a", "0s b", "1s b", "1s c")
		f.at(3 * time.Hour)
		f.want("handle", "0s a", "0s b", "1s b", "1s c", "1h0m0s d")
	})
}

// The last NotNow decides, also where its pause is over earlier.
func TestLastNotNowDecides(t *testing.T) {
	virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
		f.handler = func(_ context.Context, id string) error {
			if time.Since(f.began) > 0 {
				return nil
			}
			if id == "b" {
				<-time.After(time.Second)
				return NotNow(errBusy, time.Second)
			}
			<-time.After(10 * time.Millisecond)
			return NotNow(errBusy, time.Hour)
		}
		f.start("a", "b")
		f.at(10 * time.Second)
		f.want("handle", "0s a", "0s b", "2s a", "2s b")
	})
}

// A claim that was under way brings what would overtake the refused piece: it is released. Where it brings nothing the source rests again.
func TestNotNowDuringAClaim(t *testing.T) {
	for name, test := range map[string]struct {
		come    []string
		release string
	}{
		"that brings some": {[]string{"b", "c"}, "90ms [b] and rest"},
		"that brings none": {nil, "90ms [] and rest"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
				f.takes["answer"], f.handler = 40*time.Millisecond, refusing(15*time.Millisecond, time.Minute)
				f.start("a")
				f.at(50 * time.Millisecond)
				f.add(test.come...)
				signal(f.rung)
				f.at(30 * time.Second)
				f.want("release", "55ms [a] and rest", test.release)
			})
		})
	}
}

// While nothing is claimed, what is done is still acknowledged: by a claim of none.
func TestNotNowHoldsUpNoAcknowledgement(t *testing.T) {
	virtually(t, terms{concurrency: 2, claimsSettle: true}, func(t *testing.T, f *fake) {
		f.handler = func(ctx context.Context, id string) error {
			if id == "a" {
				<-time.After(10 * time.Millisecond)
				return NotNow(errBusy, time.Hour)
			}
			return pass(ctx, 55*time.Second)
		}
		f.start("a", "b", "c")
		f.at(59 * time.Minute)
		f.want("claim", "0s 2 [a b]")
		f.want("ack", "55s [b''''']")
	})
}

// One that settled its piece itself may still say that nothing can be handled now.
func TestNotNowOfASettledPiece(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 500}, func(t *testing.T, f *fake) {
		f.mean = 2 * time.Millisecond
		f.handler = func(context.Context, string) error {
			for j := range f.leased {
				if j.work.id == "a" {
					f.settled(j)
				}
			}
			return NotNow(errBusy, time.Minute)
		}
		f.start("a", "b", "c")
		f.at(time.Second)
		f.want("release", "0s [b c] and rest")
		f.want("ack")
	})
}

// A pause holds up no stop.
func TestStopDuringAPause(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.handler = refusing(0, time.Hour)
		f.start("a")
		f.at(time.Minute)
		f.stop()
		f.at(time.Minute)
		f.want("end", "1m0s <nil>")
	})
}

// What is wrapped stays readable, and without an error there is one all the same.
func TestErrorOfNotNow(t *testing.T) {
	if err := NotNow(errBusy, time.Second); !errors.Is(err, errBusy) || err.Error() != errBusy.Error() {
		t.Errorf("got %v", err)
	}
	for _, refuse := range []func(error, time.Duration) error{NotNow, TryAnother, RetryAfter} {
		if err := refuse(nil, time.Second); err == nil || err.Error() == "" {
			t.Errorf("got %v", err)
		}
	}
}

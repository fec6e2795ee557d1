package belltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/carrier/belltest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	day  = 24 * time.Hour
	tick = time.Microsecond // of Redis's clock
)

// A message is handled at its due time: not a tick before, and not one later.
func TestDue(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(1, succeed)
		s.publish(
			notify.Message{ID: "now"},
			notify.Message{ID: "soon", Delay: time.Millisecond},
			notify.Message{ID: "later", Delay: 30 * time.Minute},
			notify.Message{ID: "by-time", Due: s.began.Add(day)},
			notify.Message{ID: "in-a-quarter", Delay: 90 * day},
		)
		s.until(30*time.Minute - tick)
		s.want("0s now 1", "1ms soon 1")
		s.until(30 * time.Minute)
		s.want("0s now 1", "1ms soon 1", "30m0s later 1")
		s.until(90 * day)
		s.want("0s now 1", "1ms soon 1", "30m0s later 1", "24h0m0s by-time 1", "2160h0m0s in-a-quarter 1")
	})
}

// One worker handles messages by their due times, then by their ids.
func TestOrder(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(1, take(time.Second))
		for _, id := range []string{"c", "a", "b"} {
			s.publish(notify.Message{ID: id, Delay: 2 * time.Minute})
		}
		s.publish(notify.Message{ID: "z", Delay: 2*time.Minute - time.Millisecond})
		s.until(day)
		s.want("1m59.999s z 1", "2m0.999s a 1", "2m1.999s b 1", "2m2.999s c 1")
	})
}

// Another attempt is made to the millisecond at the time that was drawn, or that the handler gave.
func TestBackoff(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		failed := errors.New("not yet")
		s.work(1, func(_ context.Context, d *subscribers.Delivery) error {
			switch {
			case d.ID == "given" && d.Attempt == 1:
				return subscribers.RetryAfter(failed, 10*time.Minute)
			case d.ID == "drawn" && d.Attempt < 4:
				return failed
			}
			return nil
		})
		s.publish(notify.Message{ID: "given"})
		s.until(day)
		want := []string{"0s given 1", "10m0s given 2"}
		s.want(want...)
		s.publish(notify.Message{ID: "drawn"})
		synctest.Wait()
		want = append(want, fmt.Sprint(day, " drawn 1"))
		for attempt := 2; attempt <= 4; attempt++ {
			due := s.inspect("drawn").Due
			s.until(due.Sub(s.began) - tick)
			s.want(want...)
			s.until(due.Sub(s.began))
			want = append(want, fmt.Sprint(due.Sub(s.began), " drawn ", attempt))
			s.want(want...)
		}
	})
}

// What a process had that is no more comes again when its lease ends.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		dead, err := subscribers.NewClaimer(s.store)
		must(t, err)
		s.publish(notify.Message{ID: "a"})
		s.until(time.Hour)
		got, err := dead.Claim(s.Context(), topic, subscribers.ClaimOptions{Lease: 90 * time.Second})
		if err != nil || len(got) != 1 {
			s.Fatal(got, err)
		}
		s.until(time.Hour + time.Minute)
		s.work(1, succeed)
		until := got[0].Until()
		s.until(until.Sub(s.began) - tick)
		s.want()
		s.until(until.Sub(s.began))
		s.want(fmt.Sprint(until.Sub(s.began), " a 2"))
		if left := until.Sub(s.began) - time.Hour - 90*time.Second; left < 0 || left >= 10*tick { // the last digit tells receipts apart
			s.Errorf("the lease lasts %v longer than 90 s", left)
		}
	})
}

// The lease of a handler is kept for as long as that runs, also by extensions that end at round times.
func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{30 * time.Second, 90 * time.Second, 100 * time.Second} {
		play(t, func(s *scene) {
			s.set(notify.SettingsChange{Lease: &lease})
			s.work(2, func(context.Context, *subscribers.Delivery) error {
				time.Sleep(10 * time.Minute)
				s.note("done")
				return nil
			})
			s.publish(notify.Message{ID: "a"})
			s.until(day)
			s.want("0s a 1", "10m0s done")
		})
	}
}

// What nobody handled within its time to live dies when that is over.
func TestTTL(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.publish(notify.Message{ID: "later", Delay: time.Hour, TTL: time.Hour})
		s.until(time.Minute)
		s.publish(notify.Message{ID: "now", TTL: time.Second})
		for _, one := range []struct {
			id   string
			ends time.Duration
		}{{"now", 61 * time.Second}, {"later", 2 * time.Hour}} {
			s.until(one.ends - tick)
			if info := s.inspect(one.id); info.State != notify.Ready || !info.Expires.Equal(s.began.Add(one.ends)) {
				s.Errorf("before its end it is %v, and expires at %v", info.State, info.Expires)
			}
			s.until(one.ends)
			if info := s.inspect(one.id); info.State != notify.Dead || !info.Died.Equal(s.began.Add(one.ends)) {
				s.Errorf("at its end it is %v, and died at %v", info.State, info.Died)
			}
		}
	})
}

// Of a key one message goes at a time.
func TestKeys(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(10, take(time.Minute))
		s.publish(notify.Message{ID: "a1", Key: "a", Delay: time.Hour}, notify.Message{ID: "a2", Key: "a", Delay: time.Hour + time.Second}, notify.Message{ID: "b1", Key: "b", Delay: time.Hour + 2*time.Second})
		s.until(day)
		s.want("1h0m0s a1 1", "1h0m2s b1 1", "1h1m0s a2 1")
	})
}

// No more messages of a topic are in hand than it allows, whoever has them.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.set(notify.SettingsChange{Concurrency: new(2)})
		for i := range 5 {
			s.publish(notify.Message{ID: fmt.Sprint(i), Delay: time.Hour + time.Duration(i)*time.Millisecond})
		}
		s.work(10, take(time.Minute))
		s.until(day)
		s.want("1h0m0s 0 1", "1h0m0.001s 1 1", "1h1m0s 2 1", "1h1m0.001s 3 1", "1h2m0s 4 1")
	})
}

// Messages of a topic come as its rate allows.
func TestRate(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		rate := record.PerSecond
		s.set(notify.SettingsChange{Rate: &rate})
		s.work(10, succeed)
		for i := range 4 {
			s.publish(notify.Message{ID: fmt.Sprint(i), Delay: time.Hour})
		}
		s.until(day)
		s.want("1h0m0s 0 1", "1h0m1s 1 1", "1h0m2s 2 1", "1h0m3s 3 1")
	})
}

// put puts a schedule of the topic.
func (s *scene) put(of store.Schedule) {
	s.Helper()
	of.Topic = topic
	_, _, err := s.store.Of(topic).PutSchedule(s.Context(), &of, store.AnyRevision)
	must(s.T, err)
}

// A schedule fires by the clock on the wall, also in the nights in which that is set.
func TestScheduleOverSummerTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		at   time.Time
		want []string
	}{
		{
			time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC),
			[]string{"1h30m0s job~2026-03-28T01:30:00Z 1", "25h0m0s job~2026-03-29T01:00:00Z 1", "48h30m0s job~2026-03-30T00:30:00Z 1"}, // there is no 2:30: at 3:00
		}, {
			time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC),
			[]string{"30m0s job~2026-10-24T00:30:00Z 1", "24h30m0s job~2026-10-25T00:30:00Z 1", "49h30m0s job~2026-10-26T01:30:00Z 1"}, // the first 2:30 of two
		},
	} {
		play(t, func(s *scene) {
			s.work(1, succeed)
			s.put(store.Schedule{Name: "job", Spec: calendar.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}})
			s.until(3 * day)
			s.want(test.want...)
		}, belltest.Options{At: test.at})
	}
}

// Of the occurrences that were missed while no carrier ran, the latest is made when one comes.
func TestMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := over(t, belltest.Open(t))
		stop := belltest.Run(t, s.store)
		s.work(1, succeed)
		s.put(store.Schedule{Name: "job", Spec: calendar.Spec{Every: time.Hour}})
		s.until(90 * time.Minute)
		stop()
		s.until(day + 30*time.Minute)
		s.want("1h0m0s job~2000-01-01T01:00:00Z 1")
		belltest.Run(t, s.store)
		s.until(day + 90*time.Minute)
		s.want("1h0m0s job~2000-01-01T01:00:00Z 1", "24h30m0s job~2000-01-02T00:00:00Z 1", "25h0m0s job~2000-01-02T01:00:00Z 1")
	})
}

// Who awaits the end of a message gets it at once.
func TestAwait(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(1, func(ctx context.Context, d *subscribers.Delivery) error {
			time.Sleep(time.Minute)
			_, err := d.AckWith(ctx, notify.AckResult{Body: []byte("42"), Keep: time.Hour})
			return err
		})
		s.publish(notify.Message{ID: "a", Delay: time.Hour})
		s.run(func(ctx context.Context) error {
			info, err := s.inspector.Await(ctx, topic, "a")
			s.note(info.State, " ", string(info.Result))
			return err
		})
		s.until(day)
		s.want("1h0m0s a 1", "1h1m0s done 42")
	})
}

// A listener that was away gets what it missed when it is back, and what is sent from then on in time.
func TestListenerThatWasAway(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		listener, err := subscribers.NewListener(s.store, subscribers.ListenerOptions{Logger: s.log})
		must(t, err)
		var last subscribers.Bookmark
		listen := func(from subscribers.From) (stop func()) {
			ctx, stop := context.WithCancel(s.Context())
			go func() {
				err := listener.Listen(ctx, topic, func(_ context.Context, b *subscribers.Broadcast) error {
					s.note(b.ID)
					last = b.Bookmark()
					return nil
				}, subscribers.ListenOptions{From: from})
				if err != nil {
					s.Error(err)
				}
			}()
			synctest.Wait()
			return stop
		}
		for i := range 4 {
			s.publish(notify.Message{ID: fmt.Sprint(i), Broadcast: true, Delay: time.Duration(i+1) * time.Hour})
		}
		stop := listen(subscribers.FromNow())
		s.until(90 * time.Minute)
		stop()
		s.until(3*time.Hour + 30*time.Minute)
		s.want("1h0m0s 0")
		listen(subscribers.After(last))
		s.until(day)
		s.want("1h0m0s 0", "3h30m0s 1", "3h30m0s 2", "4h0m0s 3")
	})
}

// A cancel with a stop ends the handler.
func TestCancelWithStop(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(1, func(ctx context.Context, _ *subscribers.Delivery) error {
			<-ctx.Done()
			s.note(context.Cause(ctx))
			return nil
		})
		s.publish(notify.Message{ID: "a"})
		s.until(10 * time.Minute)
		if was, err := s.publisher.Cancel(s.Context(), topic, "a", store.CancelOptions{Stop: true}); err != nil || was != notify.Leased {
			s.Errorf("it was %v, %v", was, err)
		}
		s.until(day)
		s.want("0s a 1", fmt.Sprint("10m0s ", store.ErrCancelled))
	})
}

// A pause ends when it is to end.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(1, succeed)
		_, err := store.PauseUntil(s.Context(), s.store, topic, store.In(time.Hour))
		must(t, err)
		s.publish(notify.Message{ID: "a", Delay: time.Minute})
		s.until(day)
		s.want("1h0m0s a 1")
	})
}

// An id stays taken for its time behind the end of its message.
func TestUniqueFor(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		s.work(1, take(time.Minute))
		m := notify.Message{Topic: topic, ID: "a", UniqueFor: time.Hour}
		s.publish(m)
		s.until(time.Hour + time.Minute - tick)
		if _, err := s.publisher.Publish(s.Context(), m); !errors.Is(err, notify.ErrExists) {
			s.Errorf("a tick before: %v", err)
		}
		s.until(time.Hour + time.Minute)
		s.publish(m)
		s.until(day)
		s.want("0s a 1", "1h1m0s a 1")
	})
}

// What is put off comes again when it is to, and has used up no attempt.
func TestSnooze(t *testing.T) {
	t.Parallel()
	play(t, func(s *scene) {
		snoozed := false
		s.work(1, func(context.Context, *subscribers.Delivery) error {
			if snoozed {
				return nil
			}
			snoozed = true
			return subscribers.Snooze(45 * time.Minute)
		})
		s.publish(notify.Message{ID: "a", Delay: time.Hour})
		s.until(day)
		s.want("1h0m0s a 1", "1h45m0s a 1")
	})
}

package push_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A subject on which nobody listens is asked once a second, and a hundred of them ten times a second, each in its turn.
func TestUnheardTakeTurns(t *testing.T) {
	t.Parallel()
	for subjects, asksASecond := range map[int]int{1: 1, 5: 5, 10: 10, 100: 10} {
		synctest.Test(t, func(t *testing.T) {
			var u push.Unheard
			var mu sync.Mutex
			asked := make(map[string]int)
			began := time.Now()
			var at []time.Duration
			for i := range subjects {
				go func() {
					subject := fmt.Sprint("jobs.", i)
					for time.Since(began) < time.Minute {
						for range 32 { // in flight, when it is found
							if wait := u.Again(subject); wait < time.Second || wait != u.Wait(subject) {
								t.Errorf("of %d subjects one is asked again after %v", subjects, wait)
							}
						}
						time.Sleep(u.Wait(subject))
						mu.Lock()
						asked[subject]++
						at = append(at, time.Since(began))
						mu.Unlock()
					}
				}()
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for i := range subjects {
				if n, want := asked[fmt.Sprint("jobs.", i)], 60*asksASecond/subjects; n < want-1 || n > want+1 {
					t.Errorf("of %d subjects one was asked %d times in a minute, want %d", subjects, n, want)
				}
			}
			slices.Sort(at)
			for i := asksASecond; i < len(at); i++ {
				if at[i]-at[i-asksASecond] < time.Second {
					t.Fatalf("of %d subjects more than %d were asked within a second, at %v", subjects, asksASecond, at[i])
				}
			}
		})
	}
}

// A subject that is heard is asked at once.
func TestHeardAgain(t *testing.T) {
	t.Parallel()
	var u push.Unheard
	u.Again("jobs.a")
	u.Again("jobs.b")
	u.Forget("jobs.a")
	if u.Wait("jobs.a") != 0 || u.Wait("jobs.b") == 0 || u.Wait("jobs.c") != 0 {
		t.Error("another subject is asked at once")
	}
}

// A subject is forgotten with the topics that were pushed there.
func TestUnheardIsForgotten(t *testing.T) {
	t.Parallel()
	p, err := push.New(storetest.Open(t), push.Options{})
	storetest.Must(t, err)
	u := push.UnheardOf(p)
	u.Again("jobs.a")
	push.Sweep(p)
	if wait := u.Wait("jobs.a"); wait != 0 {
		t.Errorf("it is not asked for %v", wait)
	}
}

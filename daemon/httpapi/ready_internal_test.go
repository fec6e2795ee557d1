package httpapi

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Those who ask while somebody looks wait for that, and so do those who ask soon after; also where the look panics.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lookout
		n := 0
		see := func(seen *look) {
			n++
			time.Sleep(time.Second) // virtual
			seen.err = nil
		}
		var asking sync.WaitGroup
		for range 30 {
			asking.Go(func() {
				if seen := l.look(see); seen.err != nil {
					t.Error(seen.err)
				}
			})
		}
		asking.Wait()
		time.Sleep(readyFor / 2)
		if l.look(see); n != 1 {
			t.Errorf("there were %d looks", n)
		}
		time.Sleep(readyFor)
		func() {
			defer func() { _ = recover() }()
			l.look(func(*look) { n++; panic("in vain") })
		}()
		if seen := l.look(see); n != 2 || !errors.Is(seen.err, errNotReady) {
			t.Errorf("after one that panicked: %d looks, %v", n, seen.err)
		}
	})
}

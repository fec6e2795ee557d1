package subscribers

import (
	"testing"
	"testing/synctest"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// A caller whose wait ends during a claim for it is answered as soon as its queue is served no more. It does not wait as for a hand-over that
// is lost.
func TestCallerLeavesOnceItsQueueIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w waiters
		w.init(nil, reach.Inbox{}, t.Context())
		q := w.queue("t")
		q.served = true // by the test
		one := &waiter{max: 1, done: make(chan result, 1)}
		if err := w.enter(one, [][]string{{"t"}}); err != nil || w.nextCall(q) == nil {
			t.Fatal("no claim is under way for it:", err)
		}
		left := make(chan error, 1)
		go func() {
			_, err := w.leave(t.Context(), one)
			left <- err
		}()
		synctest.Wait()
		w.answer(q, queueClaim{}, claimed{unreadable: make([]badRecord, 1)}) // which brings it nothing, and its inbox does not wait
		synctest.Wait()
		if len(left) > 0 {
			t.Error("it leaves while its queue is served")
		}
		if w.nextCall(q) != nil {
			t.Fatal("its queue is served on")
		}
		synctest.Wait()
		if len(left) == 0 {
			t.Error("it waits on")
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
	})
}

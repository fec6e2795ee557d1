package push

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// While one request to an endpoint that fails hangs, others wait as long as behind one that fails at once: their topics do not ask Redis
// every second.
func TestEnterBesideARequestThatHangs(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration]time.Duration{0: leastPause, 8 * time.Second: 8 * time.Second, mostPause: mostPause} {
		one := newTarget(store.Push{Name: "crm", Failing: &store.PushFailure{Since: time.Now()}}, nil, nil)
		one.pause = pause
		if wait, only := one.enter(); wait != 0 || !only {
			t.Errorf("after %v the first waits %v, %v", pause, wait, only)
		}
		if wait, only := one.enter(); wait != want || only {
			t.Errorf("after %v another waits %v, %v", pause, wait, only)
		}
	}
}

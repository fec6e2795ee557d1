// Package belltest tests programs that wait: for a reminder after half an hour, a retry after ten, a job on each first of the month.
// [New] returns a store in the memory of the test, with a carrier. Nothing in it is simulated: the scripts, the leases and
// the carrier are those of every store.
//
//	func TestReminder(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			store := belltest.New(t)
//			shop := NewShop(store) // the program that is tested; its workers run
//			shop.Order(t.Context(), "4711")
//			time.Sleep(30 * time.Minute) // due times, leases, backoffs and schedules pass with it
//			synctest.Wait()              // the handlers are done
//			if !shop.Reminded("4711") {
//				t.Error("no reminder")
//			}
//		})
//	}
//
// # Networks
//
// In a bubble of testing/synctest time stands while one of its goroutines runs, or waits for anything outside of the bubble. A handler that
// asks a real database takes no time, therefore; but time stands for good while a goroutine waits that was started in the bubble and waits
// for a network: a listener, an idle connection of HTTP, a driver that watches its connections. The test hangs then, until go test ends it
// with "panic: test timed out after 10m0s", and the list of goroutines shows one "[IO wait, synctest bubble 1]" that is to blame. So
//
//   - open databases before synctest.Test, and have them make their connections there;
//   - set DisableKeepAlives in an http.Transport, or put a fake http.RoundTripper in its place;
//   - call an http.Handler with an httptest.ResponseRecorder, or over net.Pipe, in place of a server that listens;
//   - open no store of a URL in the bubble: pass the one of New on.
//
// A store of New belongs to the bubble in which New was called.
//
// # Time
//
// A bubble begins at midnight UTC on 2000-01-01. With [Options.At] New sleeps until another time, such as the night in which the clocks go forward:
// it costs nothing, for nothing runs yet. Redis's clock is that of the bubble, and so is the clock of the program, so what is due in 30
// minutes is delivered exactly then:
//
//	time.Sleep(30*time.Minute - time.Microsecond)
//	synctest.Wait() // not yet
//	time.Sleep(time.Microsecond)
//	synctest.Wait() // now
//
// Without the second Wait the handler may still run. What is drawn at random remains so: the backoff of a failed
// message, [notify.Message.Spread], ids. A test of these sets the bounds (subscribers.HandleOptions.Backoff), or asks for the time
// that was drawn (notify.Inspector).
//
// # The store
//
// The carrier beats once a week, since nothing in memory loses a ring, which beats are for, and it looks at what each call did; an hour, a
// day or a year in which nothing is due pass in milliseconds. So what tells only with a beat, such as the history of a store and what its workers are there for, comes
// late. A carrier of the program's own stands by. A Redis in memory holds one shard, and has no replicas to wait for.
//
// Outside of a bubble New returns a store in memory, too, with a carrier that beats as any does, in real time: for tests that need a network.
package belltest

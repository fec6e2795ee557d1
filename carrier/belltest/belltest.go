package belltest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// beat is how often the carrier of a test beats.
const beat = 7 * 24 * time.Hour

// Options are the options of New. The zero value is the default.
type Options struct {
	At      time.Time       // at which the test begins; in a bubble alone; zero: now
	Logger  *slog.Logger    // of the carrier; nil: the output of the test
	Carrier carrier.Options // but Lease and Sweep
}

// New returns a store in the memory of a test, in which a carrier runs. When the test ends, that is stopped, and the store is closed:
// end what works on it before, or with the context of the test. Where an option is wrong the test fails.
func New(t testing.TB, options ...Options) *notify.Store {
	t.Helper()
	o, err := store.Option(options)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		t.Fatal("belltest: ", err)
	}
	time.Sleep(time.Until(o.At))
	s := open(t)
	run(t, s, o)
	return s
}

// check returns the fault of an option.
func (o Options) check() error {
	switch {
	case o.Carrier.Lease != 0:
		return fault.New("lease", "lease of the carrier: it is three of its beats in a test; leave it out")
	case o.Carrier.Sweep != 0:
		return fault.New("sweep", "sweep of the carrier: it is one of its beats in a test; leave it out")
	case o.At.IsZero():
		return nil
	case !settle():
		return fault.New("at", "at: the time is that of the machine; call New in a bubble (synctest.Test), or leave it out")
	case o.At.Before(time.Now()):
		return fault.New("at", "at %v: it is %v already, and the time of a bubble, which begins in 2000, cannot be set back; give a later time",
			o.At.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// open returns a store in memory.
func open(t testing.TB) *notify.Store {
	t.Helper()
	server := memory.New()
	t.Cleanup(server.Stop)
	config := notify.Config{URL: server.URL(), Dial: server.Dial}
	openStore := notify.Open
	if settle() { // outside of a bubble, where calls may time out, beats cost nothing
		openStore = func(c notify.Config) (*notify.Store, error) { return store.OpenCalm(c, beat) }
	}
	s, err := openStore(config)
	if err != nil {
		t.Fatal("belltest: ", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// run runs a carrier until it is stopped, or the test ends.
func run(t testing.TB, s *notify.Store, o Options) (stop func()) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if o.Carrier.Logger == nil {
		o.Carrier.Logger = o.Logger
	}
	c, err := carrier.New(s, o.Carrier)
	if err != nil {
		t.Fatal("belltest: ", err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		settle() // what ends with the context of the test
		end()
		if err := <-ended; err != nil {
			t.Error("belltest: the carrier: ", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// settle waits until all other goroutines of the bubble wait, and reports whether there is a bubble.
func settle() (isBubble bool) {
	defer func() { _ = recover() }() // of Wait, outside of one
	synctest.Wait()
	return true
}

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// stages records what parts do, in order.
type stages struct {
	mu  sync.Mutex
	all []string
}

func (s *stages) note(stage string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, stage)
}

// part returns a part that runs until its context ends or fail is closed, and takes some time to quiesce.
func (s *stages) part(name string, fail chan struct{}, quiet time.Duration) part {
	return part{
		name: name,
		run: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				s.note("stop " + name)
				return nil
			case <-fail:
				return errors.New(name + " failed")
			}
		},
		quiesce: func(ctx context.Context) {
			select {
			case <-time.After(quiet):
			case <-ctx.Done():
			}
			s.note("quiet " + name)
		},
	}
}

// All parts quiesce at the same time, within half of the time to stop, and then stop in
// order: on a requested stop, and when one of them fails.
func TestPartsStop(t *testing.T) {
	for _, failing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var got stages
			fail := make(chan struct{})
			all := parts{
				{name: "of a term alone"},
				got.part("a", nil, 3*time.Second), got.part("b", nil, time.Second), got.part("c", fail, time.Hour),
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			began := time.Now()
			go func() { ended <- all.run(ctx, 10*time.Second, slog.New(slog.DiscardHandler)) }()
			want := []string{"quiet b", "quiet a", "quiet c", "stop a", "stop b", "stop c"}
			if failing {
				close(fail)
				want = want[:len(want)-1]
			} else {
				stop()
			}
			if err := <-ended; (err != nil) != failing || failing && err.Error() != "c failed" {
				t.Errorf("they end with %v", err)
			}
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("they end after %v, want 5s", took)
			}
			if diff := cmp.Diff(want, got.all); diff != "" {
				t.Errorf("failing: %v (-want +got):\n%s", failing, diff)
			}
		})
	}
}

// Stuck loops and failed reloads of all parts are reported.
func TestPartsReport(t *testing.T) {
	var all parts
	storetest.Should(t, errors.Join(all.alive(), all.reload()))
	a, b := errors.New("a"), errors.New("b")
	report := func(err error) func() error { return func() error { return err } }
	all = parts{{}, {alive: report(a), reload: report(b)}, {alive: report(nil)}, {alive: report(b), reload: report(a)}}
	if got := []string{all.alive().Error(), all.reload().Error()}; !slices.Equal(got, []string{"a\nb", "b\na"}) {
		t.Errorf("got %q", got)
	}
}

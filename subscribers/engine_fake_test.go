package subscribers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

var (
	errAway = fmt.Errorf("redis is away: %w", io.EOF) // may be over the next time
	errOver = errors.New("the source has ended")      // ends an engine
	errBusy = errors.New("no time")                   // of a handler
)

// A piece is the work of a fake. With each extension of its lease it has another receipt.
type piece struct {
	id              string
	number, receipt int
}

func (p piece) String() string { return p.id + strings.Repeat("'", p.receipt) }

// A fake is a source of pieces and the engine that handles them, in the virtual time of a
// test. It rings as Redis does: once, after a claim that brought less than was wanted, unless
// it rests. It notes what is called when.
type fake struct {
	*engine[piece]
	t     *testing.T
	began time.Time
	ctx   context.Context // of the engine, and of those beside it
	stop  context.CancelFunc

	handler func(ctx context.Context, id string) error // nil: it takes what takes says
	takes   map[string]time.Duration                   // of calls, by their kind, until they are carried out; "answer": of a claim, afterwards
	fault   func(kind string, n int) error             // of the nth call of a kind; nil: none fails
	length  time.Duration                              // of the lease that a claim gives
	most    time.Duration                              // with all extensions
	after   time.Duration                              // in which to claim again
	lost    map[string]bool                            // whose leases are lost
	over    map[string]bool                            // which are cancelled: their release ends them

	mu     sync.Mutex
	made   int     // pieces
	ready  []piece // in the order in which they were made
	waits  bool    // it rings when there is something ready
	drops  int     // hand-overs that the engine dropped; guarded by its mutex
	rested atomic.Bool
	count  map[string]int
	notes  map[string][]string // by kind
	logged bytes.Buffer
}

// virtually runs a test in virtual time, with a fake that has not been started.
func virtually(t *testing.T, limits terms, test func(t *testing.T, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, began: time.Now()}
		f.ctx, f.stop = context.WithCancel(t.Context())
		if limits.grace == 0 {
			limits.grace = time.Minute
		}
		f.make(new(hands[piece]), limits)
		test(t, f)
	})
}

// beside returns a fake of another shard: both have the same hands.
func (f *fake) beside() *fake {
	other := &fake{t: f.t, began: f.began, ctx: f.ctx, stop: f.stop}
	other.make(f.hands, f.terms)
	return other
}

func (f *fake) make(h *hands[piece], limits terms) {
	f.takes, f.length = make(map[string]time.Duration), 30*time.Second
	f.lost, f.over, f.count, f.notes = make(map[string]bool), make(map[string]bool), make(map[string]int), make(map[string][]string)
	f.engine = h.engine(source[piece]{
		claim: f.claimPieces, handle: f.handlePiece, ack: f.ackPieces, release: f.releasePieces, extend: f.extendPieces,
		lease: func(*piece) (lease, most time.Duration) { return f.length, f.most },
		ends:  func(err error) bool { return errors.Is(err, errOver) || errors.Is(err, reach.ErrUnfit) },
		about: func(p *piece) []any { return []any{"id", p.id} },
		noun:  "piece", dropped: func() { f.drops++ },
	}, limits, make(chan struct{}, 1), slog.New(slog.NewTextHandler(&f.logged, nil)))
}

// start starts the engine with pieces that are ready. The test ends it.
func (f *fake) start(ids ...string) {
	f.add(ids...)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.note("end", "%v", f.run(f.ctx))
	}()
	f.t.Cleanup(func() {
		f.stop()
		<-ended
	})
	signal(f.rung)
	synctest.Wait()
}

// at waits until so long after the beginning, and until all that happens then has happened.
func (f *fake) at(d time.Duration) {
	f.t.Helper()
	if left := time.Until(f.began.Add(d)); left < 0 {
		f.t.Fatalf("it is %v later than %v", -left, d)
	}
	pass(context.Background(), time.Until(f.began.Add(d)))
	synctest.Wait()
}

// pass lets time pass until ctx ends, and returns why that did.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add makes pieces that are ready at once.
func (f *fake) add(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		f.made++
		f.ready = append(f.ready, piece{id: id, number: f.made})
	}
	f.ring()
}

// ring rings if somebody waits and something is ready. The mutex is held.
func (f *fake) ring() {
	if f.waits && len(f.ready) > 0 {
		f.waits = false
		signal(f.rung)
	}
}

// note notes what happens now.
func (f *fake) note(kind, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes[kind] = append(f.notes[kind], fmt.Sprint(time.Since(f.began), " ", fmt.Sprintf(format, args...)))
}

// want checks all that happened of a kind, with the time of each. What several hands
// began at the same time is in the order of its text.
func (f *fake) want(kind string, all ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	got := slices.Clone(f.notes[kind])
	if f.concurrency > 1 {
		at := func(note string) string { return strings.Fields(note)[0] }
		for i := range got {
			for j := i; j > 0 && at(got[j]) == at(got[j-1]) && got[j] < got[j-1]; j-- {
				got[j], got[j-1] = got[j-1], got[j]
			}
		}
	}
	if diff := cmp.Diff(strings.Join(all, "\n"), strings.Join(got, "\n")); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", kind, diff)
	}
}

// wantLog checks how many lines the log has with some words.
func (f *fake) wantLog(n int, words string) {
	f.t.Helper()
	if got := strings.Count(f.logged.String(), words); got != n {
		f.t.Errorf("%d times it logged %q, want %d:\n%s", got, words, n, f.logged.String())
	}
}

// call makes a call of a kind, which takes a while and may fail.
func (f *fake) call(ctx context.Context, kind string) error {
	if err := pass(ctx, f.takes[kind]); err != nil {
		return err
	}
	f.mu.Lock()
	f.count[kind]++
	n := f.count[kind]
	f.mu.Unlock()
	if f.fault != nil {
		if err := f.fault(kind, n); err != nil {
			f.note(kind, "failed")
			return err
		}
	}
	return nil
}

func (f *fake) claimPieces(ctx context.Context, n int, done []piece) (batch[piece], error) {
	before := f.mailboxNow()
	if err := f.call(context.WithoutCancel(ctx), "claim"); err != nil {
		return batch[piece]{}, err
	}
	f.mu.Lock()
	got := slices.Clone(f.ready[:min(n, len(f.ready))])
	f.ready = f.ready[len(got):]
	f.waits = f.waits || len(got) < n
	more := n == 0 && len(f.ready) > 0 || n > 0 && len(got) == n
	f.mu.Unlock()
	if n > 0 {
		f.note("claim", "%d %v", n, got)
	}
	if len(done) > 0 {
		f.note("ack", "%v", done)
	}
	_ = pass(context.WithoutCancel(ctx), f.takes["answer"])
	f.found(1, before)
	return batch[piece]{work: got, more: more, again: f.after}, nil
}

func (f *fake) handlePiece(grace context.Context, j *job[piece], p piece) bool {
	verdict, reason, _ := f.try(grace, j, &p, func(ctx context.Context) error {
		f.note("handle", "%s", p.id)
		if f.handler != nil {
			return f.handler(ctx, p.id)
		}
		return pass(ctx, f.takes["handle"])
	})
	if verdict == hasFailed {
		_ = f.settle(grace, []*job[piece]{j}, func(ctx context.Context) error {
			err := f.call(ctx, "reject")
			if err == nil {
				f.note("reject", "%s: %s", p.id, reason)
			}
			return err
		})
	}
	return verdict == isDone
}

func (f *fake) ackPieces(ctx context.Context, done []piece) (lost []piece, err error) {
	if err := f.call(ctx, "ack"); err != nil {
		return nil, err
	}
	f.note("ack", "%v", done)
	return slices.DeleteFunc(done, func(p piece) bool { return !f.lost[p.id] }), nil
}

func (f *fake) releasePieces(ctx context.Context, back []*job[piece], rest bool) error {
	if rest {
		f.leaves()
		f.rested.Store(true)
	}
	if err := f.call(ctx, "release"); err != nil {
		return err
	}
	f.note("release", "%v %v", works(back), map[bool]string{true: "and rest", false: "and go on"}[rest])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = append(f.ready, slices.DeleteFunc(works(back), func(p piece) bool { return f.over[p.id] })...)
	slices.SortFunc(f.ready, func(a, b piece) int { return a.number - b.number })
	f.waits = f.waits && !rest
	f.ring()
	return nil
}

func (f *fake) extendPieces(ctx context.Context, all []piece, lease time.Duration) (got extension[piece], err error) {
	if err := f.call(ctx, "extend"); err != nil {
		return got, err
	}
	ids := make([]string, len(all))
	for i, p := range all {
		if ids[i] = p.id; f.lost[p.id] {
			got.lost = append(got.lost, i)
		} else if f.over[p.id] {
			got.stopped = append(got.stopped, i)
		}
	}
	slices.Sort(ids)
	f.note("extend", "%v by %v", ids, lease)
	got.renew = func(_ int, p *piece) { p.receipt++ }
	return got, nil
}

// handOver hands a piece over that has been on its way for some time, and reports
// whether the engine took it. One that a release took back is ready again.
func (f *fake) handOver(id string, at int64, age time.Duration) bool {
	f.mu.Lock()
	f.made++
	p := piece{id: id, number: f.made}
	f.mu.Unlock()
	j := &job[piece]{work: p, at: 1 + at, sent: time.Now().Add(-age), lease: record.HandoverLease, confirm: f.length}
	defer signal(f.rung)
	before, from := f.dropsAndFrom()
	f.hand(j, age < record.HandoverLease)
	after, _ := f.dropsAndFrom()
	if after > before && from == 0 && f.rested.Load() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ready = append(f.ready, p)
	}
	return after == before
}

// dropsAndFrom returns how many hand-overs the engine dropped, and from when on they are good.
func (f *fake) dropsAndFrom() (drops int, from int64) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.drops, f.box.from
}

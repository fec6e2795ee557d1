package crash_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

const topic = "orders"

// inTime has a process not be Patient: hand-overs lapse when those of users do.
const inTime = "CRASH_IN_TIME=1"

// The test binary also runs as the processes under test: CRASH_ROLE names the role.
func TestMain(m *testing.M) {
	role := os.Getenv("CRASH_ROLE")
	if role == "" {
		storetest.Main(m)
		return
	}
	if os.Getenv(strings.TrimSuffix(inTime, "=1")) == "" {
		storetest.Patient()
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role string) error {
	store, err := notify.Open(notify.Config{URL: os.Getenv("CRASH_URL"), Prefix: os.Getenv("CRASH_PREFIX")})
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	switch role {
	case "carrier":
		lease, _ := time.ParseDuration(os.Getenv("CRASH_LEASE")) // zero, if none is set: the default
		c, err := carrier.New(store, carrier.Options{Name: os.Getenv("CRASH_NAME"), Lease: lease, Logger: logger})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	case "worker":
		return work(ctx, store, logger)
	case "publisher":
		return publish(ctx, store)
	case "bookings":
		return publishEntries(ctx, store)
	case "bookkeeper":
		return enterEntries(ctx, store, logger)
	case "row-publisher":
		return publishNumbers(ctx, store, publishImport)
	case "row-worker":
		return workOnImports(ctx, store, logger)
	case "signup-publisher":
		return publishNumbers(ctx, store, publishSignup)
	case "signup-worker":
		return workOnSignups(ctx, store, logger)
	case "listener":
		return listenAs(ctx, store, logger)
	case "daemon":
		c, err := daemon.Load(os.Environ())
		if err != nil {
			return err
		}
		return daemon.Run(ctx, c, daemon.Options{Logger: logger})
	}
	return fmt.Errorf("no role %q", role)
}

// publish publishes messages one by one, and prints the id of each when it is acknowledged.
func publish(ctx context.Context, store *notify.Store) error {
	pub, err := notify.NewPublisher(store)
	if err != nil {
		return err
	}
	for i := 0; ctx.Err() == nil; i++ {
		m := notify.Message{Topic: topic, ID: fmt.Sprintf("m%06d", i), Body: []byte("x"), Delay: 100 * time.Millisecond}
		if _, err := pub.Publish(ctx, m); err != nil {
			return err
		}
		fmt.Println(m.ID)
	}
	return nil
}

// work prints a line for each message when its handler begins.
func work(ctx context.Context, store *notify.Store, logger *slog.Logger) error {
	handle, err := printing()
	if err != nil {
		return err
	}
	sub, err := subscribers.NewSubscriber(store, subscribers.SubscriberOptions{Logger: logger})
	if err != nil {
		return err
	}
	err = sub.Handle(topic, func(ctx context.Context, d *subscribers.Delivery) error {
		return handle(ctx, d.ID, d.Attempt, d.Due)
	}, subscribers.HandleOptions{Concurrency: 16})
	if err != nil {
		return err
	}
	return sub.Run(ctx)
}

// listenAs listens under a name, and prints a line for each broadcast when its handler begins.
func listenAs(ctx context.Context, store *notify.Store, logger *slog.Logger) error {
	handle, err := printing()
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(os.Getenv("CRASH_LEASE"))
	if err != nil {
		return err
	}
	l, err := subscribers.NewListener(store, subscribers.ListenerOptions{Logger: logger})
	if err != nil {
		return err
	}
	return l.Listen(ctx, ">", func(ctx context.Context, b *subscribers.Broadcast) error {
		return handle(ctx, b.ID, b.Attempt, b.Due)
	}, subscribers.ListenOptions{Name: os.Getenv("CRASH_NAME"), Concurrency: 16, Lease: lease})
}

// printing returns a handler that prints a line as it begins, and takes CRASH_PAUSE. With CRASH_KILL=n the process kills itself as the
// nth begins, so that it has a lease then.
func printing() (func(ctx context.Context, id string, attempt int, due time.Time) error, error) {
	pause, err := time.ParseDuration(os.Getenv("CRASH_PAUSE"))
	if err != nil {
		return nil, err
	}
	left, _ := strconv.Atoi(os.Getenv("CRASH_KILL")) // zero, if none is set: never
	var mu sync.Mutex
	return func(ctx context.Context, id string, attempt int, due time.Time) error {
		mu.Lock()
		fmt.Printf("%s %d %d\n", id, attempt, time.Since(due).Microseconds())
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			return nil
		}
	}, nil
}

// A process is the test binary in a role.
type process struct {
	*exec.Cmd
	t     *testing.T
	ended chan struct{}
	log   storetest.Log // of standard error
}

// start starts a process on a store, and calls line with each line that it prints.
func start(t *testing.T, store *notify.Store, role string, line func(string), env ...string) *process {
	t.Helper()
	env = append([]string{"CRASH_ROLE=" + role, "CRASH_URL=" + store.Address(), "CRASH_PREFIX=" + store.Keys().Prefix()}, env...)
	return launch(t, exec.Command(os.Args[0]), line, env...)
}

// launch starts a process of a program, and calls line with each line that it prints.
func launch(t *testing.T, program *exec.Cmd, line func(string), env ...string) *process {
	t.Helper()
	p := &process{Cmd: program, t: t, ended: make(chan struct{})}
	p.Env, p.Stderr = append(os.Environ(), env...), &p.log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.StdoutPipe()
	storetest.Must(t, err)
	storetest.Must(t, p.Start())
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			line(lines.Text())
		}
		_ = p.Wait() // a killed process is no error here
		close(p.ended)
	}()
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal and waits for the end of the process.
func (p *process) end(sig syscall.Signal) {
	p.t.Helper()
	_ = p.Process.Signal(sig) // it may have ended already
	storetest.Receive(p.t, "the process ends", p.ended)
}

// state returns the state of the process as the kernel writes it: T is stopped.
func (p *process) state(t *testing.T) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	storetest.Must(t, err)
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:1]
}

// ledger records which messages were handled.
type ledger struct {
	mu      sync.Mutex
	handled map[string][]int     // id → attempts
	claimed map[string]time.Time // id → when it was claimed last, of workers in this process
	early   []string
}

func newLedger() *ledger {
	return &ledger{handled: make(map[string][]int), claimed: make(map[string]time.Time)}
}

// line records a line that a worker printed.
func (l *ledger) line(text string) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return // cut off by kill -9
	}
	attempt, _ := strconv.Atoi(fields[1])
	late, _ := strconv.ParseInt(fields[2], 10, 64)
	l.add(fields[0], attempt, time.Duration(late)*time.Microsecond)
}

func (l *ledger) add(id string, attempt int, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled[id] = append(l.handled[id], attempt)
	if late < 0 {
		l.early = append(l.early, fmt.Sprintf("%s by %v", id, -late))
	}
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.handled)
}

// check fails the test unless n messages were handled, none of them early, and repeated ones
// only in a later attempt.
func (l *ledger) check(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.handled) != n {
		t.Errorf("%d messages were handled, want %d", len(l.handled), n)
	}
	if len(l.early) > 0 {
		t.Errorf("%d were early: %s", len(l.early), l.early[0])
	}
	for id, attempts := range l.handled {
		sorted := slices.Sorted(slices.Values(attempts)) // a process that was stopped prints an attempt late
		for i, attempt := range sorted {
			if attempt != sorted[0]+i {
				t.Errorf("%s was handled in the attempts %v: twice under one lease", id, attempts)
			}
		}
	}
}

// once fails the test if a message was handled more than once.
func (l *ledger) once(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, attempts := range l.handled {
		if len(attempts) != 1 || attempts[0] != 1 {
			t.Errorf("%s was handled in the attempts %v", id, attempts)
		}
	}
}

// worker handles messages in this process and records them in a ledger.
func worker(t *testing.T, store *notify.Store, l *ledger, o subscribers.HandleOptions) (stop func()) {
	t.Helper()
	sub, err := subscribers.NewSubscriber(store)
	storetest.Must(t, err)
	storetest.Must(t, sub.Handle(topic, func(_ context.Context, d *subscribers.Delivery) error {
		l.add(d.ID, d.Attempt, time.Since(d.Due))
		l.mu.Lock()
		defer l.mu.Unlock()
		l.claimed[d.ID] = claimed(d)
		return nil
	}, o))
	return storetest.Run(t, sub.Run)
}

// spread publishes n messages. The first is due after begin, the others evenly over the time after it.
func spread(t *testing.T, store *notify.Store, n int, begin, over time.Duration) {
	t.Helper()
	messages := make([]notify.Message, n)
	for i := range messages {
		messages[i] = notify.Message{
			Topic: topic, ID: fmt.Sprintf("m%06d", i), Body: []byte("x"),
			Delay: begin + over*time.Duration(i)/time.Duration(n),
		}
	}
	storetest.Publish(t, store, messages...)
}

// elected waits until a carrier of another name than before is elected, and returns it.
func elected(t *testing.T, store *notify.Store, before string) carrier.Status {
	t.Helper()
	var s carrier.Status
	storetest.Eventually(t, "a carrier is elected", func() (ok bool) {
		var err error
		s, err = carrier.Look(context.Background(), store.Home())
		return err == nil && s.Name != "" && s.Name != before
	})
	return s
}

// standingBy waits until n carriers stand by.
func standingBy(t *testing.T, store *notify.Store, n int64) {
	t.Helper()
	vacant := store.Keys().Vacant()
	storetest.Eventually(t, "carriers stand by", func() bool {
		got, err := store.Client().PubSubNumSub(context.Background(), vacant).Result()
		return err == nil && got[vacant] == n
	})
}

// gone waits until no message is scheduled, ready or leased.
func gone(t *testing.T, store *notify.Store) {
	t.Helper()
	storetest.Eventually(t, "no message is scheduled, ready or leased", func() bool {
		c, err := storetest.Count(store, topic)
		return err == nil && c.Scheduled+c.Ready+c.Leased == 0
	})
}

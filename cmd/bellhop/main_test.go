package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	_ "time/tzdata" // a machine may have no zones

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// runMain in the environment makes the test binary the program itself.
const runMain = "RUN_MAIN_OF_BELLHOP"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nats" {
		os.Exit(runNATS(os.Args[1:], os.Stdout))
	}
	if os.Getenv(runMain) != "" {
		storetest.Patient()
		tellsWithin, reach.AnswerWait = 10*time.Second, storetest.Deadline
		main()
	}
	daemon.TakeClientLog(slog.New(slog.DiscardHandler)) // which calls must not do while the clients of others log
	// So that all tests see what is printed in which zone. time.Local is not set, since nats-server's timer may read it meanwhile.
	os.Setenv("TZ", "Asia/Tokyo")
	completeWithin, tellsWithin, reach.AnswerWait = 10*time.Second, 10*time.Second, storetest.Deadline // longer than a machine stands still
	storetest.Main(m)
}

// shell is the environment in which a test calls the program.
type shell struct {
	t   *testing.T
	env []string
}

// newShell returns a shell for the package's Redis and a prefix of the test's own.
func newShell(t *testing.T, vars ...string) *shell {
	s := &shell{t: t}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "BELLHOP_") {
			s.env = append(s.env, variable)
		}
	}
	// Also a process may be called; the race detector makes one that ends sleep for a second.
	s.env = append(s.env, runMain+"=1", "GORACE=atexit_sleep_ms=0", "BELLHOP_REDIS_URL="+storetest.URL(), "BELLHOP_PREFIX=test-"+notify.NewID(), "BELLHOP_LISTEN=127.0.0.1:0")
	if n := storetest.Shards(); n > 1 {
		s.env = append(s.env, "BELLHOP_SHARDS="+strconv.Itoa(n))
	}
	s.env = append(s.env, vars...)
	return s
}

// at returns how errors name a Redis: in a store of several shards with one of these.
func at(url string) string {
	if storetest.Shards() > 1 {
		return "redis at " + url + ", shard "
	}
	return "redis at " + url + ": "
}

// setting returns the value of a variable.
func (s *shell) setting(name string) (value string) {
	for _, variable := range s.env {
		if v, ok := strings.CutPrefix(variable, name+"="); ok {
			value = v // the last value counts
		}
	}
	return value
}

// self returns the path of the program, which a command of work may call.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	storetest.Must(t, err)
	return path
}

// command returns a call of the program in a process of its own.
func (s *shell) command(args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(self(s.t), args...)
	cmd.Env = s.env
	return cmd
}

// result is the output and the exit code of a call.
type result struct {
	out, err string
	code     int
}

// feed calls the program with a text on its standard input.
func (s *shell) feed(stdin string, args ...string) result {
	s.t.Helper()
	var out, errOut printed
	code := run(args, s.env, strings.NewReader(stdin), &out, &errOut)
	return result{out.String(), errOut.String(), code}
}

// call calls the program, expects the exit code 0, and returns its output.
func (s *shell) call(args ...string) string {
	s.t.Helper()
	r := s.feed("", args...)
	if r.code != 0 {
		s.t.Fatalf("bellhop %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// fails calls the program, expects an exit code, and returns its stderr.
func (s *shell) fails(code int, args ...string) string {
	s.t.Helper()
	r := s.feed("", args...)
	if r.code != code {
		s.t.Errorf("bellhop %s: exit %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r.err
}

// json calls the program and parses the JSON that it prints.
func (s *shell) json(into any, args ...string) {
	s.t.Helper()
	out := s.call(args...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		s.t.Fatalf("bellhop %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// printed is what a call printed.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // the text grew; may be nil
}

// Write adds p.
func (o *printed) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

// String returns the text so far.
func (o *printed) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a running call of the program.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd // of a process of its own
	in      io.WriteCloser
	printed printed // stdout and stderr
	signal  func(os.Signal)
	done    chan struct{}
	code    int // once it is done
}

func newProcess(t *testing.T) *process {
	return &process{t: t, printed: printed{more: make(chan struct{}, 1)}, done: make(chan struct{})}
}

// start starts a call beside the test. It is stopped when the test ends.
func (s *shell) start(args ...string) *process {
	s.t.Helper()
	p := newProcess(s.t)
	return s.startTo(p, &p.printed, &p.printed, args...)
}

// startTo is start of a process with outputs of its own.
func (s *shell) startTo(p *process, out, errOut io.Writer, args ...string) *process {
	s.t.Helper()
	in, feed, err := os.Pipe() // which holds what the call does not read
	storetest.Must(s.t, err)
	signals := make(chan os.Signal, 2)
	p.in, p.signal = feed, func(sig os.Signal) { signals <- sig }
	a := &app{env: s.env, in: in, out: out, err: errOut}
	go func() {
		defer close(p.done)
		defer in.Close()
		p.code = a.run(args, signals)
	}()
	s.t.Cleanup(func() {
		feed.Close()
		for {
			select {
			case signals <- syscall.SIGTERM: // the second one kills its commands
			case <-p.done:
				return
			}
		}
	})
	return p
}

// launch starts a command. It is killed when the test ends.
func (s *shell) launch(cmd *exec.Cmd) *process {
	s.t.Helper()
	p := newProcess(s.t)
	p.cmd = cmd
	cmd.Stdout, cmd.Stderr = &p.printed, &p.printed
	p.signal = func(sig os.Signal) {
		p.t.Helper()
		storetest.Must(p.t, cmd.Process.Signal(sig))
	}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	storetest.Must(s.t, cmd.Start())
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // ends checks the exit code
		p.code = cmd.ProcessState.ExitCode()
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
	})
	return p
}

// said returns all that was printed.
func (p *process) said() string { return p.printed.String() }

// await waits until a text was printed n times.
func (p *process) await(n int, what string) {
	p.t.Helper()
	timeout := time.After(storetest.Deadline)
	for ended := false; strings.Count(p.said(), what) < n; {
		if ended {
			p.t.Fatalf("it ended without %d times %q:\n%s", n, what, p.said())
		}
		select {
		case <-p.printed.more:
		case <-p.done:
			ended = true
		case <-timeout:
			p.t.Fatalf("no %d times %q:\n%s", n, what, p.said())
		}
	}
}

// ends waits for the end and expects an exit code.
func (p *process) ends(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(storetest.Deadline):
		p.t.Fatalf("it does not end:\n%s", p.said())
	}
	if p.code != code {
		p.t.Errorf("exit %d, want %d:\n%s", p.code, code, p.said())
	}
}

// stop ends it with SIGTERM, and expects the exit code 0.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.ends(exitDone)
}

// contains expects texts in an output.
func contains(t *testing.T, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

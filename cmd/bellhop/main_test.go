package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// runMain in the environment makes the test binary the program itself.
const runMain = "RUN_MAIN_OF_BELLHOP"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "nats" {
		os.Exit(runNATS(os.Args[1:], os.Stdout))
	}
	if os.Getenv(runMain) != "" {
		main()
	}
	if os.Getenv(runAgent) != "" {
		serveAgent()
		return
	}
	storetest.AtEnd(stopAgents)
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
	// The race detector makes a program that ends sleep for a second.
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

func (s *shell) command(args ...string) *exec.Cmd {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
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
	if !s.ownProcess(args) {
		return s.ask(stdin, args)
	}
	cmd := s.command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	timer := time.AfterFunc(storetest.Deadline, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
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

// process is a running call of the program.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}

	mu   sync.Mutex
	text strings.Builder // stdout and stderr
	more chan struct{}   // the text grew
}

// start starts the program. It is killed when the test ends.
func (s *shell) start(args ...string) *process {
	s.t.Helper()
	return s.launch(s.command(args...))
}

// launch starts a command. It is killed when the test ends.
func (s *shell) launch(cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: cmd, done: make(chan struct{}), more: make(chan struct{}, 1)}
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(out) })
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ends checks the exit code
		in.Close()
		reading.Wait()
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		p.mu.Lock()
		p.text.WriteString(line)
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// said returns all that was printed.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// await waits until a text was printed n times.
func (p *process) await(n int, what string) {
	p.t.Helper()
	timeout := time.After(storetest.Deadline)
	for ended := false; strings.Count(p.said(), what) < n; {
		if ended {
			p.t.Fatalf("it ended without %d times %q:\n%s", n, what, p.said())
		}
		select {
		case <-p.more:
		case <-p.done:
			ended = true
		case <-timeout:
			p.t.Fatalf("no %d times %q:\n%s", n, what, p.said())
		}
	}
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
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
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit %d, want %d:\n%s", got, code, p.said())
	}
}

// stop ends the process with SIGTERM, and expects the exit code 0.
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

package main

import (
	"bytes"
	"encoding/gob"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// An agent is a process of the test binary that runs one call of the program after the
// other: with the race detector a start takes longer than most calls.
type agent struct {
	cmd  *exec.Cmd
	in   io.Closer
	asks *gob.Encoder
	says *gob.Decoder
	errs bytes.Buffer // what the race detector or a panic wrote; it is read when the process has ended
}

// asked is one call, and answered is what became of it.
type (
	asked struct {
		Env, Args []string
		In        string
	}
	answered struct {
		Out, Err string
		Code     int
	}
)

// runAgent in the environment makes the test binary an agent.
const runAgent = "RUN_AGENT_OF_BELLHOP"

// serveAgent runs the calls that come on standard input, until that ends.
func serveAgent() {
	asks, says := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var call asked
		if err := asks.Decode(&call); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		if err := says.Encode(call.run()); err != nil {
			panic(err)
		}
	}
}

// run runs a call in its environment. Its standard files are pipes, as those of a process are.
func (call asked) run() (a answered) {
	os.Clearenv()
	for _, variable := range call.Env {
		name, value, _ := strings.Cut(variable, "=")
		os.Setenv(name, value)
	}
	var files sync.WaitGroup
	reader := func(into *string) *os.File {
		r, w := mustPipe()
		files.Go(func() {
			text, _ := io.ReadAll(r)
			r.Close()
			*into = string(text)
		})
		return w
	}
	in, feed := mustPipe()
	files.Go(func() {
		_, _ = io.WriteString(feed, call.In) // the call need not read it all
		feed.Close()
	})
	out, errOut := reader(&a.Out), reader(&a.Err)
	os.Stdin, os.Stdout, os.Stderr = in, out, errOut // cobra's completions are printed to these
	a.Code = run(call.Args, in, out, errOut)
	for _, f := range []*os.File{in, out, errOut} {
		f.Close()
	}
	files.Wait()
	return a
}

func mustPipe() (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	return r, w
}

// idle are the agents that have no call.
var idle struct {
	sync.Mutex
	agents []*agent
}

// takeAgent returns an agent that has no call.
func takeAgent() (*agent, error) {
	idle.Lock()
	defer idle.Unlock()
	if n := len(idle.agents); n > 0 {
		a := idle.agents[n-1]
		idle.agents = idle.agents[:n-1]
		return a, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &agent{cmd: exec.Command(self)}
	a.cmd.Env = append(os.Environ(), runAgent+"=1", "GORACE=atexit_sleep_ms=0 halt_on_error=1") // so that a race fails its call
	a.cmd.Stderr = &a.errs
	in, err := a.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.in, a.asks, a.says = in, gob.NewEncoder(in), gob.NewDecoder(out)
	return a, a.cmd.Start()
}

// callWithin is how long a call may take: longer than a test waits for anything else on a busy machine.
const callWithin = 2 * time.Minute

// call runs a call, and reports an agent that has ended over it.
func (a *agent) call(call asked) (got answered, err error) {
	timer := time.AfterFunc(callWithin, func() { a.cmd.Process.Kill() })
	defer timer.Stop()
	if err = a.asks.Encode(call); err == nil {
		err = a.says.Decode(&got)
	}
	return got, err
}

// stop ends an agent and returns what it wrote to its own standard error.
func (a *agent) stop() string {
	a.in.Close()
	_ = a.cmd.Wait() // its calls have checked all that matters
	return a.errs.String()
}

// stopAgents ends all agents when the tests have ended.
func stopAgents() {
	for _, a := range idle.agents {
		a.stop()
	}
}

// ownProcess reports whether a call needs a process of its own: that of a daemon, a
// benchmark, or one in an environment that Go reads when a program starts.
func (s *shell) ownProcess(args []string) bool {
	zone := slices.ContainsFunc(s.env, func(variable string) bool { return strings.HasPrefix(variable, "TZ=") })
	return zone || len(args) > 0 && slices.Contains([]string{"serve", "dev", "bench"}, args[0])
}

// ask calls the program by an agent.
func (s *shell) ask(stdin string, args []string) result {
	s.t.Helper()
	a, err := takeAgent()
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := a.call(asked{Env: s.env, Args: args, In: stdin})
	if err != nil {
		s.t.Fatalf("bellhop %s: %v\n%s", strings.Join(args, " "), err, a.stop())
	}
	idle.Lock()
	defer idle.Unlock()
	idle.agents = append(idle.agents, a)
	return result{got.Out, got.Err, got.Code}
}

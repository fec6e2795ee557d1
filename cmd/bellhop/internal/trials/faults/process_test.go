package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// patience is how long anything may take that should happen soon, since the machine may be busy.
const patience = 60 * time.Second

// until waits until a condition is true, and returns an error after patience.
func until(what string, condition func() bool) error {
	if !storetest.Poll(5*time.Millisecond, patience, condition) {
		return fmt.Errorf("waited %v for this: %s", patience, what)
	}
	return nil
}

// A member of the crew is a program that can be restarted. Its links outlive its processes.
type member struct {
	w       *world
	name    string           // worker-1; its first process is worker-1.1
	links   map[string]*link // by server
	program func(m *member) child.Program
	outlet  *outlet // of bellhop work; nil: it is another program

	mu      sync.Mutex
	life    int
	process *child.Process
	out     *output
}

// id returns the name of the present process.
func (m *member) id() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%s.%d", m.name, m.life)
}

// start starts a new process of the member.
func (m *member) start() error {
	m.mu.Lock()
	m.life++
	m.mu.Unlock()
	id := m.id()
	out, err := newOutput(filepath.Join(m.w.dir, id+".log"))
	if err != nil {
		return err
	}
	program := m.program(m)
	program.Name, program.Output = id, out
	process, err := child.Start(program)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process, m.out = process, out
	m.mu.Unlock()
	m.w.log.Event(history.Record{Op: history.Start, Target: id})
	return nil
}

// running returns the present process, or nil before the first start.
func (m *member) running() *child.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// again restarts the member, and waits until it is ready. A daemon does not report that.
func (m *member) again(context.Context) error {
	err := m.start()
	if err == nil && !strings.HasPrefix(m.name, "daemon") {
		err = m.ready()
	}
	return err
}

// said reports whether the process has sent a line to the test.
func (m *member) said(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.has(what)
}

// ready waits until the member reports that it is ready.
func (m *member) ready() error {
	return until(m.name+" is ready", func() bool { return m.said("ready") })
}

// kill kills the member by kill -9.
func (m *member) kill(epoch int64) {
	m.w.log.Event(history.Record{Op: history.Kill, Target: m.id(), Epoch: epoch})
	m.running().Kill()
}

// term ends the member by SIGTERM.
func (m *member) term(epoch int64) error {
	m.w.log.Event(history.Record{Op: history.Stop, Target: m.id(), Epoch: epoch})
	process := m.running()
	_ = process.Signal(syscall.SIGCONT) // it may have been stopped
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", m.id(), err)
	}
	select {
	case <-process.Done():
		return nil
	case <-time.After(patience):
		process.Kill()
		return fmt.Errorf("%s does not end within %v of SIGTERM", m.id(), patience)
	}
}

// output writes what a process prints to a file, and keeps the lines for the test.
type output struct {
	file *os.File

	mu   sync.Mutex
	rest []byte
	said []string
}

func newOutput(path string) (*output, error) {
	file, err := os.Create(path)
	return &output{file: file}, err
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, p...)
	for {
		line, rest, ok := bytes.Cut(o.rest, []byte("\n"))
		if !ok {
			break
		}
		if what, ok := strings.CutPrefix(string(line), sign); ok {
			o.said = append(o.said, what)
		}
		if bytes.Contains(line, []byte(`msg="waiting for messages"`)) { // of bellhop work
			o.said = append(o.said, "ready")
		}
		o.rest = bytes.Clone(rest)
	}
	return o.file.Write(p)
}

func (o *output) has(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.said, what)
}

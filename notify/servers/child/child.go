// Package child runs a server as a child of this process. The server ends when this
// process ends.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const stopTimeout = 20 * time.Second

// A Process is a running child.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // of the process; read after done
}

// A Program is the program that Start starts.
type Program struct {
	Path   string
	Args   []string
	Name   string    // for errors
	Env    []string  // its environment; nil: that of this process
	Output io.Writer // receives what the program prints; nil: discarded

	User  *syscall.Credential // runs the program; nil: the user of this process
	Files []*os.File          // open in the program as 3, 4 and so on
}

// Start starts a program.
func Start(program Program) (*Process, error) {
	p := &Process{name: program.Name, cmd: exec.Command(program.Path, program.Args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = program.Env, program.Output, program.Output
	p.cmd.ExtraFiles = program.Files
	p.cmd.SysProcAttr = attributes()
	p.cmd.SysProcAttr.Credential = program.User
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Await waits until ready returns nil. If that takes longer than timeout, Await kills
// the process; then, or if the process ended, the error includes ready's last.
func (p *Process) Await(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at once: %w", p.name, errors.Join(p.err, err))
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop ends the process by SIGTERM, and kills it after 20 s.
func (p *Process) Stop() {
	_ = p.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.Kill()
	}
}

// Kill kills the process by SIGKILL and waits until it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

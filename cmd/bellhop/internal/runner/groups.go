package runner

import (
	"os/exec"
	"sync"
	"syscall"
)

// Groups are the process groups of running commands. The zero value has none. It is safe for concurrent use.
type Groups struct {
	starting sync.RWMutex // read-locked from the start of a command until its group is among all
	mu       sync.Mutex
	all      map[int]bool
}

// start starts a command. Its group is among them until wait, which waits for its end.
func (g *Groups) start(cmd *exec.Cmd) (wait func() error, err error) {
	g.starting.RLock()
	defer g.starting.RUnlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[int]bool)
	}
	g.all[cmd.Process.Pid] = true
	return func() error {
		defer g.remove(cmd.Process.Pid)
		return cmd.Wait()
	}, nil
}

func (g *Groups) has(pid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[pid]
}

func (g *Groups) remove(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, pid)
}

// Kill kills all groups.
func (g *Groups) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for pid := range g.all {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // which may have ended just now
	}
}

package runner

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// reapEvery is the shortest time between two looks for orphans that have ended.
const reapEvery = time.Second

// reapOrphans waits for what commands leave behind, until ctx ends. The first process of a container inherits that,
// and without it each child would stay a zombie. In any other process it does nothing.
func (g *Groups) reapOrphans(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ended:
			for _, pid := range zombies() {
				g.reap(pid)
			}
			select {
			case <-ctx.Done():
			case <-time.After(reapEvery):
			}
		}
	}
}

// reap waits for a child that has ended, unless it is a command: os/exec waits for that.
func (g *Groups) reap(pid int) {
	g.starting.Lock()
	defer g.starting.Unlock()
	if !g.has(pid) {
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // if it is no child any more, there is nothing to do
	}
}

// zombies returns the children of this process that have ended and were not waited for.
func zombies() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		state := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // behind the name, which may contain anything
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && len(state) > 1 && string(state[0]) == "Z" && string(state[1]) == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

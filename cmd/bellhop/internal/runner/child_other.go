//go:build !linux

package runner

import (
	"context"
	"syscall"
)

// childAttributes put a command into a process group of its own, so that the
// terminal's Ctrl-C, which stops bellhop, does not end it.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reapOrphans does nothing.
func (*Groups) reapOrphans(context.Context) {}

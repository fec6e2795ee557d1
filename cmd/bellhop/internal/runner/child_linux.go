package runner

import "syscall"

// childAttributes put a command into a process group of its own, so that the
// terminal's Ctrl-C, which stops bellhop, does not end it. If bellhop is killed,
// the command gets SIGTERM: its message is delivered again.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

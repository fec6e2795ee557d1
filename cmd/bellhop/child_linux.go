package main

import "syscall"

// childAttributes put a command into a process group of its own, so that the
// terminal's Ctrl-C, which asks bellhop to stop, does not end it. If bellhop is
// killed the command is told to end: its message comes again.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

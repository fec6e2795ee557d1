package child

import "syscall"

// attributes end the server when its parent dies, whatever kills the parent, and
// keep the terminal's Ctrl-C, which is for the parent, away from the server.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

package child

import "syscall"

// attributes let the server end when its parent dies, however that dies,
// and keep the terminal's Ctrl-C, which is for the parent, from it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

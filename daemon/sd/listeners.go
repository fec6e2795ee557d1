package sd

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Listeners returns the sockets that systemd opened for this process, in the
// order of the unit's lines, and takes the variables that tell of them out of
// the environment. There are none unless a socket unit started the process. The
// error names what was passed on and cannot be listened on; then all are closed.
func Listeners() ([]net.Listener, error) {
	var all []net.Listener
	var fault error
	for _, file := range activation.Files(true) { // its own Listeners passes over what fails
		l, err := net.FileListener(file)
		file.Close() // the listener has a copy
		if err != nil {
			fault = fmt.Errorf("listen on the socket %s that systemd opened: %w", file.Name(), err)
			continue
		}
		all = append(all, l)
	}
	if fault == nil {
		return all, nil
	}
	for _, l := range all {
		l.Close()
	}
	return nil, fault
}

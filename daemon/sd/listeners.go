package sd

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Listeners returns the sockets that systemd opened for this process, in the order of
// the lines of the socket unit, and removes their variables from the environment.
// Without a socket unit there are none. The error names a file on which the process
// cannot listen; then all are closed.
func Listeners() ([]net.Listener, error) {
	var all []net.Listener
	var fault error
	for _, file := range activation.Files(true) { // activation.Listeners ignores errors
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

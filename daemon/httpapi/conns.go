package httpapi

import (
	"math"
	"net"
	"syscall"
	"time"
)

// sparedFiles are left to what is no client: connections to Redis and NATS, and files.
const sparedFiles = 256

// mostConns returns how many clients may be connected at a time, unless an
// option says so: as many as the process may open files, but for some. More
// wait until one goes. Without a limit they would take the last file, and the
// carrier could not connect to Redis again.
func mostConns() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt32
	}
	most := int(min(files.Cur, math.MaxInt32))
	return max(most-sparedFiles, most/2, 1)
}

// probe finds out within half a minute that a client is gone which could not say
// so: a poll of it would be handed messages.
var probe = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// probing is a listener that has the kernel probe its connections.
type probing struct{ net.Listener }

// Accept waits for a connection.
func (p probing) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(probe) // else it is gone already
	}
	return conn, err
}

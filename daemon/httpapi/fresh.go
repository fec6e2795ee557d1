package httpapi

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// fresh are the connections by which nothing came yet. A stop of the server would
// wait 5 s for each; browsers open some that they never use.
type fresh struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// note is called when a connection gets into another state.
func (f *fresh) note(conn net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, conn)
		return
	}
	if f.conns == nil {
		f.conns = make(map[net.Conn]bool)
	}
	f.conns[conn] = true
}

// closeAfter closes those by which nothing comes within a while.
func (f *fresh) closeAfter(d time.Duration) {
	time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for conn := range f.conns {
			conn.Close()
		}
	})
}

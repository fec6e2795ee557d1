package guard

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A connection of HTTP/2 makes way for another while the body of a request is coming, in whatever order the server began and ended that and another
// request, which came whole.
func TestSlowBodiesMakeWayInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]func(*Slot){
		"it begins last":               {beginsWhole, endsWhole, begins},
		"it begins first":              {begins, beginsWhole, endsWhole},
		"it begins between":            {beginsWhole, begins, endsWhole},
		"its client has shown a token": {beginsWhole, (*Slot).Authenticate, endsWhole, begins},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, err := net.Listen("tcp", "127.0.0.1:0")
			storetest.Must(t, err)
			l := NewSlots(plain, 1, time.Millisecond)
			t.Cleanup(func() { l.Close() })
			accept := func() *Slot {
				t.Helper()
				client, err := net.Dial("tcp", plain.Addr().String())
				storetest.Must(t, err)
				t.Cleanup(func() { client.Close() })
				conn, err := l.Accept()
				storetest.Must(t, err)
				return SlotOf(conn)
			}
			slow := accept()
			slow.SetState(http.StateActive)
			for _, step := range steps {
				step(slow)
			}
			accept()
			if !slow.closed {
				t.Error("the slow one is open")
			}
		})
	}
}

func begins(c *Slot)      { c.begin(false) }
func beginsWhole(c *Slot) { c.begin(true) }
func endsWhole(c *Slot)   { c.end(true) }

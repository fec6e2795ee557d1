package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
)

// ReadyFor is how long a look at Redis stands, at the least.
const ReadyFor = readyFor - 100*time.Millisecond

// A Timing replaces the default timing; zero values keep it.
type Timing struct{ Header, Memory, Body, Answer, Idle, Quiet, Closed time.Duration }

// NewTimed is New with another timing.
func NewTimed(store *notify.Store, o Options, own Timing) (*Gate, error) {
	t := defaultTiming
	for _, one := range []struct {
		to   *time.Duration
		from time.Duration
	}{
		{&t.header, own.Header},
		{&t.memory, own.Memory},
		{&t.body, own.Body},
		{&t.answer, own.Answer},
		{&t.idle, own.Idle},
		{&t.quiet, own.Quiet},
		{&t.closed, own.Closed},
	} {
		if one.from > 0 {
			*one.to = one.from
		}
	}
	return newGate(store, o, t)
}

// MachineNames returns the names of a machine.
var MachineNames = machineNames

// Handler returns the handler of all requests, for tests without connections.
func (g *Gate) Handler() http.Handler { return g.server.Handler }

// How many bytes the calls of one token may reserve at a time.
const (
	MemoryOfToken = guard.MemoryOfToken
	MemoryOfSmall = guard.MemoryOfSmall
)

// HasMemory reports whether a token, given by its name, has memory for a body of so many bytes.
func (g *Gate) HasMemory(name string, bytes int64) bool {
	c := call{grant: g.grantNamed(name)}
	defer c.releaseMemory()
	return c.reserveAtOnce(bytes) == nil
}

// TakeMemory takes all memory of a token, given by its name, but that for small bodies.
func (g *Gate) TakeMemory(name string) {
	c := call{grant: g.grantNamed(name)}
	if c.reserveAtOnce(guard.MemoryOfToken) != nil {
		panic("a call of the token holds memory")
	}
}

// TakeLists takes all that lists of a token, given by its name, may become.
func (g *Gate) TakeLists(ctx context.Context, name string) (free func(), err error) {
	c := call{grant: g.grantNamed(name)}
	return c.releaseMemory, c.grant.Memory.ReserveList(ctx, &c.reserved, guard.MemoryOfLists)
}

func (g *Gate) grantNamed(name string) *tokens.Grant {
	if one := g.keys.Named(name); one != nil {
		return one
	}
	panic("no token has the name " + name)
}

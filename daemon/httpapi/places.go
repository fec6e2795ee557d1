package httpapi

import "time"

const (
	placesOfToken = 8       // calls of one token that take much memory at a time
	largeBody     = 1 << 20 // bytes of a body that do
)

// place waits until the call may take much memory, which it does until it is
// answered: the whole of a large body is held, and the whole of a long answer,
// until a slow client has sent the one or taken the other. Each token has places
// of its own, so that no client can keep those of another busy. Errors: errBusy,
// errDraining, or that of a client that went away.
func (c *call) place() error {
	if c.placed {
		return nil
	}
	timer := time.NewTimer(c.gate.timing.header)
	defer timer.Stop()
	select {
	case c.grant.places <- struct{}{}:
		c.placed = true
		return nil
	case <-timer.C:
		return errBusy
	case <-c.gate.closing.Done():
		return errDraining
	case <-c.r.Context().Done():
		return c.r.Context().Err()
	}
}

// leave gives the place back, if the call has one.
func (c *call) leave() {
	if c.placed {
		<-c.grant.places
	}
}

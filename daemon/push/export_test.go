package push

import (
	"net/netip"
	"time"
)

// CheckAddress returns why an address may not be dialled.
func CheckAddress(a Allow, address netip.Addr, plain bool) error { return a.check(address, plain) }

// Unheard are the subjects on which nobody listens.
type Unheard struct{ unheard }

// Again notes that nobody listens on a subject, and returns when it is asked again.
func (u *Unheard) Again(subject string) time.Duration { return u.again(subject) }

// Wait returns for how long a subject is not asked.
func (u *Unheard) Wait(subject string) time.Duration { return u.wait(subject) }

// Forget notes that a subject is heard.
func (u *Unheard) Forget(subject string) { u.forget(subject) }

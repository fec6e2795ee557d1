package push

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// CheckAddress returns why an address may not be dialled.
func CheckAddress(a Allow, address netip.Addr, plain bool) error {
	return a.check(address, address.String(), plain)
}

// ResolveBy has a resolver look up the names of endpoints.
func (p *Pusher) ResolveBy(r *net.Resolver) {
	for plain, c := range map[bool]*http.Client{false: p.secure, true: p.plain} {
		d := dialer(p.allow, plain)
		d.Resolver = r
		c.Transport.(*http.Transport).DialContext = d.DialContext
	}
}

// Trust has a pusher trust the certificates of a pool.
func Trust(p *Pusher, pool *x509.CertPool) {
	p.secure.Transport.(*http.Transport).TLSClientConfig.RootCAs = pool
}

// Unheard are the subjects on which nobody listens.
type Unheard unheard

// Again notes that nobody listens on a subject, and returns when it is asked again.
func (u *Unheard) Again(subject string) time.Duration { return (*unheard)(u).again(subject) }

// Wait returns for how long a subject is not asked.
func (u *Unheard) Wait(subject string) time.Duration { return (*unheard)(u).wait(subject) }

// Forget notes that a subject is heard.
func (u *Unheard) Forget(subject string) { (*unheard)(u).forget(subject) }

// Bound has a pusher that does not run yet work for so many topics of patterns, and let those go that had nothing for some time.
func Bound(p *Pusher, topics int, idle time.Duration) { p.bound, p.idle = topics, idle }

// Sweep has a pusher let idle topics go.
func Sweep(p *Pusher) { p.sweep() }

// UnheardOf returns the subjects on which nobody listens, of a pusher.
func UnheardOf(p *Pusher) *Unheard { return (*Unheard)(&p.unheard) }

// FailDials has a pusher that does not run yet dial in vain, for a reason, until works is called. It tells tries of each.
func FailDials(p *Pusher, tries chan<- struct{}, because error) (works func()) {
	transport := p.plain.Transport.(*http.Transport)
	dial := transport.DialContext
	var may atomic.Bool
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if may.Load() {
			return dial(ctx, network, address)
		}
		tries <- struct{}{}
		return nil, &net.OpError{Op: "dial", Net: network, Err: because}
	}
	return func() { may.Store(true) }
}

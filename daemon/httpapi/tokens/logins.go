package tokens

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxAddresses = 100         // that are counted by themselves; further ones are counted together as others
	logInterval  = time.Minute // between log lines about one address
)

// Logins counts requests without a known token. An address is logged at its first
// request, and then at most once a minute.
type Logins struct {
	refused atomic.Int64

	mu   sync.Mutex
	from map[string]*refusals
}

// refusals are the refused requests of an address.
type refusals struct {
	logged time.Time
	since  int64 // requests since then
}

// Count returns how many requests were refused.
func (l *Logins) Count() int64 { return l.refused.Load() }

// Refuse counts a refused request of a client, and logs it if it is time to.
func (l *Logins) Refuse(log *slog.Logger, client string, err error) {
	l.refused.Add(1)
	if address, n := l.note(addressOf(client)); n > 0 {
		log.Warn("refused requests without a known token", "address", address, "requests", n, "error", err)
	}
}

// note counts a request of an address. It returns how many requests to log now, and under which address.
func (l *Logins) note(address string) (as string, requests int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.from[address] == nil && len(l.from) >= maxAddresses {
		l.forget(now)
	}
	if l.from[address] == nil && len(l.from) >= maxAddresses {
		address = "others"
	}
	if l.from == nil {
		l.from = make(map[string]*refusals)
	}
	if l.from[address] == nil {
		l.from[address] = &refusals{}
	}
	t := l.from[address]
	if t.since++; now.Sub(t.logged) < logInterval {
		return address, 0
	}
	requests, t.since, t.logged = t.since, 0, now
	return address, requests
}

// forget removes the addresses without a recent log line. The mutex is held.
func (l *Logins) forget(now time.Time) {
	for address, t := range l.from {
		if now.Sub(t.logged) >= logInterval {
			delete(l.from, address)
		}
	}
}

// addressOf returns the address under which a client is counted: for IPv6 its network
// of 64 bits, since a client may have all addresses in it.
func addressOf(client string) string {
	at, err := netip.ParseAddrPort(client)
	if err != nil {
		return "local" // a Unix socket
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(64)
	return network.String()
}

package httpapi

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxAddresses = 100         // that refused requests are counted by; what comes from more is counted as others
	logInterval  = time.Minute // between lines about one of them
)

// logins counts requests without a token that is known. An address is logged when
// it begins, and then at most once a minute.
type logins struct {
	refused atomic.Int64

	mu   sync.Mutex
	from map[string]*refusals
}

// refusals are the refused requests of an address.
type refusals struct {
	logged time.Time
	since  int64 // requests since then
}

// refuse takes note of a refused request of a client.
func (l *logins) refuse(log *slog.Logger, client string, err error) {
	l.refused.Add(1)
	if address, n := l.note(addressOf(client)); n > 0 {
		log.Warn("requests without a known token were refused", "address", address, "requests", n, "error", err)
	}
}

// note counts a request of an address, and returns how many are to be logged now, as of which.
func (l *logins) note(address string) (as string, requests int64) {
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

// forget forgets the addresses that were not heard of for a while. The mutex is held.
func (l *logins) forget(now time.Time) {
	for address, t := range l.from {
		if now.Sub(t.logged) >= logInterval {
			delete(l.from, address)
		}
	}
}

// addressOf returns the address of a client as it is counted: of IPv6 the network,
// since a client has all addresses in it.
func addressOf(client string) string {
	at, err := netip.ParseAddrPort(client)
	if err != nil {
		return "local" // by a socket of this machine
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(64)
	return network.String()
}

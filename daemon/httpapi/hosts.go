package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ownHost refuses requests that were sent to a name that anybody may own. Whoever
// owns a name can have it point to this machine once a browser has loaded a page
// from it (DNS rebinding); what the page sends then is of its own origin. Its
// Host tells: only addresses and localhost are nobody's. No browser connects to
// what is no TCP.
func (g *Gate) ownHost(next http.Handler) http.Handler {
	if !g.o.LocalHosts {
		return next
	}
	refused := g.plain(func(*call) error { return errHost })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, tcp := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); tcp && !isLocalHost(r.Host) {
			refused(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocalHost reports whether a Host, with or without a port, is an address or
// localhost. None at all is of HTTP/1.0, which no browser speaks.
func isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost")
}

package httpapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
)

// ownHost refuses requests that were sent to a name that anybody may own, for
// what no token guards. Whoever owns a name can have it point to this machine once
// a browser has loaded a page from it (DNS rebinding); what the page sends then is
// of its own origin. Its Host tells. No browser connects to what is no TCP, and
// with TLS it gives up, since the certificate is of another name.
func (g *Gate) ownHost(next http.Handler) http.Handler {
	if !g.o.LocalHosts || g.o.CertFile != "" {
		return next
	}
	hostname, errName := os.Hostname()
	hosts, errHosts := os.ReadFile("/etc/hosts")
	if err := errors.Join(errName, errHosts); err != nil {
		g.o.Logger.Debug("not all names of this machine are known", "error", err)
	}
	own := append(machineNames(hostname, string(hosts)), g.o.Hosts...)
	refused := g.plain(func(*call) error { return errHost })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, tcp := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); tcp && !isOwnHost(r.Host, own) {
			refused(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// machineNames returns by which names a machine goes without being told: the one
// that the system knows, its first label, and those that stand beside one of them in
// its file of hosts, where the name with the domain is. DNS is not asked: a foreign
// network may have any answer.
func machineNames(hostname, hosts string) []string {
	if hostname == "" {
		return nil
	}
	label, _, _ := strings.Cut(hostname, ".")
	names := []string{hostname, label}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); slices.Contains(fields, hostname) || slices.Contains(fields, label) {
			names = append(names, fields[1:]...)
		}
	}
	return names
}

// isOwnHost reports whether a Host, with or without a port, is an address,
// localhost or one of some names, of which *.NAME is every name below NAME. None
// at all is of HTTP/1.0, which no browser speaks.
func isOwnHost(host string, own []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" {
		return true
	}
	return slices.ContainsFunc(own, func(name string) bool {
		name = strings.ToLower(name)
		below, many := strings.CutPrefix(name, "*")
		return host == name || many && len(host) > len(below) && strings.HasSuffix(host, below)
	})
}

var hostGrammar = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$`)

// CheckHosts reports, as a notify.ErrInvalid, what is wrong with names of hosts.
func CheckHosts(hosts []string) error {
	for _, host := range hosts {
		if !hostGrammar.MatchString(host) {
			return store.Faultf("hosts", "host %.100q: write a name without a port, such as bellhop.example.com, or *.example.com for all names below it", host)
		}
	}
	return nil
}

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

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// ownHost refuses requests that no token guards unless their Host names this machine.
// The owner of any other name can make it point to this machine once a browser has
// loaded a page from it (DNS rebinding); the page's requests are then of its own origin,
// but their Host gives them away. Other sockets than TCP are out of a browser's reach,
// and with TLS a browser gives up, since the certificate is of another name.
func (g *Gate) ownHost(next http.Handler) http.Handler {
	if !g.o.LocalHosts || g.o.CertFile != "" {
		return next
	}
	hostname, errName := os.Hostname()
	hosts, errHosts := os.ReadFile("/etc/hosts")
	if err := errors.Join(errName, errHosts); err != nil {
		g.o.Logger.Debug("cannot read all names of this machine; accepting the others", "error", err)
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

// machineNames returns the names of a machine that need no configuration: its hostname,
// the first label of that, and the names beside one of these in its file of hosts, which
// has the name with the domain. DNS is not asked: a foreign network may answer anything.
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

// isOwnHost reports whether a Host, with or without a port, is an address, localhost
// or one of some names; *.NAME stands for every name below NAME. An empty Host passes:
// it comes from HTTP/1.0, which no browser speaks.
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

// CheckHosts reports faults of names of hosts, as a notify.ErrInvalid.
func CheckHosts(hosts []string) error {
	for _, host := range hosts {
		if !hostGrammar.MatchString(host) {
			return fault.New("hosts", "host %.100q: write a name without a port, such as bellhop.example.com, or *.example.com for all names below it", host)
		}
	}
	return nil
}

package push

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// An Allow says to which addresses a daemon may push. The zero value allows none.
type Allow struct {
	public bool
	nets   []netip.Prefix
}

// ParseAllow reads words separated by commas: public, for every address of the Internet; and addresses or nets, such as 10.1.0.0/16,
// which may be private, and to which http is allowed beside https. The error is a notify.Fault.
func ParseAllow(text string) (Allow, error) {
	var a Allow
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" && text == "" {
			continue
		}
		if word == "public" {
			a.public = true
			continue
		}
		of, err := netip.ParsePrefix(word)
		if one, bad := netip.ParseAddr(word); bad == nil && one.Zone() == "" {
			of, err = one.Unmap().Prefix(one.Unmap().BitLen())
		}
		if err != nil {
			return Allow{}, fault.New("allow", "allow %.100q: write public, an address or a net such as 10.1.0.0/16, separated by commas", word)
		}
		a.nets = append(a.nets, of.Masked())
	}
	return a, nil
}

// isNone reports whether no address is allowed.
func (a Allow) isNone() bool { return !a.public && len(a.nets) == 0 }

// check returns why an address, which errors call shown, may not be dialled; plain says that the connection has no TLS.
func (a Allow) check(address netip.Addr, shown string, plain bool) error {
	address = address.Unmap().WithZone("")
	for _, of := range a.nets {
		if of.Contains(address) {
			return nil
		}
	}
	switch {
	case !isPublic(address):
		return fmt.Errorf("%s is not public; name its net in BELLHOP_PUSH_ALLOW, or push elsewhere", shown)
	case !a.public:
		return fmt.Errorf("%s is not allowed; write public, or its net, into BELLHOP_PUSH_ALLOW", shown)
	case plain:
		return fmt.Errorf("http to %s would not be encrypted; use https, or name its net in BELLHOP_PUSH_ALLOW", shown)
	}
	return nil
}

// Check returns a notify.Fault for a push that this daemon would never work for, as far as that can be told without a look-up; an
// api.ErrPushOff or api.ErrNoNATS where it pushes to no URL or not to NATS.
func (p *Pusher) Check(push *store.Push) error {
	switch {
	case !push.IsNATS():
		return p.checkURL(push.URL)
	case p.o.NATS == nil:
		return api.ErrNoNATS
	}
	return p.o.NATS.CheckSubject(push.Subject(">"))
}

func (p *Pusher) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil: // see store.Push
		return nil
	case p.allow.isNone():
		return api.ErrPushOff
	case u.Scheme == "http" && len(p.allow.nets) == 0:
		return fault.New("url", "url %s: http is not encrypted, and no net is named in BELLHOP_PUSH_ALLOW; use https", api.ShownURL(text))
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := p.allow.check(ip, fmt.Sprintf("the address %v", ip.Unmap()), u.Scheme == "http"); err != nil {
			return fault.New("url", "url: %w", err)
		}
	}
	return nil
}

// control returns a function that lets a dialer connect to allowed addresses alone. It is called with the address of each attempt,
// after the look-up, and does not tell it.
func (a Allow) control(plain bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return err
		}
		return a.check(ip, "the address of its host", plain)
	}
}

// special are the nets that are global by their form and lead elsewhere: the IANA registries of special-purpose addresses
// (RFC 6890, as of 2026), those that embed an IPv4 address, and the metadata of clouds.
var special = func() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "168.63.129.16/32",
		"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// isPublic reports whether an address is one of the Internet.
func isPublic(address netip.Addr) bool {
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	for _, of := range special {
		if of.Contains(address) {
			return false
		}
	}
	return true
}

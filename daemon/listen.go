package daemon

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
)

// DefaultListen is the address that HTTP is served on unless another is configured.
const DefaultListen = "127.0.0.1:8420"

// noListen is the address that serves nothing.
const noListen = "none"

// httpFaults returns what is wrong with the settings of HTTP.
func (c *Config) httpFaults() []fault {
	var all []fault
	try := func(setting string, err error) {
		if err != nil {
			all = append(all, fault{setting, err})
		}
	}
	try("BELLHOP_LISTEN", c.checkListen())
	try("BELLHOP_TOKENS_FILE", httpapi.CheckTokens(c.TokensFile))
	try("BELLHOP_TLS_CERT_FILE", httpapi.CheckCert(c.TLSCertFile, c.TLSKeyFile))
	try("BELLHOP_CORS_ORIGINS", httpapi.CheckOrigins(c.CORSOrigins.List()))
	return all
}

// checkListen reports an address that cannot be listened on, or that is open to
// other machines without a token.
func (c *Config) checkListen() error {
	if c.Listen == noListen {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%w address %.100q: write HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420, or none", notify.ErrInvalid, c.Listen)
	}
	ip := net.ParseIP(host)
	return c.guard(c.Listen, host == "localhost" || ip != nil && ip.IsLoopback())
}

// guard refuses to serve other machines without a token, unless that is said twice.
func (c *Config) guard(address string, loopback bool) error {
	if loopback || c.TokensFile != "" || c.ListenWithoutTokens {
		return nil
	}
	return fmt.Errorf("%w address %s: other machines reach it, and whoever does may do everything; set BELLHOP_TOKENS_FILE, or BELLHOP_LISTEN_WITHOUT_TOKENS=true if you want that", notify.ErrInvalid, address)
}

// Open opens what HTTP is served on, unless systemd did. The error is a
// notify.ErrInvalid for an address that is open to other machines without a
// token, or says why it cannot be listened on.
func (c Config) open(passed []net.Listener) ([]net.Listener, error) {
	for _, l := range passed {
		tcp, isTCP := l.Addr().(*net.TCPAddr)
		if err := c.guard(l.Addr().String(), !isTCP || tcp.IP.IsLoopback()); err != nil {
			return nil, err
		}
	}
	if len(passed) > 0 || c.Listen == noListen {
		return passed, nil
	}
	l, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; if that is another bellhop, give this one an address of its own with BELLHOP_LISTEN, or none", err)
	}
	if err != nil {
		return nil, fmt.Errorf("serve http: %w", err)
	}
	return []net.Listener{l}, nil
}

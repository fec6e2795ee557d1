package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// DefaultListen is the default address of HTTP.
const DefaultListen = "127.0.0.1:8420"

// noListen is the setting for no HTTP.
const noListen = "none"

// httpFaults returns the faults of the settings of HTTP.
func (c *Config) httpFaults() (all []*fault.Fault) {
	try := func(setting string, err error) {
		if err != nil {
			all = append(all, &fault.Fault{Field: setting, Err: err})
		}
	}
	try("BELLHOP_LISTEN", c.checkListen())
	try("BELLHOP_TOKENS_FILE", httpapi.CheckTokens(c.TokensFile))
	try("BELLHOP_TLS_CERT_FILE", httpapi.CheckCert(c.TLSCertFile, c.TLSKeyFile))
	try("BELLHOP_CORS_ORIGINS", httpapi.CheckOrigins(c.CORSOrigins.Words()))
	try("BELLHOP_HOSTS", httpapi.CheckHosts(c.Hosts.Words()))
	try("BELLHOP_METRICS_NAMES", metrics.CheckTopics(c.MetricsNames.Words()))
	if c.MetricsNeedToken && c.TokensFile == "" {
		try("BELLHOP_METRICS_NEED_TOKEN", errors.New("it is true, and BELLHOP_TOKENS_FILE is not set; set both, or leave this out"))
	}
	return all
}

// checkListen returns a fault for an address that is invalid, or open to other
// machines without a token.
func (c *Config) checkListen() error {
	if c.Listen == noListen {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return fault.New("listen", "address %.100q: write HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420, or none", c.Listen)
	}
	ip := net.ParseIP(host)
	return c.guard(c.Listen, host == "localhost" || ip != nil && ip.IsLoopback())
}

// guard refuses to serve other machines without a token, unless ListenWithoutTokens confirms it.
func (c *Config) guard(address string, loopback bool) error {
	if loopback || c.TokensFile != "" || c.ListenWithoutTokens {
		return nil
	}
	return fault.New("listen", "address %s: other machines reach it, and every client may do everything; set BELLHOP_TOKENS_FILE, or BELLHOP_LISTEN_WITHOUT_TOKENS=true if you want that", address)
}

// open returns the listeners of HTTP: those that systemd passed on, or a new one. The
// error is a notify.ErrInvalid for an address that is open to other machines without a
// token, or the reason why it cannot be listened on.
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

// warn logs each address where tokens travel to other machines in clear text.
func (c Config) warn(listeners []net.Listener, log *slog.Logger) {
	if c.TokensFile == "" || c.TLSCertFile != "" {
		return
	}
	for _, l := range listeners {
		if tcp, isTCP := l.Addr().(*net.TCPAddr); isTCP && !tcp.IP.IsLoopback() {
			log.Warn("http is served to other machines without tls, so tokens can be read on the way: set BELLHOP_TLS_CERT_FILE, or let only a proxy with tls reach this address", "address", l.Addr())
		}
	}
}

package natsgate

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
)

// A server is one server of NATS.
type server struct {
	url  *url.URL
	name string // that its certificate must have; empty: the host of url
}

// String returns the address without password or token.
func (s server) String() string { return redact(s.url) }

// parseServers reads the comma-separated URLs of Options. The error is a
// notify.ErrInvalid, and tells no secret.
func parseServers(urls string) ([]server, error) {
	var all []server
	for one := range strings.SplitSeq(urls, ",") {
		one = strings.TrimSpace(one)
		u, err := url.Parse(one)
		if fault := urlFault(u, err); fault != "" {
			return nil, store.Faultf("url", "nats URL %s: %s; write nats://HOST:PORT, or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ before HOST where it is wanted", redactURL(one), fault)
		}
		all = append(all, server{url: u})
	}
	return all, nil
}

// urlFault says what is wrong with a URL without repeating it, since it may hold a password.
func urlFault(u *url.URL, err error) string {
	var address *net.AddrError
	switch {
	case errors.As(err, &address):
		return address.Err
	case err != nil, unreadable(u):
		return "it is not a URL"
	case u.Scheme != "nats" && u.Scheme != "tls":
		return "its scheme is neither nats nor tls"
	case u.Hostname() == "":
		return "it names no host"
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return "what follows the port is not used"
	}
	return ""
}

// unreadable reports whether a password may stand anywhere in a URL, because it is mistyped.
func unreadable(u *url.URL) bool {
	return u.Opaque != "" || u.Scheme == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

// RedactURLs returns the comma-separated URLs of Options fit to be shown:
// without passwords and tokens.
func RedactURLs(urls string) string {
	parts := strings.Split(urls, ",")
	for i, one := range parts {
		parts[i] = redactURL(one)
	}
	return strings.Join(parts, ",")
}

func redactURL(raw string) string {
	raw = strings.TrimSpace(raw)
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return raw
	case err != nil || unreadable(u):
		return "[unreadable]"
	}
	return redact(u)
}

func redact(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host}
	if u.User != nil {
		shown.User = url.User("xxxxx") // a user without a password is a token
		if _, ok := u.User.Password(); ok {
			shown.User = url.UserPassword(u.User.Username(), "xxxxx")
		}
	}
	return shown.String()
}

package natsgate

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A server is one server of NATS.
type server struct {
	url  *url.URL
	name string // in its certificate; empty: the host of url
}

// String returns the address without password or token.
func (s server) String() string { return redact(s.url) }

// certificate returns the name in a server's certificate.
func (s server) certificate() string {
	if s.name != "" {
		return s.name
	}
	return s.url.Hostname()
}

// parseServers reads the comma-separated URLs of Options. The error is a
// notify.ErrInvalid, and contains no secret.
func parseServers(urls string) ([]server, error) {
	var all []server
	for one := range strings.SplitSeq(urls, ",") {
		one = strings.TrimSpace(one)
		u, err := url.Parse(one)
		if wrong := urlFault(u, err); wrong != "" {
			return nil, fault.New("url", "nats URL %s: %s; write nats://HOST:PORT, or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ before HOST if the server requires it", redactURL(one), wrong)
		}
		all = append(all, server{url: u})
	}
	return all, nil
}

// urlFault returns what is wrong with a URL, without the URL: it may contain a password.
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
		return "something follows the port"
	}
	return ""
}

// unreadable reports whether a URL is so mistyped that a password may be anywhere in it.
func unreadable(u *url.URL) bool {
	return u.Opaque != "" || u.Scheme == "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

// RedactURLs returns the comma-separated URLs of Options without passwords and
// tokens, fit to be shown.
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

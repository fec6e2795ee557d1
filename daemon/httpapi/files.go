package httpapi

import (
	"crypto/tls"
	"errors"
	"net/url"

	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Reload reads the tokens and the certificate again. If one of them is faulty, that one
// stays as it is. Streams and polls of removed tokens end.
func (g *Gate) Reload() error {
	return errors.Join(g.loadCert(), g.keys.Load())
}

// loadCert reads the certificate and its key.
func (g *Gate) loadCert() error {
	cert, err := readCert(g.o.CertFile, g.o.KeyFile)
	if err == nil && cert != nil {
		g.cert.Store(cert)
	}
	return err
}

// readCert reads a certificate and its key; nil without an error if no file is named.
func readCert(certFile, keyFile string) (*tls.Certificate, error) {
	switch {
	case certFile == "" && keyFile == "":
		return nil, nil
	case certFile == "" || keyFile == "":
		return nil, fault.New("cert_file", "TLS files: only one of certificate and key is given; give both")
	}
	cert, err := regular.ReadKeyPair(certFile, keyFile)
	if err != nil {
		return nil, fault.New("cert_file", "TLS files %s and %s: %w", certFile, keyFile, err)
	}
	return &cert, nil
}

// CheckCert reports faults of the files of a certificate and its key, as a
// notify.ErrInvalid. Two empty names are valid: no TLS.
func CheckCert(certFile, keyFile string) error {
	_, err := readCert(certFile, keyFile)
	return err
}

// CheckTokens reports all faults of a file of tokens. An empty name is valid: no tokens.
func CheckTokens(file string) error {
	k := tokens.New(file)
	return k.Load()
}

// CheckOrigins reports faults of the origins of web pages, as a notify.ErrInvalid.
func CheckOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
			return fault.New("cors_origins", "origin %.100q: write SCHEME://HOST or SCHEME://HOST:PORT with nothing after it, such as https://example.com, or *", origin)
		}
	}
	return nil
}

package redisserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// TLS makes a server speak TLS only, to replicas as well, and require a certificate
// from clients. The files are PEM.
type TLS struct {
	CAFile   string // certificates to trust
	CertFile string // the certificate of the server, and of the client that waits for its start
	KeyFile  string // the private key
}

func (t *TLS) arguments(port int) []string {
	return []string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-replication", "yes", "--tls-auth-clients", "yes",
		"--tls-ca-cert-file", t.CAFile, "--tls-cert-file", t.CertFile, "--tls-key-file", t.KeyFile,
	}
}

// config returns the configuration of a client; nil for plain TCP.
func (t *TLS) config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	trusted, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificates to trust: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate and key: %w", err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if !c.RootCAs.AppendCertsFromPEM(trusted) {
		return nil, errors.New("no certificate to trust in " + t.CAFile)
	}
	return c, nil
}

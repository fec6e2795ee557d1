//go:build linux

package vm_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A pair is a certificate for the loopback address and its key, in PEM.
type pair struct{ cert, key string }

// newPair returns a self-signed pair.
func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	storetest.Must(t, err)
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	storetest.Must(t, err)
	about := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &about, &about, &key.PublicKey, key)
	storetest.Must(t, err)
	text := func(kind string, of []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: of}))
	}
	return pair{text("CERTIFICATE", cert), text("PRIVATE KEY", plain)}
}

// shown returns an error unless a new connection is served with a certificate.
func (h *host) shown(p pair) error {
	h.t.Helper()
	h.Write("/run/trusted.pem", p.cert, 0o600)
	_, err := h.Try("curl", "-sf", "-o", "/dev/null", "--cacert", "/run/trusted.pem", "https://"+h.address+"/healthz")
	return err
}

// showsCert waits until new connections are served with a certificate.
func (h *host) showsCert(p pair) {
	h.t.Helper()
	if !eventually(func() bool { return h.shown(p) == nil }) {
		h.t.Fatalf("the certificate is not served:\n%s", h.journal("-u", h.service))
	}
}

// After a reload new connections get the new pair, and none is refused meanwhile. A broken
// pair changes nothing, and is reported by status and log.
func reloadTLS(t *testing.T, on, _ *host) {
	h := on.daemon("secure", 8439, "BELLHOP_TLS_CERT_FILE=/etc/bellhop/cert.pem", "BELLHOP_TLS_KEY_FILE=/etc/bellhop/key.pem")
	serve := func(cert, key pair) {
		t.Helper()
		h.secret("/etc/bellhop/cert.pem", cert.cert)
		h.secret("/etc/bellhop/key.pem", key.key)
	}
	one, two, three := newPair(t, "one"), newPair(t, "two"), newPair(t, "three")
	serve(one, one)
	h.Run("systemctl", "start", h.service)
	h.showsCert(one)
	pid := h.show(h.service, "MainPID")

	knocking := h.knocks("https://" + h.address + "/healthz")
	serve(two, two)
	h.Run("systemctl", "reload", h.service)
	h.showsCert(two)
	if h.shown(one) == nil {
		t.Error("the first certificate is served still")
	}
	serve(three, one)
	h.Run("systemctl", "reload", h.service)
	h.logs(h.service, "private key does not match public key")
	h.becomes(h.service, "StatusText", "carrier")
	if status := h.show(h.service, "StatusText"); !strings.HasSuffix(status, "; the last reload failed: see the log") {
		t.Errorf("the status is %q", status)
	}
	h.showsCert(two)
	serve(three, three)
	h.Run("systemctl", "reload", h.service)
	h.showsCert(three)
	if counts := knocking(); len(counts) != 1 || counts["200 0"] < 5 {
		t.Errorf("the calls meanwhile ended with (status, exit code of curl): %v", counts)
	}
	h.becomes(h.service, "ActiveState", "active")
	h.shows(h.service, "MainPID", pid)
	h.shows(h.service, "NRestarts", "0")
}

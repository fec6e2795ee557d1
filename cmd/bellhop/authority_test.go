package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// certificate returns a certificate of 127.0.0.1 and its key, signed by an authority of its own, and that authority's certificate as PEM.
func certificate(t *testing.T) (leaf tls.Certificate, authority []byte) {
	t.Helper()
	sign := func(of, by *x509.Certificate, signer crypto.Signer) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		storetest.Must(t, err)
		if signer == nil {
			signer = key
		}
		der, err := x509.CreateCertificate(rand.Reader, of, by, key.Public(), signer)
		storetest.Must(t, err)
		return der, key
	}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Authority of a shop"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root, caKey := sign(ca, ca, nil)
	of := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, key := sign(of, ca, caKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}

// An endpoint whose certificate is of an authority of its own is trusted once SSL_CERT_FILE names that; until then the answer says so.
func TestPushTrustsAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	leaf, authority := certificate(t)
	got := make(chan string, 10)
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Header.Get("webhook-id")
	}))
	endpoint.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12}
	endpoint.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is refused
	endpoint.StartTLS()
	t.Cleanup(endpoint.Close)
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		storetest.Must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	s := newShell(t, "BELLHOP_PUSH_ALLOW=127.0.0.1")
	s.call("push", "put", "crm", "--topic", "order.paid", "--url", endpoint.URL, "--secret-file", write("key", []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))
	refused := s.feed("", "push", "test", "crm")
	contains(t, refused.out, "certificate signed by unknown authority; add that authority", "in SSL_CERT_FILE")
	s.env = append(s.env, "SSL_CERT_FILE="+write("authority.pem", authority))
	out, err := s.command("push", "test", "crm").CombinedOutput() // in a process of its own: Go reads authorities once
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	contains(t, string(out), " ms: HTTP 200 OK")
	if id := storetest.Receive(t, "the test came", got); !strings.HasPrefix(id, "order.paid:test~") {
		t.Errorf("got %q", id)
	}
}

package failover_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// write writes a file of a test.
func write(t *testing.T, path, text string) string {
	t.Helper()
	storetest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// certify makes a self-signed certificate for 127.0.0.1.
func certify(t *testing.T) *redisserver.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	storetest.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	storetest.Must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	storetest.Must(t, err)
	cert := write(t, filepath.Join(t.TempDir(), "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return &redisserver.TLS{
		CAFile: cert, CertFile: cert,
		KeyFile: write(t, filepath.Join(t.TempDir(), "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))),
	}
}

// user returns the arguments of a server that has a user with the least rights.
func user() []string {
	return append([]string{"--user", "bellhop", "on", ">secret"}, strings.Fields(reach.Rights(script.DefaultPrefix, 1))...)
}

// Everything works over TLS with a client certificate, as the user with the least rights, and
// Redis denies no call.
func TestTLSAndLeastRights(t *testing.T) {
	t.Parallel()
	secure := certify(t)
	master, err := redisserver.Start(t.Context(), redisserver.Options{Dir: t.TempDir(), Args: append(user(), "--appendonly", "yes"), TLS: secure})
	storetest.Must(t, err)
	t.Cleanup(master.Stop)
	replica, err := master.Replica(t.Context(), redisserver.Options{Dir: t.TempDir(), TLS: secure})
	storetest.Must(t, err)
	t.Cleanup(replica.Stop)
	config := notify.Config{
		URL: master.URL(), Username: "bellhop", PasswordFile: write(t, filepath.Join(t.TempDir(), "password"), "secret\n"),
		CAFile: secure.CAFile, CertFile: secure.CertFile, KeyFile: secure.KeyFile, WaitReplicas: 1,
	}
	root := config
	root.Username, root.PasswordFile = "", ""
	operator := open(t, root)
	load(t, operator)
	l := newLedger()
	stop := play(t, config, l)
	stop()
	l.check(t)
	denied(t, operator)
	examine(t, config)

	config.CertFile, config.KeyFile = "", ""
	bare := open(t, config)
	storetest.Eventually(t, "the remedy is a certificate", func() bool { // the reset may overtake the reason that Redis sends before it
		err := bare.Check(t.Context())
		if err == nil {
			t.Fatal("Redis requires no certificate")
		}
		return strings.Contains(doctor.Remedy(err), "BELLHOP_REDIS_CERT_FILE")
	})
	config.CAFile = ""
	if err := open(t, config).Check(t.Context()); err == nil || !strings.Contains(doctor.Remedy(err), "BELLHOP_REDIS_CA_FILE") {
		t.Errorf("it trusts any certificate: %v", err)
	}
}

// load loads the functions, as the operator does.
func load(t *testing.T, operator *notify.Store) {
	t.Helper()
	storetest.Must(t, storetest.ErrOf(operator.LoadFunctions(t.Context())))
}

// denied fails the test for each call that Redis denied.
func denied(t *testing.T, db *notify.Store) {
	t.Helper()
	all, err := db.Client().ACLLog(t.Context(), 100).Result()
	storetest.Must(t, err)
	for _, entry := range all {
		t.Errorf("denied: %s %s (%s)", entry.Reason, entry.Object, entry.Context)
	}
}

// The same user has enough rights in a Cluster.
func TestClusterLeastRights(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, s := range append(c.Masters, c.Replicas...) {
		rule := []any{"ACL", "SETUSER", "bellhop", "on", ">secret"}
		for _, word := range strings.Fields(reach.Rights(script.DefaultPrefix, 1)) {
			rule = append(rule, word)
		}
		storetest.Must(t, connect(t, s).Do(t.Context(), rule...).Err())
	}
	load(t, open(t, notify.Config{URL: c.URL()}))
	config := notify.Config{URL: strings.ReplaceAll(c.URL(), "redis://", "redis://bellhop:secret@"), WaitReplicas: 1}
	l := newLedger()
	stop := play(t, config, l)
	stop()
	l.check(t)
	for _, s := range c.Masters {
		denied(t, storetest.At(t, s.URL(), ""))
	}
	examine(t, config)
}

// With sentinels that require a password, everything follows them to a new master, as the user that the page names. Without
// a valid one the remedy names the setting.
func TestSentinelsWantAPassword(t *testing.T) {
	t.Parallel()
	w := guard(t, "guarded", 1)
	rule := []any{"ACL", "SETUSER"}
	for _, word := range strings.Fields(guestRule(t)) {
		rule = append(rule, word)
	}
	var clients []*redis.Client
	for _, sentinel := range w.sentinels {
		client := redis.NewClient(&redis.Options{Addr: sentinel.Addr(), Password: "guarded", Protocol: 2, MaxRetries: -1, DisableIdentity: true})
		t.Cleanup(func() { client.Close() })
		storetest.Must(t, client.Do(t.Context(), rule...).Err())
		clients = append(clients, client)
	}
	dir := t.TempDir()
	guest := w.config("", 1)
	guest.SentinelUsername, guest.SentinelPasswordFile = "bellhop", write(t, filepath.Join(dir, "guest"), "PASSWORD\n")
	full := guest
	full.SentinelUsername, full.SentinelPasswordFile = "", write(t, filepath.Join(dir, "guarded"), "guarded\n")

	for name, change := range map[string]func(*notify.Config){
		"no password":      func(c *notify.Config) { c.SentinelUsername, c.SentinelPasswordFile = "", "" },
		"another password": func(c *notify.Config) { c.SentinelUsername = "" },
		"no such user":     func(c *notify.Config) { c.SentinelUsername = "nobody" },
	} {
		wrong := guest
		change(&wrong)
		if err := open(t, wrong).Check(t.Context()); !reach.SentinelsRefuse(err) || reach.Refused(err) || !strings.Contains(doctor.Remedy(err), "BELLHOP_REDIS_SENTINEL_PASSWORD_FILE") {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.Should(t, open(t, full).Check(t.Context()))
	subscribed := open(t, guest)
	stop := storetest.Run(t, func(ctx context.Context) error { subscribed.Subscribe(ctx, func(store.Event) {}); return nil })
	for _, client := range clients {
		storetest.Eventually(t, "it subscribes to each sentinel", func() bool {
			all, err := client.ClientList(t.Context()).Result()
			return err == nil && slices.ContainsFunc(strings.Split(all, "\n"), func(one string) bool {
				return strings.Contains(one, " user=bellhop ") && strings.Contains(one, " sub=1 ") // go-redis itself has more subscriptions
			})
		})
	}
	stop()
	w.endure(t, guest, func() {
		storetest.Must(t, w.ask(t, w.sentinels[0]).Failover(t.Context(), "main").Err())
	}, func() {})
}

// guestRule returns the rule of the page for a user of the sentinels.
func guestRule(t *testing.T) string {
	t.Helper()
	for _, line := range pagestest.Lines(t, "../../../../../daemon/README.md", "High availability") {
		if rule, ok := strings.CutPrefix(line, "ACL SETUSER "); ok {
			return rule
		}
	}
	t.Fatal("the page names no rule for the user of the sentinels")
	return ""
}

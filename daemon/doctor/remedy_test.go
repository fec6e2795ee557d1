package doctor_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// publish returns the error of a publish.
func publish(t *testing.T, url string) error {
	t.Helper()
	store := storetest.With(t, notify.Config{URL: url})
	_, err := storetest.Publisher(t, store).Publish(t.Context(), notify.Message{Topic: "t", Body: []byte("x")})
	return err
}

func TestRemedy(t *testing.T) {
	t.Parallel()
	foreign := httptest.NewTLSServer(nil) // of an authority that no client trusts
	defer foreign.Close()
	noTLS := httptest.NewServer(nil)
	defer noTLS.Close()
	alone := storetest.Server(t, "--min-replicas-to-write", "1")
	locked := storetest.Server(t, "--requirepass", "secret")
	full := storetest.Server(t, "--maxmemory", "1") // too little to have a share of 90 %
	replica := storetest.Server(t, "--replicaof", "127.0.0.1 1")
	nodes, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour)
	storetest.Must(t, err)
	t.Cleanup(nodes.Stop)
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts for it
	storetest.Must(t, err)
	defer hangs.Close()
	for _, test := range []struct{ name, url, want string }{
		{"it hangs", "redis://" + hangs.Addr().String(), "Redis accepts connections and does not answer"},
		{"it does not speak TLS, and hangs", "rediss://" + hangs.Addr().String(), "write redis:// in BELLHOP_REDIS_URL if"},
		{"nobody is there", "redis://127.0.0.1:1", "start Redis there (systemctl start redis-server), or name another in BELLHOP_REDIS_URL"},
		{"an unknown authority", "rediss://" + foreign.Listener.Addr().String(), "BELLHOP_REDIS_CA_FILE"},
		{"no TLS", "rediss://" + noTLS.Listener.Addr().String(), "write redis:// in BELLHOP_REDIS_URL"},
		{"no Redis", "redis://" + noTLS.Listener.Addr().String(), "names the address and port of a Redis"},
		{"too few replicas", alone.URL(), "'bellhop doctor' reports on the replicas"},
		{"no password", "redis://" + locked.Addr(), "BELLHOP_REDIS_PASSWORD_FILE"},
		{"memory is full", full.URL(), "raise maxmemory"},
		{"a replica", replica.URL(), "set BELLHOP_REDIS_URL to its master"},
		{"one node of a Cluster", nodes.Masters[0].URL(), "name several of the Cluster's nodes in BELLHOP_REDIS_URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := publish(t, test.url)
			if got := doctor.Remedy(err); err == nil || !strings.Contains(got, test.want) {
				t.Errorf("of %v: got %q, want %q", err, got, test.want)
			}
		})
	}
	for _, err := range []error{notify.ErrInvalid, notify.ErrExists, notify.ErrFull, context.Canceled, errors.New("else")} {
		if got := doctor.Remedy(err); got != "" {
			t.Errorf("of %v: got %q, want none", err, got)
		}
	}
}

package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// echo serves connections that answer what they receive, and returns their address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// A connection that is given up while a call takes it still serves that call, and no other.
func TestHangUpSparesCalls(t *testing.T) {
	var all connections
	dialed, err := all.note(redis.NewDialer(&redis.Options{}))(context.Background(), "tcp", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	c := dialed.(*connection)
	if _, err := c.SyscallConn(); err != nil {
		t.Errorf("a new connection is not usable: %v", err)
	}
	all.hangUp("", -time.Hour) // as if it had been idle for long
	if _, err := c.SyscallConn(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it would be used again: %v", err)
	}
	got := make([]byte, 1)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(c, got); err != nil {
		t.Errorf("the call that took it before is cut off: %v", err)
	}
}

// A begins is a connection that closes a channel when somebody begins to read.
type begins struct {
	net.Conn
	read chan struct{}
}

func (b begins) Read(p []byte) (int, error) {
	close(b.read)
	return b.Conn.Read(p)
}

// A call that waits on a silent connection ends when it is given up.
func TestHangUpEndsWaiting(t *testing.T) {
	var all connections
	c, err := all.note(redis.NewDialer(&redis.Options{}))(context.Background(), "tcp", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := make(chan struct{})
	c.(*connection).Conn = begins{c.(*connection).Conn, read}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	<-read
	all.hangUp("", -time.Hour)
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if len(all.all) != 0 {
		t.Errorf("%d connections are kept", len(all.all))
	}
}

// A call of before the switch to another master closes no connection that was dialed after it began.
func TestAbandonSparesLaterConnections(t *testing.T) {
	var all connections
	dial := func() *connection {
		c, err := all.note(redis.NewDialer(&redis.Options{}))(context.Background(), "tcp", echo(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*connection)
	}
	before := dial()
	began := time.Now()
	after := dial()
	all.abandon("", began)
	if _, err := before.Read(make([]byte, 1)); !errors.Is(err, errAbandoned) {
		t.Errorf("the connection of before is not abandoned: %v", err)
	}
	if _, err := after.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(after, make([]byte, 1)); err != nil {
		t.Errorf("a later connection is cut off: %v", err)
	}
}

// Over connections of one's own dialer TLS checks the name in the URL, wherever they lead.
func TestDialWithTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate()) // of example.com
	var asked []string
	c := Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = append(asked, network+" "+address)
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}}
	dial := c.dialer(&redis.UniversalOptions{TLSConfig: &tls.Config{RootCAs: trusted}})
	conn, err := dial(t.Context(), "tcp", "example.com:6379")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	var name x509.HostnameError
	if _, err := dial(t.Context(), "tcp", "redis.test:6379"); !errors.As(err, &name) {
		t.Errorf("under another name: %v", err)
	}
	if want := []string{"tcp example.com:6379", "tcp redis.test:6379"}; !slices.Equal(asked, want) {
		t.Errorf("dialed %q, want %q", asked, want)
	}
}

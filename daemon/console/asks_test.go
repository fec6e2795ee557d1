package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A tally is the commands that Redis gets from the connections of a store.
type tally struct {
	mu    sync.Mutex
	from  map[string]bool // addresses of the connections
	names []string        // of the commands
}

// dial connects a store.
func (c *tally) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.from[conn.LocalAddr().String()] = true
	}
	return conn, err
}

var monitored = regexp.MustCompile(`^\+[\d.]+ \[\d+ ([^\]]+)\] "([^"]+)"(?: "([^"]+)")?`)

// watch notes the commands that a server gets until the test ends.
func (c *tally) watch(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	storetest.Must(t, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	storetest.Must(t, err)
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(conn)
		if lines.Scan() { // OK
			close(began)
		}
		for lines.Scan() {
			c.note(lines.Text())
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	storetest.Receive(t, "it is monitored", began)
}

func (c *tally) note(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := monitored.FindStringSubmatch(line); found != nil && c.from[found[1]] { // else it is of a script, or of another
		c.names = append(c.names, fmt.Sprintf("%.60s", strings.Join(found[2:], " ")))
	}
}

// taken returns the commands since they were taken last.
func (c *tally) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

// An open first page asks Redis for little: at most two commands a second, and twice that where much is wrong, at which the doctor looks closer.
func TestFirstPageAsksForLittle(t *testing.T) {
	t.Parallel()
	const (
		window = 30 * time.Second // in which the doctor looks three times
		round  = 10               // calls: with another one each the window may begin and end
	)
	for name, c := range map[string]struct {
		opens func(*testing.T) *site
		most  int // calls a second
	}{"nothing is wrong": {busy, 2}, "much is": {ailing, 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := c.opens(t).store
			address := db.Client().(*redis.Client).Options().Addr
			asked := &tally{from: make(map[string]bool)}
			watched := storetest.With(t, notify.Config{URL: "redis://" + address, Prefix: db.Prefix(), Shards: storetest.Shards(), Dial: asked.dial})
			storetest.Run(t, func(ctx context.Context) error { // as each daemon
				watched.Subscribe(ctx, func(store.Event) {}, watched.Every().BeatChannel())
				return nil
			})
			v := serve(t, watched, httpapi.Options{}).visitor()
			wait(t, v, "/ui/", "advice</a>")
			v.stream("/ui/").says("data-river")
			asked.watch(t, address)
			time.Sleep(window)
			calls := asked.taken()
			slices.Sort(calls)
			t.Logf("%d calls: %q", len(calls), calls)
			if n := len(calls); n == 0 || n > c.most*int(window.Seconds())+round {
				t.Errorf("%d calls in %v", n, window)
			}
		})
	}
}

// busy is a site of which nothing is wrong, with a worker.
func busy(t *testing.T) *site {
	t.Helper()
	s := sound(t, httpapi.Options{})
	carry(t, s.store)
	work(t, s.store, "mailer-1", "mail")
	storetest.Publish(t, s.store, message("mail", "x"), notify.Message{Topic: "mail", Delay: time.Hour})
	return s
}

//go:build linux

package vm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/vm/sandbox"
	"github.com/bellhopd/bellhop/daemon/api"
)

// A load publishes and handles messages over HTTP through two daemons. It repeats a call
// without an answer, or with the answer 503, at the other daemon.
type load struct {
	t       *testing.T
	hosts   [2]string
	client  *http.Client
	watch   *standstill.Watch
	calls   atomic.Int64
	refused atomic.Int64 // connections refused
	cut     atomic.Int64 // calls without an answer
	later   atomic.Int64 // calls answered with 503

	mu        sync.Mutex
	published map[string]bool
	unsure    map[string]bool // ids whose publish or acknowledgement may or may not have happened
	handled   map[string]int
	late      []time.Duration // of each claimed message
}

func newLoad(h *host, hosts [2]string) *load {
	transport := &http.Transport{DialContext: h.Dial, MaxIdleConnsPerHost: 32}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &load{
		t: h.t, hosts: hosts, client: &http.Client{Transport: transport, Timeout: deadline}, watch: standstill.Start(h.t),
		published: make(map[string]bool), unsure: make(map[string]bool), handled: make(map[string]int),
	}
}

// once makes a call. The error is that of the connection.
func (l *load) once(ctx context.Context, host int, path, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+l.hosts[host]+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	l.calls.Add(1)
	reply, err := l.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	answer, err = io.ReadAll(reply.Body)
	if reply.StatusCode == http.StatusServiceUnavailable && reply.Header.Get("Retry-After") == "" {
		l.t.Errorf("%s answers 503 without Retry-After: %s", path, answer)
	}
	return reply.StatusCode, answer, err
}

// call repeats a call until it is answered or ctx ends, and reports whether an unanswered one may have happened.
func (l *load) call(ctx context.Context, host int, path, body string) (status int, answer []byte, unsure bool) {
	for ; ; host = 1 - host {
		status, answer, err := l.once(ctx, host, path, body)
		switch {
		case ctx.Err() != nil:
			return 0, nil, true
		case errors.Is(err, syscall.ECONNREFUSED):
			l.refused.Add(1)
		case err != nil: // net/http has no name for a connection that was closed while idle
			l.cut.Add(1)
			unsure = true
		case status == http.StatusServiceUnavailable:
			l.later.Add(1)
		default:
			return status, answer, unsure
		}
	}
}

// publish publishes messages due soon, until ctx ends.
func (l *load) publish(ctx context.Context, name string) {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		id := fmt.Sprintf("%s-%d", name, n)
		status, answer, unsure := l.call(context.Background(), n%2, "/v1/topics/rolling/messages?delay=100ms&id="+id, "x")
		if status != http.StatusCreated && !(unsure && status == http.StatusConflict) {
			l.t.Errorf("publish answers %d %s", status, answer)
		}
		l.mu.Lock()
		l.published[id], l.unsure[id] = true, unsure
		l.mu.Unlock()
	}
}

// work claims messages and acknowledges them, until ctx ends.
func (l *load) work(ctx context.Context, host int) {
	for ctx.Err() == nil {
		status, answer, _ := l.call(ctx, host, "/v1/topics/rolling/claim?wait=20s&lease=30s&max=10", "")
		now := time.Now()
		if ctx.Err() != nil {
			return
		}
		var claimed api.Claimed
		if err := json.Unmarshal(answer, &claimed); status != http.StatusOK || err != nil {
			l.t.Errorf("claim answers %d %s, %v", status, answer, err)
			return
		}
		for _, d := range claimed.Messages {
			l.handle(d, now, host)
		}
	}
}

// handle notes a message and acknowledges it at the daemon it came from.
func (l *load) handle(d api.Delivery, at time.Time, host int) {
	l.mu.Lock()
	l.handled[d.ID]++
	l.late = append(l.late, at.Sub(d.Due))
	l.mu.Unlock()
	status, answer, unsure := l.call(context.Background(), host, fmt.Sprintf("/v1/topics/rolling/messages/%s/ack?receipt=%d", d.ID, d.Receipt), "")
	unsure = unsure || l.watch.Within(at.Add(-time.Second), time.Now()) > time.Second/2 // its hand-over may have lapsed
	if status != http.StatusNoContent && !(unsure && status == http.StatusConflict) {
		l.t.Errorf("the acknowledgement of %s answers %d %s", d.ID, status, answer)
	}
	if unsure {
		l.mu.Lock()
		l.unsure[d.ID] = true
		l.mu.Unlock()
	}
}

// lateness returns how late the messages since its last call were.
func (l *load) lateness() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.late
	l.late = nil
	if len(all) == 0 {
		return "no message"
	}
	slices.Sort(all)
	return fmt.Sprintf("%d messages, late p50 %v, p99 %v, at most %v", len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
}

// goesOn waits until 50 more messages are handled.
func (l *load) goesOn() {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.handled)
	}
	enough := count() + 50
	if !eventually(func() bool { return count() >= enough }) {
		l.t.Fatalf("only %d messages are handled", count())
	}
}

// missing returns how many messages were published but not handled yet.
func (l *load) missing() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.published {
		if l.handled[id] == 0 {
			n++
		}
	}
	return n
}

// during runs do several times in parallel, until end is called.
func during(times int, do func(ctx context.Context, i int)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range times {
		running.Go(func() { do(ctx, i) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// Two daemons are restarted in turn under load, as for an upgrade: no connection is
// refused, no call fails for good, no message is lost, and no message whose calls were
// all answered is handled twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	one := installed(t, sandbox.Options{Name: "one"})
	one.redis()
	two := installed(t, sandbox.Options{Name: "two", Network: one.Sandbox})
	two.dropIn("bellhop.socket", "[Socket]\nListenStream=\nListenStream=127.0.0.1:8421\n") // both share one loopback
	for _, h := range []*host{one, two} {
		h.Run("systemctl", "enable", "--now", "bellhop.socket", service)
	}
	two.becomes(service, "StatusText", "standby")
	l := newLoad(one, [2]string{"127.0.0.1:8420", "127.0.0.1:8421"})
	enough := during(4, func(ctx context.Context, i int) { l.publish(ctx, fmt.Sprint(i)) })
	stop := during(4, func(ctx context.Context, i int) { l.work(ctx, i%2) })
	defer stop()
	defer enough()
	for range 8 {
		l.goesOn()
	}
	t.Logf("before: %s", l.lateness())
	const rounds = 4
	for range rounds {
		for _, h := range []*host{one, two} {
			h.Run("systemctl", "restart", service)
			l.goesOn()
		}
	}
	t.Logf("with %d restarts: %s", 2*rounds, l.lateness())
	enough()
	eventually(func() bool { return l.missing() == 0 })
	stop()

	t.Logf("%d calls: %d cut off, %d answered with 503", l.calls.Load(), l.cut.Load(), l.later.Load())
	if n := l.missing(); n > 0 {
		t.Errorf("%d of %d messages were lost", n, len(l.published))
	}
	if n := l.refused.Load(); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
	for id, n := range l.handled {
		if n > 1 && !l.unsure[id] {
			t.Errorf("%s was handled %d times, and each call was answered", id, n)
		}
	}
	for _, h := range []*host{one, two} {
		h.shows("bellhop.socket", "NRefused", "0")
		h.shows(service, "NRestarts", "0")
	}
}

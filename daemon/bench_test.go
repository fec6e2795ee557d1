package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/metrics"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// asDaemon is the environment variable that makes a test binary a daemon.
const asDaemon = "TEST_AS_DAEMON"

func runDaemon() error {
	c, err := daemon.Load(os.Environ())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, os.Stderr)})
}

// A remote is a daemon in a process of its own, so that its memory can be measured, with a client.
type remote struct {
	*child.Process
	b     *testing.B
	store *notify.Store
	url   string
	http.Client
}

// startRemote starts one with a Redis of its own, and settings NAME=VALUE.
func startRemote(b *testing.B, settings ...string) *remote {
	b.Helper()
	redis, port := storetest.Server(b), storetest.Port(b)
	r := &remote{b: b, store: storetest.At(b, redis.URL(), ""), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	var err error
	env := append(os.Environ(), asDaemon+"=1", "BELLHOP_LOG_LEVEL=error", "BELLHOP_REDIS_URL="+redis.URL(),
		fmt.Sprintf("BELLHOP_LISTEN=127.0.0.1:%d", port))
	r.Process, err = child.Start(child.Program{Path: os.Args[0], Name: "daemon", Output: os.Stderr, Env: append(env, settings...)})
	storetest.Must(b, err)
	b.Cleanup(r.Stop)
	transport := &http.Transport{MaxIdleConnsPerHost: 10_000, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	r.Client.Transport = transport
	storetest.Must(b, r.Await(b.Context(), storetest.Deadline, func(ctx context.Context) error {
		_, err := r.call(ctx, "GET", "/readyz", nil)
		return err
	}))
	return r
}

// open calls the daemon. A status other than success is an error.
func (r *remote) open(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := r.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		response.Body.Close()
		return nil, fmt.Errorf("%s answers %s", path, response.Status)
	}
	return response.Body, nil
}

// call calls the daemon, and returns its answer.
func (r *remote) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	answer, err := r.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return io.ReadAll(answer)
}

// shows waits until one of the daemon's metrics has a value.
func (r *remote) shows(metric string, value int) {
	r.b.Helper()
	line := fmt.Appendf(nil, "\n%s %g\n", metric, float64(value))
	storetest.Eventually(r.b, metric, func() bool {
		text, err := r.call(r.b.Context(), "GET", "/metrics", nil)
		return err == nil && bytes.Contains(text, line)
	})
}

// memory returns the resident memory of the daemon in MiB (proc(5), VmRSS); zero where there is no such file.
func (r *remote) memory() float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	_, _ = fmt.Sscan(rest, &kib)
	return kib / 1024
}

// BenchmarkPolls measures how late 1,000 long polls on 100 topics are answered, each of which polls again at once.
func BenchmarkPolls(b *testing.B) {
	const polls, topics, size, apart = 1000, 100, 2000, 5 * time.Millisecond
	r := startRemote(b)
	var late storetest.Lateness
	name := func(i int) string { return fmt.Sprint("topic.", i%topics) }
	for i := range polls {
		storetest.Run(b, func(ctx context.Context) error { return r.poll(ctx, name(i), &late) })
	}
	r.shows("bellhop_http_polls", polls)
	for rounds := 1; b.Loop(); rounds++ {
		start := time.Now().Add(2 * time.Second).Truncate(time.Millisecond)
		storetest.Fill(b, r.store, size, func(i int) notify.Message {
			return notify.Message{Topic: name(i), Body: storetest.Payload, Due: start.Add(time.Duration(i) * apart)}
		})
		late.Await(b, size*rounds)
	}
	late.Report(b, "due-to-answer")
	b.ReportMetric(r.memory(), "polls-MiB")
}

// poll polls a topic until ctx ends.
func (r *remote) poll(ctx context.Context, topic string, late *storetest.Lateness) error {
	for ctx.Err() == nil {
		answer, err := r.call(ctx, "POST", "/v1/topics/"+topic+"/claim?wait=60s", nil)
		if err != nil {
			return unless(ctx, err)
		}
		answered := time.Now()
		var claimed api.Claimed
		if err := json.Unmarshal(answer, &claimed); err != nil {
			return err
		}
		for _, m := range claimed.Messages {
			late.Add(answered.Sub(m.Due))
			if _, err := r.call(ctx, "POST", fmt.Sprintf("/v1/topics/%s/messages/%s/ack?receipt=%d", topic, m.ID, m.Receipt), nil); err != nil {
				return unless(ctx, err)
			}
		}
	}
	return nil
}

// unless returns err, or nil if ctx has ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// BenchmarkStreams measures how late the first and the last of 10,000 listeners to server-sent events have a broadcast, in 10 rounds.
func BenchmarkStreams(b *testing.B) {
	const streams, rounds = 10_000, 10
	r := startRemote(b)
	ctx, stop := context.WithCancel(b.Context())
	received := make(chan time.Time, streams)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	for range streams {
		stream, err := r.open(ctx, "GET", "/v1/topics/news/broadcasts", nil)
		storetest.Must(b, err)
		reading.Go(func() { read(stream, received) })
	}
	r.shows("bellhop_http_streams", streams)
	listening := r.memory()
	pub := storetest.Publisher(b, r.store)
	var first, last storetest.Lateness
	for b.Loop() {
		for range rounds {
			p, err := pub.Broadcast(b.Context(), notify.Message{Topic: "news", Body: storetest.Payload, Delay: 300 * time.Millisecond})
			storetest.Must(b, err)
			first.Add(storetest.Receive(b, "a broadcast", received).Sub(p.Due))
			var at time.Time
			for range streams - 1 {
				at = storetest.Receive(b, "a broadcast", received)
			}
			last.Add(at.Sub(p.Due))
		}
	}
	first.Report(b, "first")
	last.Report(b, "last")
	b.ReportMetric(listening, "listening-MiB")
	b.ReportMetric(r.memory(), "after-MiB")
}

// read reads a stream to its end, and reports when each broadcast came.
func read(stream io.ReadCloser, received chan<- time.Time) {
	defer stream.Close()
	lines := bufio.NewReaderSize(stream, 512)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte("event: broadcast")) {
			received <- time.Now()
		}
	}
}

// BenchmarkMillionTopics measures a page of topics and a scrape with a million
// topics, and the publishes meanwhile, also beside calls that do not use Redis.
func BenchmarkMillionTopics(b *testing.B) {
	const topics = 1_000_000
	r := startRemote(b)
	storetest.Fill(b, r.store, topics, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprint("topic.", i), Body: storetest.Payload, Delay: time.Hour}
	})
	timed := func(into *storetest.Lateness, method, path string, body []byte) error {
		began := time.Now()
		_, err := r.call(b.Context(), method, path, body)
		into.Add(time.Since(began))
		return err
	}
	beside := func(name, path string, calls int, apart time.Duration) {
		ticker := time.NewTicker(apart)
		defer ticker.Stop()
		var answers, publishes storetest.Lateness
		stop := storetest.Run(b, func(ctx context.Context) error {
			for ctx.Err() == nil {
				if err := timed(&publishes, "POST", "/v1/topics/other/messages?delay=1h", storetest.Payload); err != nil {
					return err
				}
			}
			return nil
		})
		for range calls {
			<-ticker.C
			storetest.Must(b, timed(&answers, "GET", path, nil))
		}
		stop()
		answers.Report(b, name)
		publishes.Report(b, "publish-beside-"+name)
	}
	for b.Loop() {
		beside("health", "/healthz", 100, time.Millisecond)
		beside("page", "/v1/topics?limit=100", 100, time.Millisecond)
		beside("scrape", "/metrics", 12, metrics.DefaultFresh+time.Millisecond)
	}
}

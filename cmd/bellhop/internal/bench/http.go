package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
)

const serveTimeout = 10 * time.Second

// A served is a daemon of its own that serves HTTP, and a client of it.
type served struct {
	*child.Process
	base   string
	client *http.Client
}

// served calls f while a daemon runs on the stage's store, in a process of its
// own so that its memory is its own, too.
func (s *stage) served(ctx context.Context, conns int, f func(d *served) error) error {
	port, err := child.HoldPort()
	if err != nil {
		return err
	}
	d := &served{
		base:   fmt.Sprintf("http://127.0.0.1:%d", port),
		client: &http.Client{Transport: &http.Transport{MaxIdleConns: conns, MaxIdleConnsPerHost: conns, DisableCompression: true}},
	}
	defer d.client.CloseIdleConnections()
	d.Process, err = child.Start(child.Program{
		Path: s.HTTP, Args: []string{"serve"}, Name: "bellhop serve", Env: s.environment(port),
	})
	if err != nil {
		return err
	}
	defer d.Stop()
	if err := d.Await(ctx, serveTimeout, func(ctx context.Context) error {
		_, err := d.call(ctx, http.MethodGet, "/readyz", "", nil)
		return err
	}); err != nil {
		return err
	}
	return f(d)
}

// environment returns that of a daemon on the stage's store and a port.
func (s *stage) environment(port int) []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "BELLHOP_") {
			env = append(env, variable)
		}
	}
	for name, value := range map[string]string{
		"REDIS_URL": s.redis.URL, "REDIS_MASTER": s.redis.Master, "REDIS_USERNAME": s.redis.Username,
		"REDIS_PASSWORD_FILE": s.redis.PasswordFile, "REDIS_CA_FILE": s.redis.CAFile, "PREFIX": s.redis.Prefix,
		"REDIS_SENTINEL_USERNAME": s.redis.SentinelUsername, "REDIS_SENTINEL_PASSWORD_FILE": s.redis.SentinelPasswordFile,
		"REDIS_CERT_FILE": s.redis.CertFile, "REDIS_KEY_FILE": s.redis.KeyFile, "WAIT_REPLICAS": strconv.Itoa(s.redis.WaitReplicas),
		"LISTEN": "127.0.0.1:" + strconv.Itoa(port), "LOG_LEVEL": "error",
	} {
		if value != "" {
			env = append(env, "BELLHOP_"+name+"="+value)
		}
	}
	return env
}

// call calls the daemon, and returns what it answers.
func (d *served) call(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	response, err := d.open(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// open calls the daemon, and returns its answer to be read. What is no success is an error.
func (d *served) open(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return response, nil
}

// tellMemory tells the resident memory of the daemon (proc(5), VmRSS).
func (d *served) tellMemory(s *stage, when string) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Pid()))
	if err != nil {
		return // there is none but on Linux
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			s.tell("resident memory of the daemon "+when, kib/1024, "MiB")
		}
	}
}

const (
	httpConns   = 64
	httpBatch   = 500 // lines
	httpBatches = 4   // that are under way at a time
)

// measureHTTPPublish publishes messages that are due in an hour: in single
// calls over 64 connections, and in batches of lines.
func measureHTTPPublish(ctx context.Context, s *stage) error {
	return s.served(ctx, httpConns, func(d *served) error {
		body := s.body()
		took, err := shared(httpConns, s.Messages, func(int) error {
			_, err := d.call(ctx, http.MethodPost, "/v1/topics/"+topic+"/messages?delay=1h", "text/plain", body)
			return err
		})
		if err != nil {
			return err
		}
		s.tell("single calls over 64 connections", float64(s.Messages)/took.Seconds(), "messages/s")

		line, err := json.Marshal(map[string]string{"topic": topic + ".batch", "delay": "1h", "body": string(body)})
		if err != nil {
			return err
		}
		lines := bytes.Repeat(append(line, '\n'), httpBatch)
		batches := 4 * s.Messages / httpBatch
		took, err = shared(httpBatches, batches, func(int) error {
			answer, err := d.call(ctx, http.MethodPost, "/v1/messages", "application/x-ndjson", lines)
			if refused := bytes.Count(answer, []byte(`"error"`)); err == nil && refused > 0 {
				err = fmt.Errorf("%d lines were refused: %.500s", refused, answer)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.tell("batches of 500 lines", float64(batches*httpBatch)/took.Seconds(), "messages/s")
		d.tellMemory(s, "after it")
		return nil
	})
}

// shared calls f n times in all from so many goroutines, and returns how long that took.
func shared(goroutines, n int, f func(i int) error) (time.Duration, error) {
	var next atomic.Int64
	began := time.Now()
	err := each(goroutines, func(int) error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := f(i); err != nil {
				return err
			}
		}
	})
	return time.Since(began), err
}

// A claimed is what is read of the answer to a claim.
type claimed struct {
	Messages []struct {
		ID      string    `json:"id"`
		Receipt int64     `json:"receipt"`
		Due     time.Time `json:"due"`
	} `json:"messages"`
}

// claim claims over HTTP.
func (d *served) claim(ctx context.Context, topic, query string) (got claimed, err error) {
	answer, err := d.call(ctx, http.MethodPost, "/v1/topics/"+topic+"/claim?"+query, "", nil)
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(answer, &got)
}

// ack acknowledges what was claimed of a topic, in one call.
func (d *served) ack(ctx context.Context, topic string, got claimed) error {
	type receipt struct {
		ID      string `json:"id"`
		Receipt int64  `json:"receipt"`
	}
	var receipts []receipt
	for _, m := range got.Messages {
		receipts = append(receipts, receipt{m.ID, m.Receipt})
	}
	body, err := json.Marshal(receipts)
	if err != nil {
		return err
	}
	_, err = d.call(ctx, http.MethodPost, "/v1/topics/"+topic+"/ack", "application/json", body)
	return err
}

const httpWorkers = 4

// measureHTTPClaim takes the rate at which messages that are ready are claimed,
// 100 in a call, and acknowledged.
func measureHTTPClaim(ctx context.Context, s *stage) error {
	body := s.body()
	if err := s.fill(ctx, s.Messages, func(int) notify.Message { return notify.Message{Topic: topic, Body: body} }); err != nil {
		return err
	}
	return s.served(ctx, httpConns, func(d *served) error {
		began := time.Now()
		err := each(httpWorkers, func(int) error {
			for {
				got, err := d.claim(ctx, topic, "max=100")
				if err != nil || len(got.Messages) == 0 {
					return err
				}
				if err := d.ack(ctx, topic, got); err != nil {
					return err
				}
			}
		})
		if err != nil {
			return err
		}
		s.tell("claimed 100 at a time and acknowledged", float64(s.Messages)/time.Since(began).Seconds(), "messages/s")
		return nil
	})
}

const (
	polls      = 1000
	pollTopics = 100
	pollRounds = 2000
	pollApart  = 5 * time.Millisecond
)

// measureHTTPPoll takes the time from due until a long poll has its answer,
// with 1,000 polls open on 100 topics, each of which polls again at once.
func measureHTTPPoll(ctx context.Context, s *stage) error {
	return s.served(ctx, polls, func(d *served) error {
		polling, stop := context.WithCancel(ctx)
		defer stop()
		late := newTally(pollRounds)
		ended := make(chan error, 1)
		go func() {
			ended <- each(polls, func(i int) error { return s.poll(polling, d, topic+"."+strconv.Itoa(i%pollTopics), late) })
		}()
		for i := range pollTopics {
			if err := s.ready(ctx, topic+"."+strconv.Itoa(i), 1); err != nil {
				return err
			}
		}
		if err := s.opened(ctx, d, "bellhop_http_polls", polls); err != nil {
			return err
		}
		start := s.now().Add(2 * time.Second).Truncate(time.Millisecond)
		if err := s.fill(ctx, pollRounds, func(i int) notify.Message {
			return notify.Message{Topic: topic + "." + strconv.Itoa(i%pollTopics), Body: s.body(), Due: start.Add(time.Duration(i) * pollApart)}
		}); err != nil {
			return err
		}
		if err := late.wait(ctx); err != nil {
			return err
		}
		late.tell(s, "due to answer")
		d.tellMemory(s, "with 1,000 polls")
		stop()
		return <-ended
	})
}

// poll polls a topic until ctx ends.
func (s *stage) poll(ctx context.Context, d *served, topic string, late *tally) error {
	for {
		got, err := d.claim(ctx, topic, "wait=60s")
		answered := s.now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case len(got.Messages) == 0:
			continue
		}
		late.add(answered.Sub(got.Messages[0].Due))
		if err := d.ack(ctx, topic, got); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// opened waits until one of the daemon's metrics has a value.
func (s *stage) opened(ctx context.Context, d *served, metric string, value int) error {
	for {
		text, err := d.call(ctx, http.MethodGet, "/metrics", "", nil)
		if err != nil || bytes.Contains(text, []byte("\n"+metric+" "+strconv.FormatFloat(float64(value), 'g', -1, 64)+"\n")) {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

const (
	streams       = 10_000
	streamRounds  = 10
	streamsAtOnce = 200 // that are opened at a time
)

// measureHTTPListen takes the time from due until the last of 10,000 listeners
// to server-sent events has a broadcast.
func measureHTTPListen(ctx context.Context, s *stage) error {
	return s.served(ctx, streams, func(d *served) error {
		listening, stop := context.WithCancel(ctx)
		defer stop()
		heard := make(chan time.Time, streams)
		var all sync.WaitGroup
		_, err := shared(streamsAtOnce, streams, func(int) error {
			response, err := d.open(listening, http.MethodGet, "/v1/topics/"+topic+"/broadcasts", "", nil)
			if err != nil {
				return err
			}
			all.Go(func() { s.follow(response.Body, heard) })
			return nil
		})
		if err == nil {
			err = s.opened(ctx, d, "bellhop_http_streams", streams)
		}
		if err == nil {
			d.tellMemory(s, "with 10,000 listeners")
			err = s.broadcasts(ctx, heard)
		}
		if err == nil {
			d.tellMemory(s, "after it")
		}
		stop()
		all.Wait()
		return err
	})
}

// follow reads a stream to its end, and tells when each broadcast came.
func (s *stage) follow(stream io.ReadCloser, heard chan<- time.Time) {
	defer stream.Close()
	lines := bufio.NewReaderSize(stream, 512)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte("event: broadcast")) {
			heard <- s.now()
		}
	}
}

// broadcasts sends a few broadcasts, and takes the time until each listener has it.
func (s *stage) broadcasts(ctx context.Context, heard <-chan time.Time) error {
	last, first := newTally(streamRounds), newTally(streamRounds)
	for range streamRounds {
		p, err := s.pub.Broadcast(ctx, notify.Message{Topic: topic, Body: s.body(), Delay: 300 * time.Millisecond})
		if err != nil {
			return err
		}
		for i := range streams {
			select {
			case at := <-heard:
				if i == 0 {
					first.add(at.Sub(p.Due))
				}
				if i == streams-1 {
					last.add(at.Sub(p.Due))
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	first.tell(s, "due until the first has it")
	last.tell(s, "due until the last has it")
	return nil
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
)

const (
	httpConns   = 64
	httpBatch   = 500 // lines
	httpCallers = 4   // of batches and claims
	httpClaim   = 100 // messages
)

// measureHTTP publishes over HTTP, in single calls and in batches, and claims and
// acknowledges what is ready.
func measureHTTP(ctx context.Context, s *stage) error {
	gate, err := httpapi.New(s.store, httpapi.Options{Logger: quiet()})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: httpConns, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := client{base: "http://" + l.Addr().String() + "/v1", http: http.Client{Transport: transport}}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- gate.Run(serving, l) }()
	for _, measure := range []func(context.Context, *stage) error{c.publish, c.publishLines, c.work} {
		if err = measure(ctx, s); err != nil {
			break
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// A client calls a gate to HTTP.
type client struct {
	base string
	http http.Client
}

// call sends a body, and returns what is answered. What is no success is an error.
func (c *client) call(ctx context.Context, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, answer)
	}
	return answer, err
}

// publish publishes messages that are due in an hour, each in a call of its own.
func (c *client) publish(ctx context.Context, s *stage) error {
	body := s.body()
	took, err := shared(httpConns, s.Messages, func() error {
		_, err := c.call(ctx, "/topics/"+topic+"/messages?delay=1h", "text/plain", body)
		return err
	})
	if err == nil {
		s.report("single calls over 64 connections", float64(s.Messages)/took.Seconds(), "messages/s")
	}
	return err
}

// publishLines publishes such messages in batches of lines.
func (c *client) publishLines(ctx context.Context, s *stage) error {
	line, err := json.Marshal(map[string]string{"topic": topic + ".batch", "delay": "1h", "body": string(s.body())})
	if err != nil {
		return err
	}
	lines := bytes.Repeat(append(line, '\n'), httpBatch)
	batches := 4 * s.Messages / httpBatch
	took, err := shared(httpCallers, batches, func() error {
		answer, err := c.call(ctx, "/messages", "application/x-ndjson", lines)
		if refused := bytes.Count(answer, []byte(`"error"`)); err == nil && refused > 0 {
			err = fmt.Errorf("%d lines were refused: %.500s", refused, answer)
		}
		return err
	})
	if err == nil {
		s.report("batches of 500 lines", float64(batches*httpBatch)/took.Seconds(), "messages/s")
	}
	return err
}

// shared calls f n times in all from so many goroutines, and returns how long that took.
func shared(goroutines, n int, f func() error) (time.Duration, error) {
	var calls atomic.Int64
	began := time.Now()
	err := each(goroutines, func(int) error {
		for calls.Add(1) <= int64(n) {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Since(began), err
}

// work claims and acknowledges messages that are ready.
func (c *client) work(ctx context.Context, s *stage) error {
	body := s.body()
	if err := s.fill(ctx, s.Messages, func(int) notify.Message { return notify.Message{Topic: topic + ".work", Body: body} }); err != nil {
		return err
	}
	began := time.Now()
	err := each(httpCallers, func(int) error {
		for {
			n, err := c.claimAndAck(ctx, topic+".work")
			if err != nil || n == 0 {
				return err
			}
		}
	})
	if err == nil {
		s.report("claimed 100 at a time and acknowledged", float64(s.Messages)/time.Since(began).Seconds(), "messages/s")
	}
	return err
}

// claimAndAck claims messages of a topic and acknowledges them, and returns how many there were.
func (c *client) claimAndAck(ctx context.Context, topic string) (int, error) {
	answer, err := c.call(ctx, fmt.Sprintf("/topics/%s/claim?max=%d", topic, httpClaim), "", nil)
	if err != nil {
		return 0, err
	}
	var claimed struct{ Messages []api.Receipt }
	if err := json.Unmarshal(answer, &claimed); err != nil || len(claimed.Messages) == 0 {
		return 0, err
	}
	receipts, err := json.Marshal(claimed.Messages)
	if err != nil {
		return 0, err
	}
	_, err = c.call(ctx, "/topics/"+topic+"/ack", "application/json", receipts)
	return len(claimed.Messages), err
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
)

const (
	httpConns   = 64
	httpBatch   = 500 // lines
	httpCallers = 4   // of batches and claims
	httpClaim   = 100 // messages
	httpRounds  = 100 // of long polls
)

// measureHTTP polls over HTTP, and takes the rates of HTTP.
func measureHTTP(ctx context.Context, s *stage) error {
	c, done := newClient(s.served.address)
	defer done()
	if err := c.wake(ctx, s); err != nil {
		return err
	}
	return c.rates(ctx, s)
}

// HTTP takes the rates of a daemon of any version that serves HTTP at an address, with an
// empty store: it calls nothing but the daemon. Of the options, those of messages and
// bodies count.
func HTTP(ctx context.Context, address string, o Options) ([]Figure, error) {
	c, done := newClient(address)
	defer done()
	s := &stage{Options: o.withDefaults(), name: "http"}
	err := c.rates(ctx, s)
	return s.figures, err
}

// A client calls the daemon over HTTP.
type client struct {
	base string
	http http.Client
}

func newClient(address string) (c *client, done func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: httpConns, DisableCompression: true}
	return &client{base: "http://" + address + "/v1", http: http.Client{Transport: transport}}, transport.CloseIdleConnections // or the daemon would wait for them when it stops
}

// rates publishes in single calls and in batches, and claims and acknowledges what is ready.
func (c *client) rates(ctx context.Context, s *stage) error {
	for _, measure := range []func(context.Context, *stage) error{c.publish, c.publishLines, c.work} {
		if err := measure(ctx, s); err != nil {
			return err
		}
	}
	return nil
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
		s.rate("single calls over 64 connections", s.Messages, took)
	}
	return err
}

// publishLines publishes such messages in batches of lines.
func (c *client) publishLines(ctx context.Context, s *stage) error {
	n, took, err := c.fill(ctx, 4*s.Messages, map[string]string{"topic": topic + ".batch", "delay": "1h", "body": string(s.body())})
	if err == nil {
		s.rate("batches of 500 lines", n, took)
	}
	return err
}

// fill publishes at least n lines in batches, and returns how many, and how long that took.
func (c *client) fill(ctx context.Context, n int, message map[string]string) (int, time.Duration, error) {
	line, err := json.Marshal(message)
	if err != nil {
		return 0, 0, err
	}
	lines := bytes.Repeat(append(line, '\n'), httpBatch)
	batches := (n + httpBatch - 1) / httpBatch
	took, err := shared(httpCallers, batches, func() error {
		answer, err := c.call(ctx, "/messages", "application/x-ndjson", lines)
		if refused := bytes.Count(answer, []byte(`"error"`)); err == nil && refused > 0 {
			err = fmt.Errorf("%d lines were refused: %.500s", refused, answer)
		}
		return err
	})
	return batches * httpBatch, took, err
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
	n, _, err := c.fill(ctx, s.Messages, map[string]string{"topic": topic + ".work", "body": string(s.body())})
	if err != nil {
		return err
	}
	began := time.Now()
	err = each(httpCallers, func(int) error {
		for {
			n, err := c.claimAndAck(ctx, topic+".work")
			if err != nil || n == 0 {
				return err
			}
		}
	})
	if err == nil {
		s.rate("claimed 100 at a time and acknowledged", n, time.Since(began))
	}
	return err
}

// claimAndAck claims messages of a topic and acknowledges them, and returns how many there were.
func (c *client) claimAndAck(ctx context.Context, topic string) (int, error) {
	answer, err := c.call(ctx, fmt.Sprintf("/topics/%s/claim?max=%d", topic, httpClaim), "", nil)
	if err != nil {
		return 0, err
	}
	all, err := readClaimed(answer)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return len(all), c.ack(ctx, topic, all)
}

// claimed is what is needed of a claimed message.
type claimed struct {
	api.Receipt
	Due time.Time `json:"due"`
}

func readClaimed(answer []byte) ([]claimed, error) {
	var all struct{ Messages []claimed }
	err := json.Unmarshal(answer, &all)
	return all.Messages, err
}

// ack acknowledges messages of a topic.
func (c *client) ack(ctx context.Context, topic string, all []claimed) error {
	receipts := make([]api.Receipt, len(all))
	for i, one := range all {
		receipts[i] = one.Receipt
	}
	body, err := json.Marshal(receipts)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, "/topics/"+topic+"/ack", "application/json", body)
	return err
}

// wake takes how late a long poll is answered that waits for a single message with nothing else going on.
func (c *client) wake(ctx context.Context, s *stage) error {
	n := min(httpRounds, s.Messages)
	late := newTally(n)
	for range n {
		took, err := c.poll(ctx, s)
		if err != nil {
			return err
		}
		late.add(took)
	}
	late.report(s, "long poll, due to answer")
	return nil
}

// poll polls, publishes a delayed message once everything rests, and returns how late the answer came.
func (c *client) poll(ctx context.Context, s *stage) (time.Duration, error) {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var answer []byte
	var at time.Time
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		var err error
		answer, err = c.call(running, "/topics/"+topic+"/claim?wait=30s", "", nil)
		if at = s.now(); err != nil {
			stop(err)
		}
	}()
	if err := c.publishAfterRest(running, s); err != nil {
		stop(err)
	}
	<-polled
	if err := context.Cause(running); err != nil {
		return 0, err
	}
	all, err := readClaimed(answer)
	if err != nil || len(all) != 1 {
		return 0, errors.Join(err, fmt.Errorf("a long poll was answered with %d messages", len(all)))
	}
	return at.Sub(all[0].Due), c.ack(ctx, topic, all)
}

// publishAfterRest publishes a delayed message after a rest.
func (c *client) publishAfterRest(ctx context.Context, s *stage) error {
	if err := s.rest(ctx); err != nil {
		return err
	}
	_, err := c.call(ctx, fmt.Sprintf("/topics/%s/messages?delay=%dms", topic, idleDelay().Milliseconds()), "text/plain", s.body())
	return err
}

package crash_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A served is a process of a daemon that serves HTTP.
type served struct {
	*process
	t    *testing.T
	base string
}

// serveHTTP starts a daemon at a port, with more settings NAME=VALUE, and waits until it is ready.
func serveHTTP(t *testing.T, store *notify.Store, port int, env ...string) *served {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p := start(t, store, "daemon", func(string) {}, append(env,
		"BELLHOP_REDIS_URL="+store.Address(), "BELLHOP_PREFIX="+store.Keys().Prefix(), "BELLHOP_LISTEN="+address)...)
	s := &served{p, t, "http://" + address}
	storetest.Eventually(t, "it is ready", func() bool {
		status, _, err := s.try(http.MethodGet, "/readyz", "")
		return err == nil && status == http.StatusOK
	})
	return s
}

// try makes a call over a connection of its own.
func (s *served) try(method, path, body string) (status int, answer []byte, err error) {
	request, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: storetest.Deadline}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// call makes a call that must succeed.
func (s *served) call(method, path, body string) []byte {
	s.t.Helper()
	status, answer, err := s.try(method, path, body)
	if err != nil || status >= 300 {
		s.t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
	}
	return answer
}

// claim waits for a message and claims it.
func (s *served) claim(query string) api.Delivery {
	s.t.Helper()
	var got api.Claimed
	answer := s.call(http.MethodPost, "/v1/topics/"+topic+"/claim?wait=1m&"+query, "")
	if err := json.Unmarshal(answer, &got); err != nil || len(got.Messages) != 1 {
		s.t.Fatalf("claimed %s, %v", answer, err)
	}
	return got.Messages[0]
}

// The daemon is killed while one client holds a message and another one waits. Acknowledged
// publishes are there, the receipt is valid at the next daemon, and a message whose lease
// expired comes again.
func TestKillDaemonOverHTTP(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	port := storetest.Port(t)
	first := serveHTTP(t, store, port)
	for _, id := range []string{"kept", "lost"} {
		first.call(http.MethodPost, "/v1/topics/"+topic+"/messages?id="+id, "x")
	}
	kept := first.claim("lease=1m")
	lost := first.claim("lease=1s")
	waiting := make(chan error, 1)
	go func() { // of a topic where nothing becomes ready before the daemon is killed
		_, _, err := first.try(http.MethodPost, "/v1/topics/other/claim?wait=1m", "")
		waiting <- err
	}()
	storetest.Eventually(t, "a poll waits", func() bool {
		_, metrics, err := first.try(http.MethodGet, "/metrics", "")
		return err == nil && bytes.Contains(metrics, []byte("\nbellhop_http_polls 1\n"))
	})
	first.call(http.MethodPost, "/v1/topics/"+topic+"/messages?id=later&delay=2s", "x")
	first.end(syscall.SIGKILL)
	if err := storetest.Receive(t, "the end of the poll", waiting); err == nil {
		t.Error("the killed daemon answered a poll")
	}

	second := serveHTTP(t, store, port)
	second.call(http.MethodPost, fmt.Sprintf("/v1/topics/%s/messages/%s/ack?receipt=%d", topic, kept.ID, kept.Receipt), "")
	got := make(map[string]int)
	for range 2 {
		d := second.claim("lease=1m")
		got[d.ID] = d.Attempt
		if late := time.Since(d.Due); late < 0 {
			t.Errorf("%s is early by %v", d.ID, -late)
		}
		second.call(http.MethodPost, fmt.Sprintf("/v1/topics/%s/messages/%s/ack?receipt=%d", topic, d.ID, d.Receipt), "")
	}
	if got[lost.ID] != 2 || got["later"] != 1 {
		t.Errorf("the attempts are %v", got)
	}
	gone(t, store)
}

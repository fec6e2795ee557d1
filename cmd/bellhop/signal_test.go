package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// A command that runs until a signal exits with 0 after it.
func TestSignalsThatDrain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	for _, call := range []string{"serve", "work t", "listen t", "listen t --name n"} {
		p := s.start(strings.Fields(call)...)
		p.await(1, "msg=")
		p.stop()
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		p := s.launch(s.command("work", "t"))
		p.await(1, "msg=")
		p.signal(sig)
		p.ends(exitDone)
	}
	offline := newShell(t, "BELLHOP_REDIS_URL=redis://127.0.0.1:1")
	for _, call := range []string{"serve", "work t", "listen t", "listen t --name n"} {
		p := offline.start(strings.Fields(call)...)
		p.await(1, "retrying")
		p.stop()
	}
}

// A second signal ends a daemon at once, even during a request.
func TestSecondSignalEndsServe(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.launch(s.command("serve"))
	p.await(1, "serving http")
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(p.said())[1]
	conn, err := net.Dial("tcp", address)
	storetest.Must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if _, err := conn.Read(make([]byte, 100)); err != nil { // the daemon asks for the body
		t.Fatal(err)
	}
	p.signal(os.Interrupt)
	p.await(1, "msg=stopping")
	p.signal(syscall.SIGTERM)
	p.ends(exitInterrupted)
}

// The counts are reported at the end, also after a failure.
func TestCountsAreReported(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "*", "backoff_min=1ms", "backoff_max=1ms")
	s.serve()
	s.publish("t", 3)
	r := s.feed("", "work", "t", "--count", "3", "--", "sh", "-c", `test "$MESSAGE_ID$MESSAGE_ATTEMPT" != 21`)
	if !strings.HasSuffix(r.err, "\nbellhop: handled 3, failed 1\n") || r.out != "" {
		t.Errorf("got %+v", r)
	}
	if r := s.feed("", "work", "t", "--json", "--concurrency", "10001"); !strings.Contains(r.err, "bellhop: handled 0, failed 0\n") || r.out != "" {
		t.Errorf("got %+v", r)
	}
	p := s.listen("t", "--name", "n")
	s.broadcast("t 1", "t 2")
	p.await(1, "body 2")
	p.stop()
	if !strings.HasSuffix(p.said(), "bellhop: handled 2, failed 0\n") {
		t.Errorf("got %s", p.said())
	}
	gone := s.listen("t", "--name", "n")
	s.call("listeners", "remove", "n")
	gone.ends(exitFailed)
	contains(t, gone.said(), "bellhop: handled 0, failed 0\n", "it was removed")
}

package main

import (
	"fmt"
	"net"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// The log and the status name the error that keeps a service from Redis, and the setting to check.
func TestServiceReportsWhyItWaits(t *testing.T) {
	t.Parallel()
	locked := storetest.Server(t, "--requirepass", "right")
	web := httptest.NewServer(nil)
	defer web.Close()
	for _, test := range []struct{ url, fault, remedy string }{
		{"redis://:geheim@" + locked.Addr(), "WRONGPASS ", "check BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME and BELLHOP_REDIS_PASSWORD_FILE"},
		{"redis://" + web.Listener.Addr().String(), `what answers there is no Redis: it says "HTTP/1.1 400 Bad Request"`, "check that BELLHOP_REDIS_URL names the address and port of a Redis"},
	} {
		for _, call := range []string{"serve", "work t"} {
			m, variable := newManager(t)
			p := newShell(t, variable, "BELLHOP_LOG_FORMAT=json", "BELLHOP_REDIS_URL="+test.url).start(strings.Fields(call)...)
			m.awaitMatch("STATUS=.*waiting for Redis at redis://.*: " + regexp.QuoteMeta(test.fault) + ".*; " + regexp.QuoteMeta(test.remedy))
			p.await(1, `"remedy":"`+test.remedy)
			p.stop()
			contains(t, p.said(), strings.ReplaceAll(test.fault, `"`, `\"`))
			if strings.Contains(p.said(), "geheim") {
				t.Errorf("the password is logged:\n%s", p.said())
			}
		}
	}
}

func TestNoRedis(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(nil)
	defer web.Close()
	url := "redis://" + web.Listener.Addr().String()
	where := ""
	if n := storetest.Shards(); n > 1 {
		where = fmt.Sprintf(", shard 0/%d", n)
	}
	want := "redis at " + url + where + `: what answers there is no Redis: it says "HTTP/1.1 400 Bad Request"; check that BELLHOP_REDIS_URL names the address and port of a Redis, with rediss:// if it requires TLS`
	for _, call := range []string{"topics", "publish t --body x", "listeners", "carrier"} {
		got := newShell(t).fails(exitFailed, append(strings.Fields(call), "--redis", url)...)
		if !strings.HasSuffix(got, want+"\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("bellhop %s: got %s", call, got)
		}
	}
	greeter, err := net.Listen("tcp", "127.0.0.1:0") // as a mail server does
	storetest.Must(t, err)
	defer greeter.Close()
	go func() {
		for conn, err := greeter.Accept(); err == nil; conn, err = greeter.Accept() {
			fmt.Fprint(conn, "220 \x1b[2Jmail ESMTP\r\n")
		}
	}()
	contains(t, newShell(t).fails(exitFailed, "topics", "--redis", "redis://"+greeter.Addr().String()), `no Redis: it says "220 \x1b[2Jmail ESMTP"; check that`)
}

// While Redis loads its data, the daemon waits.
func TestLoadingIsNoError(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t, "--key-load-delay", "100000", "--rdbcompression", "no", "--loading-process-events-interval-bytes", "1024") // Redis answers after so many
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer client.Close()
	_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 600 {
			p.Set(t.Context(), fmt.Sprintf("key:%d", i), strings.Repeat("x", 1024), 0)
		}
		p.Save(t.Context())
		return nil
	})
	storetest.Must(t, err)
	server.Kill()
	again := make(chan error, 1)
	go func() {
		next, err := server.Restart(t.Context())
		if err == nil {
			t.Cleanup(next.Stop)
		}
		again <- err
	}()
	storetest.Eventually(t, "it is loading", func() bool { return redis.HasErrorPrefix(client.Ping(t.Context()).Err(), "LOADING") })
	m, variable := newManager(t)
	p := newShell(t, variable, "BELLHOP_REDIS_URL="+server.URL()).start("serve")
	m.await("STATUS=waiting for Redis at " + server.URL() + ": LOADING Redis is loading the dataset in memory; Redis has just started: wait until it has loaded its data")
	p.await(1, "cannot stand for election; retrying\" ") // once that lasts
	storetest.Must(t, client.ConfigSet(t.Context(), "key-load-delay", "0").Err())
	p.await(1, "msg=elected")
	storetest.Must(t, storetest.Receive(t, "Redis is there", again))
	contains(t, p.said(), `level=INFO msg="cannot stand for election; retrying"`, `remedy="Redis has just started: wait until it has loaded its data"`)
	if strings.Contains(p.said(), "level=ERROR") {
		t.Errorf("it is logged as an error:\n%s", p.said())
	}
	p.stop()
}

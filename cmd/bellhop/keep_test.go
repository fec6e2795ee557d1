package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What a command prints is kept as the result of its message, and printed all the same.
func TestWorkKeeps(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 1)
	contains(t, s.call("work", "t", "--count", "1", "--keep", "1h", "--name", "shop-1", "--", "sh", "-c", `echo made of; cat`), "made of\nbody 1")
	var m api.Message
	s.json(&m, "inspect", "t", "1", "--json")
	if m.State != notify.Done || *m.Result.Result != "made of\nbody 1" {
		t.Errorf("got %+v", m)
	}
	contains(t, s.call("inspect", "t", "1"), "state           done\n", "acknowledged    ", "by              shop-1\n", "id taken until  ", "result          14 bytes\n", "\n\"made of\\nbody 1\"\n")
	contains(t, s.call("inspect", "t", "--state", "done"), "RESULT\n1   done ", `"made of\nbody 1"`)
	contains(t, s.fails(exitFailed, "publish", "t", "--id", "1", "--body", "x"), "1")
	s.call("cancel", "t", "1")
	contains(t, s.fails(exitFailed, "inspect", "t", "1"), "no such message")
}

// A message is kept without a result if the command prints nothing, prints too much, or
// there is none.
func TestWorkKeepsWithoutResult(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 3)
	r := s.feed("", "work", "t", "--count", "3", "--keep", "1h", "--", "sh", "-c",
		`case $MESSAGE_ID in 1) ;; 2) head -c `+strconv.Itoa(store.MaxResult)+` /dev/zero ;; 3) head -c `+strconv.Itoa(store.MaxResult+1)+` /dev/zero ;; esac`)
	if r.code != exitDone || strings.Count(r.err, "the result is too large") != 1 || !strings.Contains(r.err, "id=3 bytes=65537") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	s.publish("u", 1)
	contains(t, s.call("work", "u", "--count", "1", "--keep", "1h"), "body 1\n")
	for id, most := range map[string]int{"t 1": -1, "t 2": store.MaxResult, "t 3": -1, "u 1": -1} {
		var m api.Message
		s.json(&m, append(append([]string{"inspect"}, strings.Fields(id)...), "--json")...)
		got := -1
		if m.Result.Result != nil {
			got = len(*m.Result.Result)
		}
		if m.State != notify.Done || got != most {
			t.Errorf("%s is %s with %d bytes of result, want %d", id, m.State, got, most)
		}
	}
}

// A message whose command succeeded while Redis is away is kept when that is back: its command runs once.
func TestWorkKeepsOverAnOutage(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	s := newShell(t, "BELLHOP_REDIS_URL="+server.URL(), "BELLHOP_SHARDS=1")
	s.call("topics", "set", "t", "lease=1h")
	s.publish("t", 1)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	info, err := client.Info(t.Context(), "server").Result()
	storetest.Must(t, err)
	_, pid, _ := strings.Cut(info, "process_id:")
	pid, _, _ = strings.Cut(pid, "\r")
	p := s.start("work", "t", "--count", "1", "--keep", "1h", "--", "sh", "-c", "echo run; kill -STOP "+pid)
	p.await(1, "cannot acknowledge a message that succeeded; retrying")
	storetest.Must(t, server.Signal(syscall.SIGCONT))
	p.ends(exitDone)
	if n := strings.Count(p.said(), "run\n"); n != 1 {
		t.Errorf("its command ran %d times:\n%s", n, p.said())
	}
	var m api.Message
	s.json(&m, "inspect", "t", "1", "--json")
	if m.State != notify.Done || len(m.History) > 0 {
		t.Errorf("got %+v", m)
	}
}

// A failed attempt is in the history, under the name of its worker.
func TestInspectShowsAttempts(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.call("topics", "set", "t", "backoff_min=1ms", "backoff_max=1ms")
	s.publish("t", 1)
	s.start("serve")
	s.call("work", "t", "--count", "1", "--name", "shop-1", "--", "sh", "-c", `echo "broken $MESSAGE_ATTEMPT" >&2; test $MESSAGE_ATTEMPT = 1 || exit 65; exit 1`)
	out := s.call("inspect", "t", "1")
	contains(t, out, "\nFAILED ", " shop-1  exit status 1: broken 1\n", "  exit status 65: broken 2 (buried by the handler)\n") // the second may have been handed over, and failed at once
	var m api.Message
	s.json(&m, "inspect", "t", "1", "--json")
	if len(m.History) != 2 || m.History[0].Worker != "shop-1" || m.History[0].Reason != "exit status 1: broken 1" || m.History[1].Ended.Before(m.History[0].Ended) {
		t.Errorf("got %+v", m.History)
	}
}

// A leased message tells who has it, and workers lists everybody who is there.
func TestWorkers(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("workers"), "nobody is there")
	if out := s.call("workers", "--json"); out != `{"workers":[]}`+"\n" {
		t.Errorf("got %q", out)
	}
	storetest.Beat(t, storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX")))
	s.publish("t", 1)
	p := s.start("work", "t", "--name", "shop-1", "--", "sh", "-c", "echo began; exec sleep 60")
	p.await(1, "began")
	contains(t, s.call("inspect", "t", "1"), "state         leased\n", "leased by     shop-1\n", "leased since  ")
	s.listen("prices.*")
	var list calls.Workers
	storetest.Eventually(t, "both are there", func() bool {
		s.json(&list, "workers", "--json")
		return len(list.Workers) == 2
	})
	all := list.Workers
	out := s.call("workers")
	contains(t, out, "NAME ", " KIND ", " HOST ", " SINCE ", " LEASED ", " VERSION ", " TOPICS\n", "shop-1 ", " worker ", " listener ", "prices.*\n")
	for _, w := range all {
		if (w.Kind == "worker") != (w.Leased != nil && *w.Leased == 1) || w.Least {
			t.Errorf("a %s has %v leased", w.Kind, w.Leased)
		}
	}
	for line := range strings.Lines(s.onTerminal("workers")) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// inspect --wait ends with the message, and its exit code says how that ended.
func TestInspectWaits(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("t", 3)
	waits := map[string]*process{}
	for _, id := range []string{"1", "2", "3"} {
		waits[id] = s.start("inspect", "t", id, "--wait", "10m")
	}
	contains(t, s.fails(exitFailed, "inspect", "t", "4", "--wait", "10m"), "no such message")
	out := s.feed("", "inspect", "t", "1", "--wait", "10ms")
	if out.code != exitEarly || !strings.Contains(out.out, "ready") {
		t.Errorf("exit %d: %s%s", out.code, out.out, out.err)
	}
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Eventually(t, "all wait", func() bool {
		noted, err := store.Client().HVals(t.Context(), store.Keys().Extras()).Result()
		return err == nil && strings.Count(strings.Join(noted, "\n"), " await=") == 3
	})
	s.call("work", "t", "--count", "1", "--keep", "1h", "--", "echo", "made")
	s.call("work", "t", "--count", "1", "--", "sh", "-c", "echo broken >&2; exit 65")
	s.call("work", "t", "--count", "1")
	for id, code := range map[string]int{"1": exitDone, "2": exitDead, "3": exitGone} {
		waits[id].ends(code)
	}
	contains(t, waits["1"].said(), "\nmade\n")
	contains(t, waits["2"].said(), "exit status 65: broken")
	contains(t, waits["3"].said(), "nothing is kept of it")
	for id, code := range map[string]int{"1": exitDone, "2": exitDead} { // also of one that ended before
		if r := s.feed("", "inspect", "t", id, "--wait", "10m"); r.code != code {
			t.Errorf("exit %d, want %d: %s%s", r.code, code, r.out, r.err)
		}
	}
}

func TestKeepRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, want := range map[string]string{
		"work t --keep 0s":              "keep 0s: use 1ms to 720h",
		"work t --keep 31d":             "keep 744h: use 1ms to 720h",
		"work t --keep long":            `invalid keep "long"`,
		"work t --name=":                "--name is empty; leave it out",
		"inspect t --wait 1s":           "unexpected flag --wait: it is for one message; give its ID",
		"inspect t 1 --wait=":           "--wait is empty; leave it out",
		"inspect t 1 --wait 0s":         "wait 0s: use 1ms or more",
		"inspect t 1 --wait x":          `invalid wait "x"`,
		"inspect t 1 --wait 1s --state": "flag needs an argument",
		"workers x":                     `unexpected argument "x"`,
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}

// A named listener gets each death of the topics that it listens to, also those of when it
// was away.
func TestListenToDeaths(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.start("serve")
	s.listen("$dead.order.>", "--name", "on-call").stop()
	s.kill("order.timeout", 2)
	s.kill("mail", 1)
	out := s.call("listen", "$dead.order.>", "--name", "on-call", "--count", "2", "--", "sh", "-c", `echo "$MESSAGE_TOPIC: $(cat)"`)
	for _, id := range []string{"1", "2"} {
		contains(t, out, `$dead.order.timeout: {"topic":"order.timeout","id":"`+id+`","reason":"exit status 65: broken (buried by the handler)","attempts":1,"died_at":"`)
	}
	contains(t, s.fails(exitUsage, "broadcast", "$dead.order.timeout", "--body", "x"), "$dead")
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// serve starts a carrier, which broadcasts need.
func (s *shell) serve() {
	s.t.Helper()
	s.start("serve").await(1, "msg=elected")
	storetest.Eventually(s.t, "all shards are carried", func() bool { return !slices.Contains(s.epochs(), 0) })
}

// epochs returns the epochs of the carriers of all shards; zero for one without a carrier.
func (s *shell) epochs() (all []int64) {
	s.t.Helper()
	db, err := notify.Open(notify.Config{URL: s.setting("BELLHOP_REDIS_URL"), Prefix: s.setting("BELLHOP_PREFIX")}) // with the shards that it has
	storetest.Must(s.t, err)
	defer db.Close()
	shards, err := db.Shards(s.t.Context())
	storetest.Must(s.t, err)
	for _, shard := range shards {
		status, err := carrier.Look(s.t.Context(), shard)
		storetest.Must(s.t, err)
		all = append(all, status.Epoch)
	}
	return all
}

// broadcast sends broadcasts, "TOPIC ID" each, in this order.
func (s *shell) broadcast(names ...string) {
	s.t.Helper()
	var lines strings.Builder
	due := time.Now()
	for _, name := range names {
		topic, id, _ := strings.Cut(name, " ")
		due = due.Add(time.Millisecond) // within one, their names decide the order
		fmt.Fprintf(&lines, `{"topic":%q,"id":%q,"mode":"broadcast","due":%q,"body":"body %s"}`+"\n", topic, id, due.Format(time.RFC3339Nano), id)
	}
	if r := s.feed(lines.String(), "publish", "--file", "-"); r.code != 0 {
		s.t.Fatalf("%+v", r)
	}
}

// listen starts to listen, and returns once no later broadcast can be missed.
func (s *shell) listen(args ...string) *process {
	s.t.Helper()
	p := s.start(append([]string{"listen"}, args...)...)
	p.await(1, "msg=listening")
	return p
}

// received listens for n broadcasts, and returns them as --json prints them.
func (s *shell) received(n int, args ...string) []shown {
	s.t.Helper()
	out := s.call(append([]string{"listen", "--json", "--count", fmt.Sprint(n)}, args...)...)
	var all []shown
	for line := range strings.Lines(out) {
		var one shown
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, one)
	}
	return all
}

// ids returns the ids of broadcasts, joined.
func ids(all []shown) (line string) {
	for _, one := range all {
		line += one.ID
	}
	return line
}

func TestListenPrints(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	one, many, other := s.listen("prices.gold"), s.listen("prices.>"), s.listen("prices.*.open", "--json")
	s.call("broadcast", "prices.gold", "--id", "later", "--delay", "50ms", "--body", "two\nlines")
	many.await(1, "later")
	s.broadcast("news a", "prices.bronze b", "prices.gold c") // both of the shard of prices.gold, if there are eight: they have an order
	line := regexp.MustCompile(`(?m)^\d+-\d+  prices\.gold  later  \d+\.\d ms late  "two\\nlines"$`)
	for p, want := range map[*process]string{one: "later c", many: "later b c"} {
		p.await(1, "body c")
		p.stop()
		if !line.MatchString(p.said()) {
			t.Errorf("no line of the first in:\n%s", p.said())
		}
		var got []string
		for _, found := range regexp.MustCompile(`(?m)^\d+-\d+  \S+  (\S+)`).FindAllStringSubmatch(p.said(), -1) {
			got = append(got, found[1])
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Error(diff)
		}
	}
	s.call("broadcast", "prices.tin.open", "--body", "\xff", "--header", "A=b", "--content-type", "text/plain")
	other.await(1, `"topic":"prices.tin.open"`)
	contains(t, other.said(), `"body_base64":"/w=="`, `"content_type":"text/plain"`, `"headers":{"A":"b"}`, `"late_ms":`, `"position":"`)
	if strings.Contains(other.said(), "prices.gold") || strings.Contains(other.said(), `"attempt"`) {
		t.Errorf("it received too much:\n%s", other.said())
	}
	if c := s.counts("prices.gold"); c.Sent != 2 || c.Log != 2 || c.Broadcasts != 0 {
		t.Errorf("got %+v, want 2 sent", c)
	}
}

func TestListenFrom(t *testing.T) {
	storetest.OneShard(t, "topics have an order in one")
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.broadcast("p.a 1", "p.b 2", "p.a 3", "q 4")
	all := s.received(4, ">", "--from", "beginning")
	if ids(all) != "1234" {
		t.Fatalf("got %q, want 1234", ids(all))
	}
	second := all[1].Position
	for _, test := range []struct {
		pattern, from, want string
	}{
		{"p.a", "beginning", "13"},
		{"p.>", second.String(), "3"},
		{">", second.String(), "34"},
		{">", second.Time().UTC().Format(time.RFC3339Nano), "234"},
		{"p.*", "2020-01-01T00:00:00+01:00", "123"},
	} {
		if got := ids(s.received(len(test.want), test.pattern, "--from", test.from)); got != test.want {
			t.Errorf("%s from %s: got %q, want %q", test.pattern, test.from, got, test.want)
		}
	}
	for _, args := range [][]string{{">"}, {">", "--from", "now"}} {
		p := s.listen(args...)
		s.broadcast("q later")
		p.await(1, "body later")
		p.stop()
		if strings.Contains(p.said(), "body 4") {
			t.Errorf("listen %v receives an earlier broadcast:\n%s", args, p.said())
		}
	}
}

// Another listener continues at the logged position, without a gap or a repetition.
func TestListenLogsItsPosition(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	position := regexp.MustCompile(`msg="stopped; give this bookmark to --from to continue" pattern=t bookmark=(\S+)`)
	stopped := func(p *process) string {
		t.Helper()
		p.stop()
		found := position.FindStringSubmatch(p.said())
		if found == nil {
			t.Fatalf("no position in:\n%s", p.said())
		}
		return found[1]
	}
	from := stopped(s.listen("t")) // nothing was sent yet
	s.broadcast("t 1", "t 2", "t 3")
	p := s.listen("t", "--from", from, "--count", "2")
	p.await(1, "body 2")
	p.ends(exitDone)
	from = position.FindStringSubmatch(p.said())[1]
	if got := ids(s.received(1, "t", "--from", from)); got != "3" || strings.Contains(p.said(), "body 3") {
		t.Errorf("it goes on with %q, want 3", got)
	}
	p = s.listen("t", "--from", from)
	p.await(1, "body 3")
	from = stopped(p)
	p = s.listen("t", "--from", from)
	s.broadcast("t 4")
	p.await(1, "body 4")
	p.stop()
	if strings.Contains(p.said(), "body 3") {
		t.Errorf("a broadcast comes twice:\n%s", p.said())
	}
}

// A listener to topics in many shards continues at the bookmark that it logged, and at one that it printed.
func TestListenContinuesInManyShards(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	db := storetest.With(t, notify.Config{URL: s.setting("BELLHOP_REDIS_URL"), Prefix: s.setting("BELLHOP_PREFIX"), Shards: 8})
	storetest.Found(t, db)
	s.serve()
	p := s.listen("t.*")
	p.stop()
	found := regexp.MustCompile(`give this bookmark to --from to continue" pattern=t\.\* bookmark=(8\.\S+)`).FindStringSubmatch(p.said())
	if found == nil {
		t.Fatalf("no bookmark in:\n%s", p.said())
	}
	var names []string
	for i := range 72 {
		names = append(names, fmt.Sprintf("t.%d %d", i%24, i/24))
	}
	s.broadcast(names...)
	got, from := make(map[string]string), found[1]
	for range 9 {
		for _, one := range s.received(8, "t.*", "--from", from) {
			got[one.Topic] += one.ID
			from = string(one.Bookmark)
		}
	}
	for i := range 24 {
		if topic := fmt.Sprintf("t.%d", i); got[topic] != "012" {
			t.Errorf("of %s came %q", topic, got[topic])
		}
	}
}

func TestListenRunsCommand(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.call("broadcast", "t.a", "--id", "e", "--body", "the body", "--header", "X-Shop=main", "--content-type", "text/plain")
	s.broadcast("t.a 1", "t.b 2", "t.b 3", "t.b 4")
	positions := make(map[string]string)
	for _, one := range s.received(5, "t.>", "--from", "beginning") {
		positions[one.ID] = one.Position.String()
	}
	script := `
case $MESSAGE_ID in
e) echo "$MESSAGE_TOPIC $MESSAGE_POSITION $MESSAGE_ATTEMPT $MESSAGE_CONTENT_TYPE $MESSAGE_HEADER_X_SHOP $(cat)"; date -d "$MESSAGE_DUE" +%Y ;;
1) echo broken input >&2; exit 65 ;;
2) echo not now >&2; exit 1 ;;
3) kill -9 $$ ;;
4) echo "$(cat) is done" ;;
esac`
	r := s.feed("", "listen", "t.>", "--from", "beginning", "--count", "5", "--", "sh", "-c", script)
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	contains(t, r.out, "t.a "+positions["e"]+" 1 text/plain main the body\n20", "body 4 is done\n")
	contains(t, r.err, "\nbroken input\n", `msg="command failed" topic=t.a id=1 position=`+positions["1"]+` reason="exit status 65: broken input"`,
		`reason="exit status 1: not now"`, `reason="signal: killed"`)
}

// gated returns a command that prints that it began, and ends when the file exists.
func gated(path string) []string {
	return []string{"--", "sh", "-c", `echo "began $MESSAGE_ID attempt $MESSAGE_ATTEMPT pid $$"; while ! test -e ` + path + `; do sleep 0.01; done; echo "ended $MESSAGE_ID"`}
}

func TestListenDrains(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	for _, name := range [][]string{nil, {"--name", "n"}} {
		gate := filepath.Join(t.TempDir(), "gate")
		p := s.listen(append(append([]string{"t"}, name...), gated(gate)...)...)
		s.broadcast("t 1", "t 2")
		p.await(1, "began 1")
		p.signal(syscall.SIGTERM)
		p.await(1, "a second signal kills them")
		storetest.Must(t, os.WriteFile(gate, nil, 0o600))
		p.ends(exitDone)
		contains(t, p.said(), "ended 1")
		if strings.Contains(p.said(), "began 2") {
			t.Errorf("it went on:\n%s", p.said())
		}
	}
	if got := ids(s.received(1, "t", "--name", "n")); got != "2" {
		t.Errorf("the name goes on with %q, want 2", got)
	}
}

// The logged position is before a broadcast whose command was interrupted.
func TestListenAsksCommandToEnd(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_SHUTDOWN_TIMEOUT=50ms")
	s.serve()
	p := s.listen("t", "--", "sh", "-c", `trap 'echo asked; exit 1' TERM; test $MESSAGE_ID = 1 && exit; echo began; while :; do sleep 0.01; done`)
	s.broadcast("t 1", "t 2")
	p.await(1, "began")
	p.stop()
	contains(t, p.said(), "asked")
	first := s.received(1, "t", "--from", "beginning")[0].Position
	contains(t, p.said(), "bookmark="+first.String())
}

func TestListenSecondSignalKills(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	p := s.launch(s.command("listen", "t", "--", "sh", "-c", "echo began $$; sleep 60; echo ended"))
	p.await(1, "msg=listening")
	s.broadcast("t 1")
	p.await(1, "began")
	p.signal(syscall.SIGTERM)
	p.await(1, "a second signal kills them")
	p.signal(syscall.SIGTERM)
	p.ends(exitInterrupted)
	if strings.Contains(p.said(), "ended") {
		t.Errorf("the command went on:\n%s", p.said())
	}
}

func TestListenReportsGaps(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.broadcast("t 1", "t 2", "t 3", "t 4")
	all := s.received(4, "t", "--from", "beginning")
	s.call("listen", "t", "--name", "n", "--from", all[0].Position.String(), "--count", "1")
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Must(t, store.Client().XTrimMaxLen(t.Context(), store.Keys().Log("t"), 1).Err())
	for _, start := range [][]string{{"--from", all[0].Position.String()}, {"--name", "n"}} {
		r := s.feed("", append([]string{"listen", "t", "--json", "--count", "1"}, start...)...)
		gap, rest, _ := strings.Cut(r.out, "\n")
		var line gapJSON
		if err := json.Unmarshal([]byte(gap), &line); err != nil || line.Gap.Topic != "t" || line.Gap.UpTo != all[2].Position || line.Gap.After >= line.Gap.UpTo {
			t.Errorf("listen %v: no gap: %v %s", start, err, r.out)
		}
		contains(t, rest, `"id":"4"`)
		contains(t, r.err, "broadcasts are missing")
	}
}

// Redis loses all its data, by a command and by a restart: listeners report it, and continue.
func TestListenThroughLostData(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	s := newShell(t, "BELLHOP_REDIS_URL="+server.URL())
	s.serve()
	listeners := []*process{s.listen(">", "--json", "--name", "n"), s.listen("t", "--json", "--name", "m"), s.listen("t", "--json")}
	s.broadcast("t before")
	awaitAll := func(n int, what string) {
		t.Helper()
		for _, p := range listeners {
			p.await(n, what)
		}
	}
	awaitAll(1, `"id":"before"`)
	store := storetest.At(t, server.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Must(t, store.Client().FlushAll(t.Context()).Err())
	awaitAll(1, `{"gap":{"topic":`)
	s.broadcast("t between")
	awaitAll(1, `"id":"between"`)
	server.Kill()
	storetest.Restart(t, server)
	awaitAll(2, `{"gap":{"topic":`)
	s.broadcast("t after")
	awaitAll(1, `"id":"after"`)
	contains(t, listeners[0].said(), `{"gap":{"topic":">","after":"`, "broadcasts may be missing: redis lost all its data")
	for _, p := range listeners {
		p.stop()
	}
}

func TestListenNamed(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_BACKOFF_MIN=1ms", "BELLHOP_BACKOFF_MAX=1ms")
	s.serve()
	s.broadcast("t.a before")
	s.received(1, "t.*", "--from", "beginning") // it is sent
	p := s.listen("t.*", "--name", "billing")
	s.broadcast("t.a 1")
	p.await(1, "body 1")
	p.stop()
	s.broadcast("t.a 2", "t.b 3")
	all := s.received(2, "t.*", "--name", "billing")
	if got := ids(all); got != "23" && got != "32" || all[0].Attempt != 1 {
		t.Errorf("got %+v, want 2 and 3", all)
	}
	if strings.Contains(p.said(), "body before") {
		t.Errorf("it receives an earlier broadcast:\n%s", p.said())
	}

	s.broadcast("t.a 4", "t.a 5", "t.a 6")
	r := s.feed("", "listen", "t.*", "--name", "billing", "--attempts", "3", "--count", "3", "--concurrency", "2", "--", "sh", "-c", `
case $MESSAGE_ID in
4) echo broken input >&2; exit 65 ;;
5) echo 5 try $MESSAGE_ATTEMPT; test $MESSAGE_ATTEMPT = 2 ;;
6) echo 6 try $MESSAGE_ATTEMPT; exit 1 ;;
esac`)
	if r.code != exitDone {
		t.Fatalf("%+v", r)
	}
	contains(t, r.out, "5 try 1\n", "5 try 2\n", "6 try 3\n")
	contains(t, r.err, `msg="broadcast failed"`, "id=4 ", `reason="exit status 65: broken input`, "id=6 ", "attempts=3 reason=\"exit status 1\"")
	if n := strings.Count(r.out+r.err, "try"); n != 5 || strings.Count(r.err, `msg="broadcast given up"`) != 2 {
		t.Errorf("%d tries, want 5, and 2 given up:\n%s%s", n, r.out, r.err)
	}
	s.broadcast("t.a 7")
	if got := ids(s.received(1, "t.*", "--name", "billing", "--count", "1")); got != "7" {
		t.Errorf("it goes on with %q, want 7", got)
	}
}

// Broadcasts beyond the count are left to the next process, with no attempt used up.
func TestListenCountsExactly(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	s.broadcast("t 1", "t 2", "t 3", "t 4", "t 5", "t 6", "t 7", "t 8")
	from := []string{"t", "--name", "n", "--from", "beginning", "--concurrency", "4"}
	seen := make(map[string]int)
	for _, n := range []int{2, 1, 5} {
		all := s.received(n, from...)
		if len(all) != n {
			t.Errorf("%d are printed, want %d", len(all), n)
		}
		for _, one := range all {
			seen[one.ID] += one.Attempt
		}
	}
	for id, attempts := range seen {
		if attempts != 1 {
			t.Errorf("%s comes with %d attempts", id, attempts)
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d came, want 8", len(seen))
	}
}

func TestListenersOfANameShare(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	gate := filepath.Join(t.TempDir(), "gate")
	args := append([]string{"t", "--name", "n"}, gated(gate)...)
	a, b := s.listen(args...), s.listen(args...)
	s.broadcast("t 1", "t 2")
	a.await(1, "began")
	b.await(1, "began") // each has leased one
	storetest.Must(t, os.WriteFile(gate, nil, 0o600))
	a.await(1, "ended")
	b.await(1, "ended")
	s.broadcast("t 3", "t 4", "t 5", "t 6")
	storetest.Eventually(t, "all are handled", func() bool { return strings.Count(a.said()+b.said(), "ended") == 6 })
	a.stop()
	b.stop()
	for id := 1; id <= 6; id++ {
		if n := strings.Count(a.said()+b.said(), fmt.Sprintf("ended %d", id)); n != 1 {
			t.Errorf("%d is handled %d times", id, n)
		}
	}
}

// A killed process's broadcast goes to the other, with the next attempt.
func TestListenerTakesOver(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	args := []string{"t", "--name", "n", "--lease", "12s"} // longer than a machine stands still
	a := s.launch(s.command(append(append([]string{"listen"}, args...), "--", "sh", "-c", `echo "began $MESSAGE_ID"; exec sleep 60`)...))
	a.await(1, "msg=listening")
	s.broadcast("t 1")
	a.await(1, "began 1")
	b := s.listen(append(args, "--json")...)
	s.broadcast("t 2")
	b.await(1, `"id":"2"`)
	a.signal(syscall.SIGKILL)
	b.await(1, `"id":"1"`)
	contains(t, b.said(), fmt.Sprintf(`"attempt":%d`, strings.Count(a.said(), "began 1")+1)) // on a busy machine the first may have had it again
	if strings.Contains(b.said(), "broadcasts are missing") {
		t.Errorf("a gap is logged, but nothing is missing:\n%s", b.said())
	}
	b.stop()
}

func TestListenWithoutCarrier(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p := s.listen("t")
	p.await(1, "no carrier is heard")
	p.stop()
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	known := s.listen("known.*", "--name", "known", "--from", "beginning")
	for _, test := range []struct {
		args string
		want string
	}{
		{"listen", "TOPIC|PATTERN is missing"},
		{"listen -- true", "TOPIC|PATTERN is missing"},
		{"listen t true", `unexpected argument "true"; write -- in front of the command`},
		{"listen t --", "CMD is missing after --"},
		{"listen t -- no-such-command-here", "executable file not found"},
		{"listen a/b", `invalid topic "a/b"`},
		{"listen a.>.b", `invalid pattern "a.>.b"`},
		{"listen a*", `invalid pattern "a*"`},
		{"listen t --from yesterday", `invalid from "yesterday": use now, beginning, a time of RFC 3339 such as `},
		{"listen t --from=", `invalid from ""`},
		{"listen t --count 0", "invalid count 0"},
		{"listen t --concurrency 2", "unexpected flag --concurrency: it is for a named listener; give --name, too"},
		{"listen t --attempts 2", "unexpected flag --attempts: it is for a named listener; give --name, too"},
		{"listen t --lease 1s", "unexpected flag --lease: it is for a named listener; give --name, too"},
		{"listen t --name=", "--name is empty; leave it out"},
		{"listen t --name a/b", `invalid name "a/b"`},
		{"listen t --name n --concurrency 10001", "invalid concurrency 10001"},
		{"listen t --name n --attempts 0", "invalid attempts 0"},
		{"listen t --name n --lease 0", "invalid lease 0"},
		{"listen t --name n --lease 1ms", "invalid lease 1ms"},
		{"listen t --name n --lease x", `invalid lease "x"`},
		{"listen t --name known", "invalid name known: it is in use for known.*"},
		{"listen known.* --name known --from now", "invalid from now: the name known is in use and began at beginning"},
	} {
		contains(t, s.fails(exitUsage, strings.Fields(test.args)...), test.want)
	}
	known.stop()
}

func TestListeners(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve()
	contains(t, s.call("listeners"), "no named listener")
	if out := s.call("listeners", "--json"); out != `{"listeners":[]}`+"\n" {
		t.Errorf("got %q", out)
	}
	s.listen("t.>", "--name", "away", "--from", "beginning").stop()
	s.broadcast("t.a 1", "t.b 2")
	here := s.listen("t.>", "--name", "here", "--lease", "1m", "--", "sh", "-c", "echo began; exec sleep 60")
	s.broadcast("t.a 3")
	here.await(1, "began")
	var names []notify.ListenerInfo
	storetest.Eventually(t, "it is known who listens", func() bool {
		var list calls.Listeners
		s.json(&list, "listeners", "--json")
		names = list.Listeners
		return len(names) == 2 && len(names[1].By) == 1 && len(names[1].HeldBy) == 1
	})
	if here := names[1]; here.Name != "here" || here.Held != 1 || !here.Active || names[0].From != "beginning" || names[0].By != nil {
		t.Errorf("got %+v", names)
	}
	contains(t, s.call("listeners"), "NAME  PATTERN  FROM       LEASED  BEHIND  LISTENS", "away  t.>      beginning  0       2       nobody ", fmt.Sprintf("here  t.>      now        1       0       %s (1 held)  -\n", names[1].By[0]))

	if by := names[1].HeldBy; len(by) != 1 || by[0].Worker != names[1].By[0] || by[0].Held != 1 || by[0].Topic != "t.a" {
		t.Errorf("held by %+v", by)
	}
	for line := range strings.Lines(s.onTerminal("listeners")) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}

	s.call("broadcast", "t.a", "--id", "sale", "--body", "4")
	var of string
	storetest.Eventually(t, "it is sent", func() bool {
		of = s.call("listeners", "of", "t.a", "sale")
		return strings.HasPrefix(of, "sent ")
	})
	contains(t, of, "NAME  STATE    WORKER  UNTIL", "away  waiting  -", "here  ")
	contains(t, s.call("listeners", "of", "t.a", "sale", "--json"), `"name":"away","pattern":"t.>","state":"waiting"`)
	contains(t, s.fails(exitFailed, "listeners", "of", "prices.gold", "none"), "no such message")

	if out := s.call("listeners", "remove", "here"); out != "removed here\n" {
		t.Errorf("got %q", out)
	}
	here.ends(exitFailed)
	contains(t, here.said(), "bellhop: listen as here: it was removed")
	if out := s.call("listeners", "remove", "away"); out != "removed away\n" {
		t.Errorf("got %q", out)
	}
	contains(t, s.call("listeners"), "no named listener")
	contains(t, s.fails(exitFailed, "listeners", "remove", "away"), "remove the listener away: ", "no such listener")
	for args, want := range map[string]string{
		"listeners remove":      "NAME is missing",
		"listeners remove a b":  `unexpected argument "b"`,
		"listeners remove a/b":  `invalid name "a/b"`,
		"listeners list":        `unknown command "list": use remove NAME, of TOPIC ID, or nothing for a list`,
		"listeners remove --x":  "unknown flag: --x",
		"listeners --name here": "unknown flag: --name",
		"listeners of prices":   "ID is missing",
		"listeners of a/b c":    `invalid topic "a/b"`,
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}

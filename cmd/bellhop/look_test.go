package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestEveryCommandHasAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() != "help" && c.Parent() != nil && c.Parent().Name() != "completion" && (c.Example == "" || c.Short == "") {
			t.Errorf("%s has no example or no description", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call(), "Available Commands:")
	contains(t, s.call("help", "publish"), "Examples:")
	contains(t, s.call("completion", "bash"), "bash completion")
	contains(t, s.call("__complete", "listen"), "listen\t", "listeners\t")
	contains(t, s.call("__complete", "listeners", ""), "remove\t")
	for args, want := range map[string]string{
		"nonsense":       "bellhop: unknown command \"nonsense\" for \"bellhop\"\nbellhop: run 'bellhop --help'\n",
		"topics x y":     "bellhop: unexpected argument \"y\"\nbellhop: run 'bellhop topics --help'\n",
		"topics --x":     "bellhop: unknown flag: --x\nbellhop: run 'bellhop topics --help'\n",
		"shards --watch": "bellhop: unknown flag: --watch: watch repeats a command, as in: watch bellhop topics --sort overdue\nbellhop: run 'bellhop shards --help'\n",
		"bench --own":    "bellhop: bench is a program of its own: run make bench in the source, or go run github.com/bellhopd/bellhop/cmd/bellhop/bench -help\n",
		"serve x":        "bellhop: unexpected argument \"x\"\nbellhop: run 'bellhop serve --help'\n",
	} {
		if got := s.fails(exitUsage, strings.Fields(args)...); got != want {
			t.Errorf("bellhop %s: got %q, want %q", args, got, want)
		}
	}
}

func TestBadConfigurationIsWrongUsage(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_LEAS=1s", "BELLHOP_MAX_BODY=many")
	for _, args := range []string{"topics", "serve", "dev --no-tour", "publish t --body x", "config", "doctor", "work t", "listen t", "broadcast t --body x"} {
		got := s.fails(exitUsage, strings.Fields(args)...)
		if lines := strings.Split(got, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "bellhop: BELLHOP_MAX_BODY") || !strings.HasPrefix(lines[1], "bellhop: BELLHOP_LEAS is not a setting") {
			t.Errorf("bellhop %s: got %q", args, got)
		}
	}
	s.call("version")
}

func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_REDIS_URL=redis://:geheim@127.0.0.1:1")
	for _, args := range []string{"topics", "publish t --body x", "inspect t 1", "cancel t 1", "dead requeue t --all", "carrier", "shards", "broadcast t --body x", "listeners", "pause t", "resume t"} {
		got := s.fails(exitFailed, strings.Fields(args)...)
		contains(t, got, "redis at redis://:xxxxx@127.0.0.1:1", ": dial tcp 127.0.0.1:1: ", "connection refused; start Redis there (systemctl start redis-server), or name another in BELLHOP_REDIS_URL\n")
		if strings.Contains(got, "geheim") || strings.Count(got, "\n") != 1 {
			t.Errorf("bellhop %s: got %q, want one line without the password", args, got)
		}
	}
}

// An error of a port in use has no remedy of Redis.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	defer l.Close()
	got := newShell(t, "BELLHOP_LISTEN="+l.Addr().String()).fails(exitFailed, "serve")
	if !strings.HasSuffix(got, "address already in use; if that is another bellhop, give this one an address of its own with BELLHOP_LISTEN, or none\n") {
		t.Errorf("got %q", got)
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t, "--requirepass", "right")
	s := newShell(t, "BELLHOP_REDIS_URL=redis://:geheim@"+own.Addr())
	for _, args := range []string{"topics", "publish t --body x", "doctor"} {
		r := s.feed("", strings.Fields(args)...)
		contains(t, r.out+r.err, own.Addr(), "WRONGPASS", "BELLHOP_REDIS_PASSWORD_FILE")
		if r.code != exitFailed || strings.Contains(r.out+r.err, "geheim") {
			t.Errorf("bellhop %s: exit %d, %s%s", args, r.code, r.out, r.err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := newShell(t, "BELLHOP_REDIS_URL=redis://:geheim@redis.example.com:6379", "BELLHOP_LEASE=1m")
	out := s.call("config")
	contains(t, out, "SETTING ", "redis://:xxxxx@redis.example.com:6379", "Lease of a message, extended while its handler runs")
	var settings []daemon.Setting
	s.json(&settings, "config", "--json")
	for _, one := range settings {
		if one.Name == "BELLHOP_LEASE" && (one.Value != "1m" || one.Default != "" || one.Source != "environment") {
			t.Errorf("got %+v", one)
		}
		if strings.Contains(one.Value, "geheim") || strings.Contains(out, "geheim") {
			t.Errorf("the password is printed")
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("version"), "bellhop ", " go1")
	var b build
	if s.json(&b, "version", "--json"); b.Go == "" || b.Platform == "" {
		t.Errorf("got %+v", b)
	}
	if b.Commit == "" && !regexp.MustCompile(`^devel-[A-Za-z0-9_-]{12}$`).MatchString(b.Version) {
		t.Errorf("a build of an unknown commit has the version %q", b.Version)
	}
}

func TestServeAndCarrier(t *testing.T) {
	storetest.OneShard(t, "the carriers of several are shown as a table")
	t.Parallel()
	s := newShell(t, "BELLHOP_CARRIER_LEASE=1m")
	none := s.feed("", "carrier")
	if contains(t, none.out, "none is elected"); none.code != exitFailed || none.err != "" {
		t.Errorf("exit %d, %s", none.code, none.err)
	}
	p := s.start("serve")
	p.await(1, "msg=elected")
	contains(t, s.call("carrier"), "epoch       1", "lease ends  in ", "next due    -")
	s.call("publish", "t", "--delay", "1h", "--body", "x")
	var c calls.Carrier
	if s.json(&c, "carrier", "--json"); c.Name == "" || c.Epoch != 1 || c.Next == nil {
		t.Errorf("got %+v", c)
	}
	p.stop()
	contains(t, p.said(), "msg=\"stepped down\"", "msg=stopped")
	contains(t, s.feed("", "carrier").out, "none is elected", "next due  20")
}

func TestTopics(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("topics"), "no topic was published to yet")
	if out := s.call("topics", "--json"); out != `{"topics":[]}`+"\n" {
		t.Errorf("got %q", out)
	}
	s.publish("a.b", 2)
	s.call("publish", "a.b", "--delay", "1h", "--body", "x")
	contains(t, s.call("topics"), "TOPIC  SCHED  READY", "a.b    1      2      0       0     0 ")
	if c := s.counts("a.b"); c.Scheduled != 1 || c.Ready != 2 || c.Published != 3 {
		t.Errorf("got %+v", c)
	}
}

// Where nobody carries, what is scheduled stays there: topics says so, and since when.
func TestTopicsWithoutCarrier(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.publish("a.b", 1)
	if r := s.feed("", "topics"); r.code != 0 || r.err != "" {
		t.Errorf("nothing is scheduled: exit %d, %s", r.code, r.err)
	}
	s.call("publish", "a.b", "--delay", "1h", "--body", "x")
	const vacant = "bellhop: no carrier is elected, so what is scheduled does not become ready"
	if r := s.feed("", "topics"); r.code != 0 || r.err != vacant+"; start one: bellhop serve\n" {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	s.call("publish", "a.b", "--delay", "1ms", "--body", "x")
	storetest.Eventually(t, "it is due", func() bool {
		return strings.HasPrefix(s.feed("", "topics").err, vacant+"; the oldest has been due for ")
	})
	if r := s.feed("", "topics", "--json"); r.err != "" {
		t.Errorf("for a program: %s", r.err)
	}
	s.call("publish", "late", "--id", "a", "--delay", "1h", "--body", "x")
	db := storetest.At(t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	due := redis.Z{Score: float64(time.Now().Add(-90 * time.Second).UnixMilli()), Member: "late:a"}
	storetest.Must(t, db.Client().ZAddXX(t.Context(), db.KeysOf("late").Scheduled("late"), due).Err())
	contains(t, s.call("topics", "late"), "late   1      0      0       0     0        1m3")
	if got := s.names("--bad"); !slices.Equal(got, []string{"late"}) {
		t.Errorf("in trouble are %q", got)
	}
	if c := s.counts("late"); c.BehindMs < 90_000 || c.OverdueMs != 0 {
		t.Errorf("got %+v", c)
	}
	s.start("serve").await(1, "msg=elected")
	storetest.Eventually(t, "a carrier is elected", func() bool { return s.feed("", "topics").err == "" })
}

// timed are the checks that may warn on a busy machine.
const timed = "pub/sub round trip,clock"

func TestDoctor(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t, "--appendonly", "yes", "--maxmemory", "100mb")
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL(), "BELLHOP_CARRIER_LEASE=1m") // which none loses
	s.serve()
	s.start("serve").await(1, "msg=\"standing by\"")
	s.stoodBy()
	out := s.call("doctor")
	beats, ofShards := "its beat arrives", ""
	if storetest.Shards() > 1 {
		beats, ofShards = "their beats arrive", "shards, "
	}
	contains(t, out, beats)
	var findings []struct{ Check, Verdict, Found string }
	s.json(&findings, "doctor", "--json")
	checks := make([]string, len(findings))
	for i, f := range findings {
		checks[i] = f.Check
		if f.Verdict != "ok" && !slices.Contains(strings.Split(timed, ","), f.Check) {
			t.Errorf("not ok: %+v", f)
		}
	}
	if got := strings.Join(checks, ", "); got !=
		"reachable, version, "+ofShards+"persistence, eviction, memory, format, rights, pub/sub round trip, functions, clock, carrier, nats, standby, overdue, behind, paused, settings, failing, dead, blocked, groups, branches, leases, listeners, pushes, schedules, archive, contents" {
		t.Errorf("got %s", got)
	}
	for _, check := range checks {
		if !slices.Contains(doctor.Checks(), check) {
			t.Errorf("%s is not in %v", check, doctor.Checks())
		}
	}

	evicting := storetest.Server(t, "--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	r := newShell(t, "BELLHOP_REDIS_URL="+evicting.URL()).feed("", "doctor")
	contains(t, r.out, "fail  eviction", "CONFIG SET maxmemory-policy noeviction")
	if r.code != exitFailed || r.err != "" {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

// stoodBy waits until each shard has a carrier that stands by, and two carriers have taken half of the shards each.
func (s *shell) stoodBy() {
	s.t.Helper()
	db := storetest.At(s.t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	storetest.Eventually(s.t, "each shard has a standby, and half of them a second carrier", func() bool {
		standbys, err := store.Gather(s.t.Context(), db, carrier.Standbys)
		elected, errElected := store.Gather(s.t.Context(), db, carrier.Look)
		moved := 0
		for _, one := range elected {
			if one.Epoch > 1 {
				moved++
			}
		}
		return err == nil && errElected == nil && !slices.Contains(standbys, 0) && moved == len(elected)/2
	})
}

// The exit code of --check reports the worst verdict, and only findings that are not ok are printed; accepted warnings do not count.
func TestDoctorChecks(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t, "--appendonly", "yes", "--maxmemory", "100mb")
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL(), "BELLHOP_CARRIER_LEASE=1m") // which it does not lose
	s.serve()
	checks := 27
	if storetest.Shards() > 1 {
		checks++ // of the shards
	}
	none := "warn  standby             none: if the carrier's machine fails, no delayed message is delivered\n" +
		"                          → run a second daemon on another machine: bellhop serve\n"
	if r := s.feed("", "doctor", "--check", "--accept", timed); r.code != exitWarned || r.out != none || r.err != "" {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	if out := s.call("doctor", "--check", "--accept", "standby,memory,"+timed); out != fmt.Sprintf("ok    %d checks\n", checks) {
		t.Errorf("got %q", out)
	}
	s.call("doctor", "--check", "--accept=", "--accept=standby", "--accept", timed)
	if out := s.call("doctor", "--quick"); !strings.Contains(out, none) || strings.Contains(out, "contents") {
		t.Errorf("got %s", out)
	}
	s.kill("mail", 1)
	var findings []struct{ Check, Name string }
	if r := s.feed("", "doctor", "--check", "--accept", "standby", "--json"); r.code != exitWarned || json.Unmarshal([]byte(r.out), &findings) != nil || len(findings) < 10 {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	store := storetest.At(t, own.URL(), "")
	storetest.Must(t, store.Client().ConfigSet(t.Context(), "appendonly", "no").Err())
	if r := s.feed("", "doctor", "--check", "--accept", "standby,dead,persistence"); r.code != exitFailed || !strings.HasPrefix(r.out, "fail  persistence") || strings.Contains(r.out, "begin with") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	if err := store.Client().ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil { // full
		t.Fatal(err)
	}
	if r := s.feed("", "doctor", "--check"); r.code != exitFailed || !strings.HasSuffix(r.out, "\nbegin with memory, which stops most\n") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	for args, want := range map[string]string{
		"doctor --yes":                     "unexpected flag --yes: it is for --repair",
		"doctor --repair --check":          "unexpected flag --repair",
		"doctor --repair --quick --yes":    "unexpected flag --repair",
		"doctor --accept memory":           "unexpected flag --accept: it is for --check",
		"doctor --check --accept memories": `no check "memories" to accept: use reachable, `,
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}

// At 80 columns rows are wrapped between words, and only a wider name is shortened, visibly.
func TestDoctorOnTerminal(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t, "--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL())
	long := strings.Repeat("x", 64) + "." + strings.Repeat("y", 63)
	s.kill(long, 1)
	out := s.onTerminal("doctor", "--quick")
	for line := range strings.Lines(out) {
		if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, long) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	contains(t, out, "warn  dead                xxxxxxxxxxxxxxxxxxxxxxxxxxx…yyyyyyyyyyyyyyyyyyyyyyyyy:\n                          1 died in the last 24h, the newest ", long,
		"                          → see why, then requeue or purge them: bellhop dead\n                            list\n")
	contains(t, s.onTerminal("doctor"), "examining all keys  80% |", "ok    contents            1 message, 1 topic: nothing is out of place\n")
}

// Ctrl-C ends the doctor with the findings so far.
func TestDoctorIsInterrupted(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t, "--appendonly", "yes")
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL())
	store := storetest.At(t, own.URL(), s.setting("BELLHOP_PREFIX"))
	storetest.Found(t, store)
	if err := store.Client().Set(t.Context(), store.Keys().Carrier(), "1 1 600000 gone", 0).Err(); err != nil {
		t.Fatal(err) // with a carrier, the doctor waits for a beat
	}
	p := s.start("doctor")
	p.await(1, "  clock ") // it may warn: see timed
	p.signal(os.Interrupt)
	p.ends(exitFailed)
	if said := p.said(); strings.Contains(said, "carrier ") || !strings.HasSuffix(said, "bellhop: interrupted\n") {
		t.Errorf("got %s", said)
	}
	p = s.start("doctor", "--json")
	storetest.Eventually(t, "it listens", func() bool {
		n, err := store.Listening(t.Context(), store.Home().BeatChannel())
		return err == nil && n > 0
	})
	p.signal(os.Interrupt)
	p.ends(exitFailed)
	contains(t, p.said(), `"check":"persistence","verdict":"ok"`, `"check":"format","verdict":"ok"`, `"check":"clock","verdict":"`)
}

// A message out of place is reported, and repaired if that is asked for and confirmed.
func TestDoctorRepairs(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t, "--appendonly", "yes")
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL())
	store := storetest.At(t, own.URL(), s.setting("BELLHOP_PREFIX"))
	damage := func() {
		t.Helper()
		s.call("publish", "t", "--body", "x")
		storetest.Must(t, store.Client().Del(t.Context(), store.Keys().Ready("t")).Err())
	}
	damage()
	r := s.feed("", "doctor")
	contains(t, r.out, "fail  contents", "a record in no place, so its message would never be delivered", "would be made ready, as due now", "run bellhop doctor --repair")
	if r.code != exitFailed || r.err != "" {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	contains(t, s.fails(exitUsage, "doctor", "--repair"), "give --yes")
	contains(t, s.call("doctor", "--repair", "--yes"), "a record in no place, so its message would never be delivered: made ready, as due now", "faults found and repaired: 1")
	contains(t, s.call("doctor"), "nothing is out of place")
	damage()
	var findings []struct{ Check, Verdict, Found string }
	s.json(&findings, "doctor", "--repair", "--yes", "--json")
	for _, f := range findings {
		if f.Verdict == "fail" {
			t.Errorf("got %+v", f)
		}
	}
	contains(t, s.call("work", "t", "--count", "2"), "x")
}

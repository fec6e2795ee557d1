package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// Bench measures everything, and disturbs no message and no carrier of the prefix.
func TestBench(t *testing.T) {
	shards := ""
	if n := storetest.Shards(); n > 1 {
		shards = fmt.Sprintf(", with %d shards", n)
	}
	for only, figures := range map[string]int{"publish,burst,backlog,memory": 7, "lateness": 4, "idle": 8, "http": 7} {
		t.Run(only, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, "BELLHOP_CARRIER_LEASE=10m") // what it serves is elected once
			s.serve()
			s.publish("t", 3)
			before := s.call("export", "-")
			elected := s.epochs()
			var got benchJSON
			s.json(&got, "bench", "--only", only, "--messages", "100", "--json")
			if len(got.Figures) != figures {
				t.Errorf("%d figures, want %d: %+v", len(got.Figures), figures, got.Figures)
			}
			for _, f := range got.Figures {
				switch early := strings.HasSuffix(f.Name, ", early"); {
				case early && f.Value != 0, !early && f.Value <= 0, f.Samples < 1, f.Unit == "", f.Least != f.Value, f.Most != f.Value:
					t.Errorf("got %+v", f)
				}
			}
			if c := got.Conditions; c.Cores < 1 || c.Busy < 0 || c.Busy > 100 || c.Meanwhile < 0 || c.Meanwhile > 100 || !strings.HasSuffix(c.Redis, " at "+storetest.URL()+shards) {
				t.Errorf("got %+v", c)
			}
			if after := s.call("export", "-"); after != before {
				t.Errorf("the messages were\n%sand are\n%s", before, after)
			}
			if still := s.epochs(); !slices.Equal(still, elected) {
				t.Errorf("epochs %d, then %d", elected, still)
			}
			noKeys(t, s)
		})
	}
}

// The table begins with how it was measured, and has the least and most of several turns.
func TestBenchTurns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	once := s.call("bench", "--only", "publish", "--messages", "160")
	contains(t, once, "daemon   bellhop serve, a process of its own", "library  process ", "redis    Redis ", " cores, ", " before: others used ", "SAMPLES\n", "publish     single calls from 16 goroutines ", " meanwhile: others used ")
	turns := s.call("bench", "--only", "publish", "--messages", "160", "--turns", "2", "--own")
	contains(t, turns, " LEAST ", " MOST\n", "publish     batches of 500 ")
	if n := strings.Count(turns, "\npublish "); n != 2 {
		t.Errorf("%d figures, want 2:\n%s", n, turns)
	}
	contains(t, s.fails(exitUsage, "bench", "--only", "nothing"), `invalid measurement "nothing": use publish, `)
}

// Lives are measured over as many shards as asked for, on one server and on a Cluster of bench's own.
func TestBenchShards(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, servers := range map[string]int{"--shards 2": 1, "--own --shards 8 --redis-cluster 3": 3} {
		var got benchJSON
		s.json(&got, strings.Fields("bench --json --messages 100 --batch 2 "+args)...)
		values := make(map[string]float64)
		for _, f := range got.Figures {
			if values[f.Name] = f.Value; f.Measurement != "shards" || f.Unit == "" || f.Samples < 1 || math.IsNaN(f.Value) {
				t.Errorf("got %+v", f)
			}
		}
		share := 0.0
		for _, when := range []string{"at once", "after 300ms"} {
			for i := range servers {
				server := fmt.Sprintf("%s, server %d, ", when, i+1)
				if share += values[server+"share of lives"]; values[server+"CPU"] <= 0 || values[server+"SPUBLISH"] <= 0 || values[server+"scripts"] <= 0 {
					t.Errorf("%s%+v", server, values)
				}
			}
			skew, n := values[when+", skew: most lives of a server, to the mean"], values[when+", all servers, PUBLISH"]
			if wanted := map[int]float64{1: 1, 3: 3 * 3.0 / 8}[servers]; skew != wanted || servers > 1 && n != 0 || values[when+", capacity, computed"] <= 0 || values[when+", by the clock, bounded by this machine"] <= 0 {
				t.Errorf("%s: skew %v, want %v; %+v", when, skew, wanted, values)
			}
		}
		if math.Round(share) != 200 {
			t.Errorf("the shares of two rounds are %v %%", share)
		}
		if values["at once, replicas, CPU"] > 0 != (servers > 1) {
			t.Errorf("%d servers: %+v", servers, values)
		}
	}
	noKeys(t, s)
	for args, want := range map[string]string{
		"--shards 3":          "shards 3: use a power of two, 1 to 256",
		"--redis-cluster 3":   "it is for --own",
		"--batch 0":           "messages of a call 0: use 1 to 500",
		"--redis-cluster 999": "masters of a Cluster 999: use 3 to 32",
	} {
		contains(t, s.fails(exitUsage, append([]string{"bench"}, strings.Fields(args)...)...), want)
	}
}

// Others may wait meanwhile, also on the measured topic. They are removed, too.
func TestBenchWaiting(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var got benchJSON
	s.json(&got, "bench", "--only", "lateness,idle", "--messages", "100", "--waiting", "6000", "--json")
	if len(got.Figures) != 4+8+2*2 {
		t.Errorf("got %+v", got.Figures)
	}
	for _, f := range got.Figures {
		if strings.Contains(f.Name, "others") && (f.Samples != 6000 || f.Value <= 0) || strings.Contains(f.Name, "early") && f.Value != 0 {
			t.Errorf("got %+v", f)
		}
	}
	noKeys(t, s)
	contains(t, s.fails(exitUsage, "bench", "--waiting", "-1"), "waiting messages -1: use 0 to 1000000000")
}

// noKeys fails the test if a bench left keys in the package's Redis.
func noKeys(t *testing.T, s *shell) {
	t.Helper()
	if left := benchKeys(t, s); len(left) > 0 {
		t.Errorf("keys are left: %v", left)
	}
}

// benchKeys returns the keys of the benches of a shell.
func benchKeys(t *testing.T, s *shell) []string {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(storetest.URL(), "redis://")})
	defer client.Close()
	keys, err := client.Keys(t.Context(), s.setting("BELLHOP_PREFIX")+":bench-*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// children returns the processes that a process started (proc(5)).
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// startBench starts a bench, and returns it with its processes once there are n and the daemon is elected.
func startBench(t *testing.T, s *shell, n int, args ...string) (p *process, started []int) {
	t.Helper()
	p = s.launch(s.command(append([]string{"bench"}, args...)...))
	p.await(1, "MEASURED")
	storetest.Eventually(t, "its daemon runs", func() bool {
		started = children(p.cmd.Process.Pid)
		return len(started) == n && (n > 1 || len(benchKeys(t, s)) > 2)
	})
	return p, started
}

// After Ctrl-C no key and no process is left, whatever is being measured.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for _, only := range []string{"publish", "burst", "lateness", "rest", "http"} {
		s := newShell(t)
		p, started := startBench(t, s, 1, "--only", only, "--messages", "1000000")
		interrupted(t, p, started)
		noKeys(t, s)
	}
	dir := t.TempDir()
	p, started := startBench(t, newShell(t, "TMPDIR="+dir), 2, "--own", "--only", "rest") // redis-server and the daemon
	interrupted(t, p, started)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func interrupted(t *testing.T, p *process, started []int) {
	t.Helper()
	p.signal(os.Interrupt)
	p.ends(exitFailed)
	contains(t, p.said(), "interrupted")
	for _, pid := range started {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// A daemon that is killed ends the bench, which removes its keys.
func TestBenchWithoutItsDaemon(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	p, started := startBench(t, s, 1, "--only", "rest")
	storetest.Eventually(t, "a subscriber waits", func() bool {
		return slices.ContainsFunc(benchKeys(t, s), func(key string) bool { return strings.HasSuffix(key, "waiting:bench0") })
	})
	if err := syscall.Kill(started[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.ends(exitFailed)
	contains(t, p.said(), "bellhop: measure rest: bellhop serve ended by itself\n")
	noKeys(t, s)
}

// The program may be replaced while it runs: then its daemon does not start, or is another program.
func TestBenchDaemonDoesNotStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bellhop")
	if err := os.Link(self(t), path); err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s := newShell(t)
	fails := func() string {
		t.Helper()
		cmd := exec.Command("/proc/self/fd/3", "bench", "--only", "publish")
		cmd.Env, cmd.ExtraFiles = s.env, []*os.File{program}
		p := s.launch(cmd)
		p.ends(exitFailed)
		noKeys(t, s)
		return p.said()
	}
	contains(t, fails(), "bellhop: measure publish: start bellhop serve: fork/exec "+path+": no such file or directory\n")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho another \"$1\" >&2; exit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	contains(t, fails(), "bellhop: measure publish: bellhop serve ended at once: exit status 7\n", "it printed:\nbellhop: another serve\n")
}

// A user of Redis who may not look for keys cannot remove them: then there are none to remove.
func TestBenchMayNotRemove(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(storetest.URL(), "redis://")})
	defer client.Close()
	name := "bench-" + s.setting("BELLHOP_PREFIX")
	if err := client.Do(t.Context(), "acl", "setuser", name, "on", ">pw", "~*", "&*", "+@all", "-scan").Err(); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "BELLHOP_REDIS_URL="+strings.Replace(storetest.URL(), "//", "//"+name+":pw@", 1))
	contains(t, s.fails(exitFailed, "bench", "--only", "publish"), "bellhop: remove the keys "+s.setting("BELLHOP_PREFIX")+":bench-", "'scan'")
	noKeys(t, s)
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.456: "0.46", 99.9: "99.90", 100: "100", 1234: "1,234", 1234567: "1,234,567"} {
		if got := number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	if got := text.Thousands(strconv.Itoa(math.MaxInt32)); got != "2,147,483,647" {
		t.Errorf("got %s", got)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// runMain in the environment makes the test binary the program itself, and the daemon that it measures.
const runMain = "RUN_MAIN_OF_BENCH"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) == "" {
		storetest.Main(m)
		return
	}
	storetest.Patient()
	if len(os.Args) != 2 || os.Args[1] != "serve" {
		main()
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
}

func serve() error {
	c, err := daemon.Load(os.Environ())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return daemon.Run(ctx, c, daemon.Options{Logger: daemon.NewLogger(c, os.Stderr)})
}

// A shell is the environment in which a test calls the program.
type shell struct {
	t      *testing.T
	env    []string
	prefix string
}

// newShell returns a shell for the package's Redis and a prefix of the test's own.
func newShell(t *testing.T, vars ...string) *shell {
	s := &shell{t: t, prefix: "test-" + notify.NewID()}
	s.env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "BELLHOP_") })
	s.env = append(s.env, runMain+"=1", "GORACE=atexit_sleep_ms=0", "BELLHOP_REDIS_URL="+storetest.URL(), "BELLHOP_PREFIX="+s.prefix, "BELLHOP_SHARDS="+strconv.Itoa(storetest.Shards()))
	s.env = append(s.env, vars...)
	return s
}

// self returns the path of the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	storetest.Must(t, err)
	return path
}

// ends calls the program, expects an exit code, and returns what it prints.
func (s *shell) ends(code int, args ...string) (out, errOut string) {
	s.t.Helper()
	var all, errs bytes.Buffer
	if got := run(append([]string{"-bellhop", self(s.t)}, args...), s.env, &all, &errs); got != code {
		s.t.Fatalf("bench %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &all, &errs)
	}
	return all.String(), errs.String()
}

// fails is ends for a call that fails. It returns stderr.
func (s *shell) fails(code int, args ...string) string {
	s.t.Helper()
	_, errs := s.ends(code, args...)
	return errs
}

// figures calls the program with -json.
func (s *shell) figures(args ...string) (got figuresJSON) {
	s.t.Helper()
	out, _ := s.ends(0, append(args, "-json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return got
}

// A process is a call in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	said storetest.Log // stdout and stderr
}

// ends waits until it fails, and expects texts in what it printed.
func (p *process) ends(wants ...string) {
	p.t.Helper()
	_ = p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailed {
		p.t.Errorf("exit %d", code)
	}
	contains(p.t, p.said.String(), wants...)
}

// contains expects texts in an output.
func contains(t *testing.T, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

// kept returns all keys of the shell with their values, without those of benches.
func (s *shell) kept() map[string]string {
	s.t.Helper()
	client, all := redisOf(s.t), make(map[string]string)
	keys, err := client.Keys(s.t.Context(), s.prefix+"*").Result()
	storetest.Must(s.t, err)
	for _, key := range keys {
		if !strings.Contains(key, ":bench-") {
			all[key] = client.Dump(s.t.Context(), key).Val()
		}
	}
	return all
}

// redisOf returns a client of the package's Redis.
func redisOf(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(storetest.URL(), "redis://")})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Bench measures everything, and disturbs no message of the prefix.
func TestBench(t *testing.T) {
	shards := ""
	if n := storetest.Shards(); n > 1 {
		shards = fmt.Sprintf(", with %d shards", n)
	}
	for only, figures := range map[string]int{"publish,burst,backlog": 6, "lateness": 4, "idle": 8, "http": 7} {
		t.Run(only, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			storetest.Publish(t, storetest.At(t, storetest.URL(), s.prefix), notify.Message{Topic: "t", Body: []byte("1")}, notify.Message{Topic: "t", Body: []byte("2")})
			before := s.kept()
			got := s.figures("-only", only, "-messages", "100")
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
			if diff := cmp.Diff(before, s.kept()); diff != "" || len(before) == 0 {
				t.Errorf("the messages changed: %s", diff)
			}
			noKeys(t, s)
		})
	}
}

// The table begins with how it was measured, and has the least and most of several turns.
func TestBenchTurns(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	once, _ := s.ends(0, "-only", "publish", "-messages", "160")
	contains(t, once, "daemon   bellhop serve, a process of its own", "library  process ", "redis    Redis ", " cores, ", " before: others used ", "SAMPLES\n", "publish     single calls from 16 goroutines ", " meanwhile: others used ")
	turns, _ := s.ends(0, "-only", "publish", "-messages", "160", "-turns", "2", "-own")
	contains(t, turns, " LEAST ", " MOST\n", "publish     batches of 500 ")
	if n := strings.Count(turns, "\npublish "); n != 2 {
		t.Errorf("%d figures, want 2:\n%s", n, turns)
	}
	contains(t, s.fails(exitUsage, "-only", "nothing"), `invalid measurement "nothing": use publish, `)
}

// Lives are measured over as many shards as asked for, on one server and on a Cluster of bench's own.
func TestBenchShards(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for args, servers := range map[string]int{"-shards 2": 1, "-own -shards 8 -redis-cluster 3": 3} {
		got := s.figures(strings.Fields("-messages 100 -batch 2 " + args)...)
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
		"-shards 3":          "shards 3: use a power of two, 1 to 256",
		"-redis-cluster 3":   "it is for -own",
		"-batch 0":           "messages of a call 0: use 1 to 500",
		"-redis-cluster 999": "masters of a Cluster 999: use 3 to 32",
		"-messages 9":        "invalid messages 9: use 100 or more",
		"-body 0":            "invalid body 0: use 1 to 262144",
		"-turns 0":           "invalid turns 0: use 1 to 1000",
		"-turns x":           `invalid value "x" for flag -turns`,
		"more":               `unexpected argument "more"`,
	} {
		contains(t, s.fails(exitUsage, strings.Fields(args)...), want)
	}
}

// Others may wait meanwhile, also on the measured topic. They are removed, too.
func TestBenchWaiting(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.figures("-own", "-only", "memory,lateness,idle", "-messages", "100", "-waiting", "6000") // of a server that others use the memory says nothing
	if len(got.Figures) != 1+4+8+2*2 {
		t.Errorf("got %+v", got.Figures)
	}
	for _, f := range got.Figures {
		if strings.Contains(f.Name, "others") && (f.Samples != 6000 || f.Value <= 0) || f.Measurement == "memory" && f.Value <= 0 || strings.Contains(f.Name, "early") && f.Value != 0 {
			t.Errorf("got %+v", f)
		}
	}
	s.figures("-only", "idle", "-messages", "100", "-waiting", "600")
	noKeys(t, s)
	contains(t, s.fails(exitUsage, "-waiting", "-1"), "waiting messages -1: use 0 to 1000000000")
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
	keys, err := redisOf(t).Keys(t.Context(), s.prefix+":bench-*").Result()
	storetest.Must(t, err)
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
	p = &process{t: t, cmd: exec.Command(self(t), append([]string{"-bellhop", self(t)}, args...)...)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.env, &p.said, &p.said
	storetest.Must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	storetest.Eventually(t, "its daemon runs", func() bool {
		if p.said.Count("MEASURED") == 0 {
			return false
		}
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
		p, started := startBench(t, s, 1, "-only", only, "-messages", "1000000")
		interrupted(t, p, started)
		noKeys(t, s)
	}
	dir := t.TempDir()
	p, started := startBench(t, newShell(t, "TMPDIR="+dir), 2, "-own", "-only", "rest") // redis-server and the daemon
	interrupted(t, p, started)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func interrupted(t *testing.T, p *process, started []int) {
	t.Helper()
	storetest.Must(t, p.cmd.Process.Signal(os.Interrupt))
	p.ends("interrupted")
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
	p, started := startBench(t, s, 1, "-only", "rest")
	storetest.Eventually(t, "a subscriber waits", func() bool {
		return slices.ContainsFunc(benchKeys(t, s), func(key string) bool { return strings.HasSuffix(key, "waiting:bench0") })
	})
	storetest.Must(t, syscall.Kill(started[0], syscall.SIGKILL))
	p.ends("bench: measure rest: bellhop serve ended by itself\n")
	noKeys(t, s)
}

// The program may be missing, or be another one.
func TestBenchDaemonDoesNotStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bellhop")
	s := newShell(t)
	contains(t, s.fails(exitUsage, "-bellhop", path), path, "no such file or directory; build it with make build, or name another one with -bellhop\n")
	storetest.Must(t, os.WriteFile(path, []byte("#!/bin/sh\necho another \"$1\" >&2; exit 7\n"), 0o700))
	told := s.fails(exitFailed, "-only", "publish", "-bellhop", path)
	contains(t, told, "bench: measure publish: bellhop serve ended at once: exit status 7\n", "it printed:\nbench: another serve\n")
	noKeys(t, s)
}

// A user of Redis who may not look for keys cannot remove them: then there are none to remove.
func TestBenchMayNotRemove(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	name := "bench-" + s.prefix
	storetest.Must(t, redisOf(t).Do(t.Context(), "acl", "setuser", name, "on", ">pw", "~*", "&*", "+@all", "-scan").Err())
	s.env = append(s.env, "BELLHOP_REDIS_URL="+strings.Replace(storetest.URL(), "//", "//"+name+":pw@", 1))
	contains(t, s.fails(exitFailed, "-only", "publish"), "bench: remove the keys "+s.prefix+":bench-", "'scan'")
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

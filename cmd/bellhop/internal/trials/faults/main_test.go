package faults_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// The choices of make faults.
var (
	roundsFlag     = flag.Int("faults.rounds", 0, "random rounds to run")
	seedFlag       = flag.Uint64("faults.seed", 0, "seed of the first round, plus one for each further round; 0: random")
	parallelFlag   = flag.Int("faults.parallel", 3, "rounds in parallel")
	togetherFlag   = flag.Int("faults.together", 6, "faults in a round of TestEachFault, one after the other")
	replicatedFlag = flag.Bool("faults.replicated", false, "in TestEachFault replace the master of a replicated Redis, too")
	shardedFlag    = flag.Bool("faults.sharded", false, "make only faults of a Redis Cluster with several shards, and such beside them; in TestEachFault those, too")
	takeoversFlag  = flag.Int("faults.takeovers", 0, "takeovers of each kind to measure")
	onlyFlag       = flag.String("faults.only", "", "make only faults that contain this, such as SIGSTOP, or cut carrier; it changes the plans of seeds")
	keepFlag       = flag.String("faults.keep", "", "folder in which to keep all histories; empty: only those of violations are kept")
)

// Paths of the program, and of the library of Redis's machine, which are built for these tests.
var bellhop, library string

// The test binary also runs as the processes that publish, work and listen: FAULTS_ROLE names
// the role.
func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every broken connection
	role := os.Getenv("FAULTS_ROLE")
	var err error
	code := 0
	if role != "" {
		err = play(role)
	} else {
		code, err = run(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run builds the program and runs the tests.
func run(m *testing.M) (int, error) {
	flag.Parse()
	reach.ReplicaWait = reach.Patience // of what the trial itself does; the processes of the crew wait for as long as all do
	if testing.Short() {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "bellhop-faults-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	bellhop = filepath.Join(dir, "bellhop")
	if err := build(bellhop); err != nil {
		return 0, err
	}
	if library, err = machine.Build(context.Background(), dir); err != nil {
		return 0, err
	}
	if code := m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find(goleak.IgnoreAnyFunction("github.com/bellhopd/bellhop/notify/servers/child.Start.func1"))
}

const program = "github.com/bellhopd/bellhop/cmd/bellhop"

// build builds the program as make install does or, if the tests have the race detector, as the tests: each compiles the same.
func build(to string, args ...string) error {
	c := exec.Command("go", append([]string{"build", "-trimpath", "-o", to}, append(args, program)...)...)
	info, _ := debug.ReadBuildInfo()
	if info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		c.Args = slices.Insert(c.Args, 2, "-race")
	} else {
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", c, err, out)
	}
	return nil
}

// An actor is a process in a role.
type actor struct {
	*history.Log
	store     *notify.Store
	shards    int  // of a sharded world; else zero
	lodges    bool // in another database, where only workers and listeners in Go are
	branches  bool // are there
	inspector *notify.Inspector
	dir       string // of the histories
	name      string // worker-1
	process   string // worker-1.1 in its first life
	random    uint64 // seed of its actions

	publishing context.Context // ends with SIGUSR1
}

// play runs a role until SIGTERM.
func play(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	publishing, enough := signal.NotifyContext(ctx, syscall.SIGUSR1)
	defer enough()
	if role == "nats" {
		return playNATS(ctx)
	}
	replicas, err := strconv.Atoi(os.Getenv("FAULTS_REPLICAS"))
	if err != nil {
		return err
	}
	shards, err := strconv.Atoi(os.Getenv("FAULTS_SHARDS"))
	if err != nil {
		return err
	}
	store, err := notify.Open(notify.Config{URL: os.Getenv("FAULTS_REDIS"), Master: os.Getenv("FAULTS_MASTER"), WaitReplicas: replicas, Shards: shards})
	if err != nil {
		return err
	}
	defer store.Close()
	a := &actor{publishing: publishing, store: store, shards: shards, dir: os.Getenv("FAULTS_DIR"), name: os.Getenv("FAULTS_NAME"), process: os.Getenv("FAULTS_PROCESS")}
	a.lodges, a.branches = os.Getenv("FAULTS_DATABASE") != "0", os.Getenv("FAULTS_BRANCHES") != ""
	if a.inspector, err = notify.NewInspector(store); err != nil {
		return err
	}
	if a.Log, err = history.Open(filepath.Join(a.dir, a.process+history.Suffix), a.process); err != nil {
		return err
	}
	if a.random, err = strconv.ParseUint(os.Getenv("FAULTS_SEED"), 10, 64); err != nil {
		return err
	}
	roles := map[string]func(context.Context) error{
		"publisher": a.publish, "worker": a.work, "listener": a.listen, "web": a.browse, "courier": a.carry, "hook": a.receive,
	}
	if err := roles[role](ctx); err != nil {
		return err
	}
	return a.Close()
}

// say sends a line to the test.
func say(what string) { fmt.Println(sign + what) }

// sign begins the lines for the test, in contrast to those of the log.
const sign = "faults: "

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

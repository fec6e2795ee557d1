package clients_test

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

//go:embed README.md node python all:testdata
var packages embed.FS

// unpacked writes the files of a folder into one of the test's own, and returns that.
func unpacked(t testing.TB, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	unpack(t, name, dir)
	return dir
}

func unpack(t testing.TB, name, dir string) {
	t.Helper()
	source, err := fs.Sub(packages, name)
	storetest.Must(t, err)
	storetest.Must(t, os.CopyFS(dir, source))
}

// run runs a program in a folder.
func run(t testing.TB, dir, program string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir, c.WaitDelay = dir, storetest.Deadline
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// A compiler accepts each use that fits the types of the package for Node, and refuses the others. npm fetches it, unless it did before.
func TestTypesOfNode(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "testdata/node")
	run(t, dir, "npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline", "--loglevel=error")
	unpack(t, "node", filepath.Join(dir, "node_modules/bellhop-client"))
	run(t, dir, "node_modules/.bin/tsc", "--project", ".")
}

// The same of the package for Python, which itself has no wrong type.
func TestTypesOfPython(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, "testdata/python")
	unpack(t, "python", dir)
	run(t, dir, "mypy", "--python-version=3.10", "--warn-unused-ignores", "--check-untyped-defs", "uses.py", "bellhop_client.py")
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := packages.ReadFile(name)
	storetest.Must(t, err)
	return string(text)
}

// serve runs a daemon on a store, and returns its URL.
func serve(t testing.TB, clock *memory.Clock, redis string, env ...string) (url string) {
	t.Helper()
	config, err := daemon.Load(append(env, "BELLHOP_REDIS_URL="+redis))
	storetest.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	storetest.Must(t, err)
	storetest.Run(t, func(ctx context.Context) error {
		return daemon.Run(ctx, config, daemon.Options{Listeners: []net.Listener{l}, Clock: clock})
	})
	return "http://" + l.Addr().String()
}

// serveManual runs one whose clock stands still.
func serveManual(t testing.TB) (url string) {
	t.Helper()
	redis := memory.New()
	storetest.Must(t, redis.Listen(0))
	t.Cleanup(redis.Stop)
	store, err := notify.Open(notify.Config{URL: redis.URL()})
	storetest.Must(t, err)
	defer store.Close()
	_, err = store.Home().Workers(t.Context()) // any call founds it
	storetest.Must(t, err)
	clock, err := redis.StandStill(t.Context(), store.Keys(), time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC))
	storetest.Must(t, err)
	t.Cleanup(clock.Close)
	return serve(t, clock, redis.URL())
}

const tokens = "shop 8f14e45fceea167a5a36dedd4bea2543 publish order.>,mail\n"

// The cases of both packages, against daemons of their own.
func TestPackages(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	storetest.Must(t, os.WriteFile(file, []byte(tokens), 0o600))
	for name, command := range map[string][]string{"node": {"node", "--test", "--test-timeout=90000"}, "python": {"python3", "-m", "unittest", "-v"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Server(t).URL()
			c := exec.CommandContext(t.Context(), command[0], command[1:]...)
			c.Dir, c.WaitDelay = unpacked(t, name), storetest.Deadline // where what a case started outlives it
			c.Env = append(os.Environ(), "BELLHOP_URL="+serve(t, nil, redis), "BELLHOP_CLOCK_URL="+serveManual(t),
				"BELLHOP_TOKENS_URL="+serve(t, nil, redis, "BELLHOP_TOKENS_FILE="+file))
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Both packages are tested by the same cases.
func TestCasesAreAlike(t *testing.T) {
	t.Parallel()
	names := func(file, pattern, space string) (all []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1) {
			all = append(all, strings.ReplaceAll(m[1], space, " "))
		}
		slices.Sort(all)
		return all
	}
	node, python := names("node/client.test.mjs", `(?m)^test\("([^"]+)"`, " "), names("python/test_client.py", `(?m)^    def test_(\w+)`, "_")
	if len(node) < 25 || !slices.Equal(node, python) {
		t.Errorf("%d cases in node and %d in python\n%q\n%q", len(node), len(python), node, python)
	}
}

// Each package names each parameter of a publish and of a claim, and each field of what a claim hands out.
func TestTypesKnowAll(t *testing.T) {
	t.Parallel()
	answer, err := http.Get(serve(t, nil, storetest.Server(t).URL()) + "/v1/openapi.json")
	storetest.Must(t, err)
	defer answer.Body.Close()
	type named struct{ Name, In string }
	var document struct {
		Paths      map[string]map[string]struct{ Parameters []named }
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	storetest.Must(t, json.NewDecoder(answer.Body).Decode(&document))
	elsewhere := []string{"topic", "topics", "receipt", "max", "wait", "worker", "ack", "as", "dead", "reason", "attempt"} // said by the packages themselves
	want := slices.Collect(maps.Keys(document.Components.Schemas["Delivery"].Properties))
	for _, path := range []string{"/v1/topics/{topic}/messages", "/v1/claim", "/v1/topics/{topic}/messages/{id}/nack"} {
		for _, p := range document.Paths[path]["post"].Parameters {
			if p.In == "query" && !slices.Contains(elsewhere, p.Name) {
				want = append(want, p.Name)
			}
		}
	}
	if len(want) < 35 {
		t.Errorf("the document names %q only", want)
	}
	for file, form := range map[string]string{"node/index.d.ts": `(?m)^  %s\??:`, "python/bellhop_client.py": `(?m)(^    |[ (]|self\.)%s: `} {
		text := read(t, file)
		for _, name := range want {
			if !regexp.MustCompile(fmt.Sprintf(form, name)).MatchString(text) {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

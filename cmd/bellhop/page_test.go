package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A step is a command of a page: a part of its line, and of its output.
type step struct {
	line, want string
	ready      string // printed once it runs on; empty: it ends
	code       int
	soon       bool // the line is a command of bellhop that says so soon, which is awaited first
}

var receiptOf = regexp.MustCompile(`"receipt":"?(\d+)`)

// aPage runs the commands of a section of a page, one after the other, beside
// bellhop dev and a nats-server, and checks them against these steps.
func aPage(t *testing.T, page, section string, steps []step, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	nats := natsServer(t)
	dev, s := startDev(t, []string{
		"BELLHOP_PREFIX=bellhop", "BELLHOP_LISTEN=" + daemon.DefaultListen, "BELLHOP_NATS_URL=" + nats, "NATS_URL=" + nats,
		"PATH=" + dir + ":" + os.Getenv("PATH"),
	}, append([]string{"--no-tour", "--dir", t.TempDir()}, flags...)...)
	http := regexp.MustCompile(`HTTP: http://(\S+)`).FindStringSubmatch(dev.said())
	s.env = append(s.env, "HTTP="+http[1]) // another port if the usual one is in use
	for _, name := range []string{"bellhop", "nats"} {
		storetest.Must(t, os.Symlink(self(t), filepath.Join(dir, name)))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(dev.said())
		}
	})
	storetest.Eventually(t, "the daemon at NATS", func() bool {
		nc, err := natsgo.Connect(nats)
		if err != nil {
			return false
		}
		defer nc.Close()
		_, err = nc.Request("$SRV.PING.bellhop", nil, time.Second)
		return err == nil
	})
	store := storetest.At(t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	storetest.Eventually(t, "the bridges begin", func() bool {
		for _, keys := range store.KeysOfAll() {
			if n, err := store.Client().Exists(t.Context(), keys.Bridge()).Result(); err != nil || n == 0 {
				return false
			}
		}
		return true
	})
	follow(t, s, dir, pagestest.Lines(t, page, section), steps)
}

// follow runs lines in a folder, and checks them against these steps.
func follow(t *testing.T, s *shell, dir string, lines []string, steps []step) {
	t.Helper()
	if len(lines) != len(steps) {
		t.Fatalf("the page has %d commands and the test %d:\n%s", len(lines), len(steps), strings.Join(lines, "\n"))
	}
	receipt := "RECEIPT"
	waiting := map[*process]string{}
	for i, line := range lines {
		step := steps[i]
		if !strings.Contains(line, step.line) {
			t.Fatalf("the page has %s and the test %s", line, step.line)
		}
		if step.soon {
			storetest.Eventually(t, step.line+" says "+step.want, func() bool { return strings.Contains(s.call(step.line), step.want) })
		}
		cmd := exec.Command("sh", "-c", "exec "+s.here(strings.Replace(line, "RECEIPT", receipt, 1)))
		if strings.Contains(line, " | ") {
			cmd.Args[2] = strings.TrimPrefix(cmd.Args[2], "exec ")
		}
		cmd.Dir, cmd.Env = dir, s.env
		p := s.launch(cmd)
		if step.ready != "" {
			p.await(1, step.ready)
			waiting[p] = step.want
			continue
		}
		p.ends(step.code)
		contains(t, p.said(), step.want)
		if found := receiptOf.FindStringSubmatch(p.said()); found != nil {
			receipt = found[1]
		}
	}
	for p, want := range waiting {
		p.await(1, want)
	}
}

// here returns a line with the addresses of this shell's bellhop dev.
func (s *shell) here(line string) string {
	line = strings.Replace(line, "redis-cli ", `redis-cli -u "$BELLHOP_REDIS_URL" `, 1)
	return strings.ReplaceAll(line, daemon.DefaultListen, s.setting("HTTP"))
}

// natsServer starts a nats-server, and returns its address.
func natsServer(t *testing.T) string {
	t.Helper()
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	storetest.Must(t, err)
	n.Start()
	t.Cleanup(func() {
		n.Shutdown()
		n.WaitForShutdown()
	})
	if !n.ReadyForConnections(storetest.Deadline) {
		t.Fatal("the nats-server does not start")
	}
	return n.ClientURL()
}

func TestPageOfReadmeFromTheShell(t *testing.T) {
	aPage(t, "../../README.md", "From the shell", []step{
		{line: "work order.timeout", ready: "msg=", want: `order order-4711 was not paid: {"total":12}`},
		{line: "publish order.timeout --id order-4711", want: "order-4711"},
		{line: "publish order.timeout --id order-4712", want: "order-4712"},
		{line: "cancel order.timeout", want: "order-4712"},
		{line: "topics", want: "order.timeout"},
	})
}

func TestPageOfReadmeOverHTTP(t *testing.T) {
	aPage(t, "../../README.md", "Over HTTP", []step{
		{line: "id=mail-1", want: `"id":"mail-1"`},
		{line: "/claim", want: `"body":"{\"total\":12}"`},
		{line: "/ack"},
	})
}

func TestPageOfReadmeOverNATS(t *testing.T) {
	aPage(t, "../../README.md", "Over NATS", []step{
		{line: "nats sub", ready: "Listening", want: "bellhop.broadcast.prices 42"},
		{line: "publish-broadcast", want: `"topic":"prices"`},
		{line: "Bellhop-Id:mail-2", want: `"id":"mail-2"`},
	})
}

func TestPageOfWork(t *testing.T) {
	aPage(t, "README.md", "Work", []step{
		{line: "work order.timeout", ready: "msg=", want: `order order-4713 was not paid: hello`},
		{line: "--id order-4711", want: "order-4711"},
		{line: "--id order-4712", want: "order-4712"},
		{line: "inspect", want: "scheduled"},
		{line: "reschedule", want: "order-4712"},
		{line: "cancel", want: "order-4712"},
		{line: "topics", want: "order.timeout"},
		{line: "publish --file -", want: "published 1"},
	})
}

func TestPageOfWhatIsKept(t *testing.T) {
	aPage(t, "README.md", "What is kept", []step{
		{line: "work report", ready: "msg=", want: "pages: 3"},
		{line: "publish report", want: "r-1"},
		{line: "--wait", want: "pages: 3"},
		{line: "workers", want: "desk-1", soon: true}, // it is noted beside its work
		{line: "listen", ready: "msg=listening", want: ""},
	})
}

func TestPageOfGroups(t *testing.T) {
	aPage(t, "README.md", "Groups", []step{
		{line: "publish row.import", want: "r-17"},
		{line: "publish import.done", want: "import-7-done"},
		{line: "groups row.import", want: "waits for 1: r-17 ready; then import.done:import-7-done"},
		{line: "work row.import", want: `{"row":17}`},
		{line: "work import.done", want: `{"import":7}`},
	})
}

func TestPageOfDeadLetters(t *testing.T) {
	aPage(t, "README.md", "Dead letters", []step{
		{line: "publish", want: "order-4714"},
		{line: "work order.refund --count 1 --", want: "no such order"},
		{line: "dead list", want: "order-4714"},
		{line: "dead requeue", want: "1"},
		{line: "work order.refund --count 1", want: `{"total":3}`},
	})
}

func TestPageOfBroadcasts(t *testing.T) {
	aPage(t, "README.md", "Broadcasts", []step{
		{line: "listen 'prices.*'", ready: "msg=listening", want: "42"},
		{line: "--name shop", ready: "msg=listening", want: "prices.gold is now 42"},
		{line: "broadcast prices.gold", want: "prices.gold"},
		{line: "--from beginning", want: "42"},
		{line: "listeners", want: "shop"},
	})
}

func TestPageOfNATSBroadcasts(t *testing.T) {
	aPage(t, "../../daemon/natsgate/README.md", "Broadcasts", []step{
		{line: "nats sub", ready: "Listening", want: "bellhop.broadcast.prices 43"},
		{line: "bellhop broadcast", want: "prices"},
		{line: "publish-broadcast", want: `"topic":"prices"`},
	})
}

func TestPageOfNATSMessages(t *testing.T) {
	aPage(t, "../../daemon/natsgate/README.md", "Messages", []step{
		{line: "order-4715", want: `"id":"order-4715"`},
		{line: "inspect", want: `"state":"scheduled"`},
		{line: "reschedule", want: `"state":"scheduled"`},
		{line: "order-4716", want: `"id":"order-4716"`},
		{line: "cancel", want: `"cancelled":true`},
		{line: "settings", want: `"attempts":5`},
		{line: "micro info", want: `"name":"bellhop"`},
	})
}

func TestPageOfNATSPushes(t *testing.T) {
	aPage(t, "../../daemon/natsgate/README.md", "Pushes", []step{
		{line: "push put", want: "nats:jobs.mail"},
		{line: "nats reply", ready: "Listening", want: "jobs.mail hello"},
		{line: "publish mail", want: "mail"},
	})
}

func TestPageOfAClockForTests(t *testing.T) {
	storetest.OneShard(t, "a Redis in memory holds one")
	aPage(t, "../../daemon/httpapi/README.md", "A clock for tests", []step{
		{line: "delay=30m", want: `"id":"reminder-1"`},
		{line: "advance=30m", want: `"scheduled":0,"steps":1`},
	}, "--clock", "manual")
}

func TestPageOfPushes(t *testing.T) {
	aPage(t, "../../daemon/httpapi/README.md", "Pushes", []step{
		{line: "umask"},
		{line: "push put", want: "https://crm.example/hook"},
	})
}

func TestPageOfPlainRedis(t *testing.T) {
	aPage(t, "../../daemon/README.md", "Plain Redis", []step{
		{line: "subscribe", ready: "subscribe", want: "bellhop:broadcast:prices"},
		{line: "xrange"},
		{line: "hget"},
	})
}

func TestPageOfSettings(t *testing.T) {
	aPage(t, "../../daemon/README.md", "Settings of topics", []step{
		{line: "backoff_min=2s", want: "1m"},
		{line: "topics settings", want: "2s"},
		{line: "attempts=", want: "10"},
		{line: "'*' lease=45s", want: "45s"},
	})
}

func TestPageOfBranches(t *testing.T) {
	aPage(t, "../../daemon/README.md", "Branches", []step{
		{line: "branches=mail,points", want: "mail,points"},
		{line: "publish order.paid", want: "o-1"},
		{line: "work order.paid@mail", want: `{"total":12}`},
		{line: "work order.paid@points", want: `{"total":12}`},
		{line: "branches=+crm", want: "mail,points,crm"},
	})
}

func TestPageOfRepair(t *testing.T) {
	aPage(t, "../../daemon/README.md", "Repair", []step{{line: "doctor --repair --yes", want: "ok"}})
}

// shop is a program that the README's test may be of.
const shop = `package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/carrier/belltest"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

type Shop struct {
	ctx      context.Context
	pub      *notify.Publisher
	reminded atomic.Value
}

func NewShop(ctx context.Context, store *notify.Store) *Shop {
	s := &Shop{ctx: ctx}
	s.pub, _ = notify.NewPublisher(store)
	sub, _ := subscribers.NewSubscriber(store)
	_ = sub.Handle("order.reminder", func(_ context.Context, d *subscribers.Delivery) error {
		s.reminded.Store(d.ID)
		return nil
	}, subscribers.HandleOptions{})
	go sub.Run(ctx)
	return s
}

func (s *Shop) Order(id string) {
	if _, err := s.pub.Publish(s.ctx, notify.Message{Topic: "order.reminder", ID: id, Delay: 30 * time.Minute}); err != nil {
		panic(err)
	}
}

func (s *Shop) Reminded(id string) bool { return s.reminded.Load() == id }

func TestReminder(t *testing.T) {
`

// The README's program in Go works, with the commands that the README gives: with the module of a release, and in a clone without one. Its test passes.
func TestPageOfReadmeInGo(t *testing.T) {
	const page, section = "../../README.md", "In Go"
	text := pagestest.Section(t, page, section)
	parts := strings.Split(text, "```")
	if len(parts) != 5 {
		t.Fatalf("there are %d parts of text and code, want 5", len(parts))
	}
	commands := pagestest.Blocks(t, page, section)
	released := commands[len(commands)-1]
	const beside = "go work init . .. && go run ."
	if !strings.Contains(text, "`"+beside+"`") {
		t.Errorf("the page does not have %s", beside)
	}
	enter, _, _ := strings.Cut(released, "GOPROXY=")
	for name, lines := range map[string]string{"a release": released + "go test -mod=mod .\n", "a clone": enter + beside + " && go test ."} {
		t.Run(name, func(t *testing.T) {
			clone := t.TempDir()
			_, s := startDev(t, []string{"BELLHOP_PREFIX=bellhop", "BELLHOP_SHARDS=1"}, "--no-tour", "--dir", t.TempDir())
			env := append(s.env, "GOWORK=", "GOFLAGS=-trimpath -modcacherw", "GOSUMDB=off")
			if name == "a release" {
				cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
				storetest.Must(t, err)
				serveModule(t, filepath.Join(clone, "dist/release/goproxy"))
				env = append(env, "GOMODCACHE="+t.TempDir(), "GOPROXY=file://"+strings.TrimSpace(string(cache))+"/cache/download")
			} else {
				copyTracked(t, func(path string, content []byte) {
					path = filepath.Join(clone, path)
					storetest.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
					storetest.Must(t, os.WriteFile(path, content, 0o600))
				})
			}
			storetest.Must(t, os.Mkdir(filepath.Join(clone, "hello"), 0o755))
			for name, text := range map[string]string{
				"main.go": strings.TrimPrefix(parts[1], "go\n"), "main_test.go": shop + strings.TrimPrefix(parts[3], "go\n") + "}\n",
			} {
				storetest.Must(t, os.WriteFile(filepath.Join(clone, "hello", name), []byte(text), 0o600))
			}
			cmd := exec.Command("sh", "-ec", lines)
			cmd.Dir, cmd.Env, cmd.WaitDelay = clone, env, time.Second
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			contains(t, string(said), "hello world, attempt 1", "ok  \thello\t")
		})
	}
}

// serveModule makes a folder a module proxy that has this tree as v0.1.0, as a release does.
func serveModule(t *testing.T, dir string) {
	t.Helper()
	const module, version = "github.com/bellhopd/bellhop", "v0.1.0"
	dir = filepath.Join(dir, module, "@v")
	storetest.Must(t, os.MkdirAll(dir, 0o755))
	write := func(name string, content []byte) {
		storetest.Must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	var archive bytes.Buffer
	pack := zip.NewWriter(&archive)
	copyTracked(t, func(path string, content []byte) {
		if path == "go.mod" {
			write(version+".mod", content)
		}
		file, err := pack.Create(module + "@" + version + "/" + path)
		storetest.Must(t, err)
		_, err = file.Write(content)
		storetest.Must(t, err)
	})
	storetest.Must(t, pack.Close())
	write(version+".zip", archive.Bytes())
	write(version+".info", []byte(`{"Version":"`+version+`"}`))
	write("list", []byte(version+"\n"))
}

// copyTracked calls copied for each file of this tree that git has.
func copyTracked(t *testing.T, copied func(path string, content []byte)) {
	t.Helper()
	const root = "../.."
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	storetest.Must(t, err)
	for path := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, path))
		if !errors.Is(err, fs.ErrNotExist) { // removed, and not yet committed
			storetest.Must(t, err)
			copied(path, content)
		}
	}
}

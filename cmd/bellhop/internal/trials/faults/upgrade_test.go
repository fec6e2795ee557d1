package faults_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// programAfter builds the program of the version after this one, and returns its path.
func programAfter(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "after")
	storetest.Must(t, build(path, "-ldflags", "-w -X github.com/bellhopd/bellhop/notify/store/reach.next=more"))
	return path
}

// A running is a program that was started, and what it says.
type running struct {
	t    *testing.T
	file string
	*child.Process
}

func (r running) says(want string) {
	r.t.Helper()
	storetest.Eventually(r.t, want, func() bool {
		text, err := os.ReadFile(r.file)
		storetest.Must(r.t, err)
		return strings.Contains(string(text), want)
	})
}

// The console of the version after says what its doctor says of the format, and upgrades the store for who means it. bellhop dev upgrades its own.
func TestUpgradeByButtonAndByDev(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	after, dir := programAfter(t), t.TempDir()
	serve := func() (*redisserver.Server, []string) {
		server, err := redisserver.Start(t.Context(), redisserver.Options{Dir: dir, Args: []string{"--appendonly", "yes"}})
		storetest.Must(t, err)
		t.Cleanup(server.Stop)
		port, err := child.HoldPort()
		storetest.Must(t, err)
		return server, append(os.Environ(), "BELLHOP_REDIS_URL="+server.URL(), "BELLHOP_LISTEN="+address(port))
	}
	start := func(env []string, args ...string) running {
		r := running{t: t, file: filepath.Join(t.TempDir(), "log")}
		out, err := newOutput(r.file)
		storetest.Must(t, err)
		r.Process, err = child.Start(child.Program{Name: args[0], Path: after, Args: args, Env: env, Output: out})
		storetest.Must(t, err)
		t.Cleanup(r.Kill)
		return r
	}
	found := func(env []string) {
		c := exec.CommandContext(t.Context(), bellhop, "publish", "t", "--delay", "1h", "--body", "x")
		c.Env = env
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}

	server, env := serve()
	found(env)
	start(env, "serve")
	_, at, _ := strings.Cut(env[len(env)-1], "=")
	v := newVisitor(t, "http://"+at+"/ui/")
	page := v.await("carriers", `<strong>format</strong>: 10, and this version works with 11, which adds more<br>`)
	if !strings.Contains(page, "run bellhop upgrade, which names the older programs that are left") || !strings.Contains(page, `formaction="acts/upgrade"`) {
		t.Errorf("the page of carriers: %s", page)
	}
	asked := v.send("acts/upgrade", page)
	if !strings.Contains(asked, "Upgrade the store from format 10 to 11, which adds more? It shuts out older programs, such as an older version, which made a call ") {
		t.Errorf("it is not asked whether that is meant: %s", asked)
	}
	if done := v.send("acts/upgrade", asked, "sure", "1"); !strings.Contains(done, "Upgraded the store to format 11") || strings.Contains(done, `formaction="acts/upgrade"`) {
		t.Errorf("it is not said that the store is upgraded: %s", done)
	}
	if again := v.send("acts/upgrade", v.await("carriers", "Carriers"), "sure", "1"); !strings.Contains(again, "There is nothing to upgrade") {
		t.Errorf("another upgrade: %s", again)
	}
	server.Stop()

	dir = t.TempDir()
	server, env = serve()
	found(env)
	server.Stop()
	dev := start(env, "dev", "--no-tour", "--dir", dir)
	dev.says("The data had format 10. It has 11 now, which adds more; older programs cannot use it.\n")
	dev.says("Ctrl-C ends this.")
}

// A visitor looks at pages of a console.
type visitor struct {
	t      *testing.T
	root   string
	client *http.Client
}

func newVisitor(t *testing.T, root string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	storetest.Must(t, err)
	v := &visitor{t, root, &http.Client{Transport: &http.Transport{}, Jar: jar}}
	t.Cleanup(v.client.CloseIdleConnections)
	return v
}

// await returns a page once it has a text.
func (v *visitor) await(path, text string) (page string) {
	v.t.Helper()
	storetest.Eventually(v.t, path+" has "+text, func() bool {
		page = v.ask(http.MethodGet, path, "")
		return strings.Contains(page, text)
	})
	return page
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(edition|once|back)" value="([^"]*)">`)

// send sends the form of a page with other fields, pairs of name and value, and returns the page behind it.
func (v *visitor) send(path, page string, fields ...string) string {
	v.t.Helper()
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(field[1], field[2])
	}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return v.ask(http.MethodPost, path, form.Encode())
}

// ask returns what answers a request; empty: nobody does.
func (v *visitor) ask(method, path, form string) string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), storetest.Deadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, v.root+path, strings.NewReader(form))
	storetest.Must(v.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := v.client.Do(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	storetest.Must(v.t, err)
	return string(text)
}

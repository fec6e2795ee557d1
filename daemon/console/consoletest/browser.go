package consoletest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A browser is a chromium that all pages of a test package share. It is told what to do by
// the DevTools protocol, over a pair of pipes.
type browser struct {
	process *child.Process
	said    *said

	mu       sync.Mutex
	in       *os.File
	last     int
	answers  map[int]chan answer
	sessions map[string]func(event) // of pages, by their ids; called in the order of events
	gone     bool
}

// A call is a request to the browser, for a page or for itself.
type call struct {
	ID      int    `json:"id"`
	Session string `json:"sessionId,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// An answer is that to a call, or an event if it has a method.
type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
	event
}

// An event is what a page tells by itself.
type event struct {
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

var shared struct {
	sync.Mutex
	browser *browser
}

// share returns the browser of this test package, started by its first page.
func share(t testing.TB) *browser {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.browser == nil {
		shared.browser = start(t)
		storetest.AtEnd(shared.browser.stop)
	}
	return shared.browser
}

// start starts a browser.
func start(t testing.TB) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Fatal("the console is tested with a browser, and chromium-headless-shell is not on PATH; install it, on Debian with: apt-get install chromium-headless-shell")
	}
	dir, err := os.MkdirTemp("", "bellhop-browser-")
	if err != nil {
		t.Fatal(err)
	}
	hears, in := pipe(t)
	out, tells := pipe(t)
	b := &browser{said: &said{}, in: in, answers: make(map[int]chan answer), sessions: make(map[string]func(event))}
	b.process, err = child.Start(child.Program{Path: path, Name: "chromium", Output: b.said, Files: []*os.File{hears, tells}, Args: []string{
		"--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--force-color-profile=srgb", "--user-data-dir=" + filepath.Join(dir, "profile"),
	}})
	hears.Close()
	tells.Close()
	if err != nil {
		t.Fatal(err)
	}
	go b.read(out, dir)
	return b
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// stop ends the browser.
func (b *browser) stop() {
	b.in.Close()
	b.process.Stop()
}

// read hands on what the browser tells, until it ends.
func (b *browser) read(out *os.File, dir string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 256<<20)
	lines.Split(func(data []byte, _ bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err == nil {
			b.handOn(a)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	for _, waits := range b.answers {
		close(waits)
	}
	out.Close()
	os.RemoveAll(dir)
}

func (b *browser) handOn(a answer) {
	b.mu.Lock()
	waits, hears := b.answers[a.ID], b.sessions[a.Session]
	if a.Method == "" {
		delete(b.answers, a.ID)
	}
	b.mu.Unlock()
	switch {
	case a.Method == "" && waits != nil:
		waits <- a
	case a.Method != "" && hears != nil:
		hears(a.event)
	}
}

// call calls a method for a session, empty for the browser itself, and reads the result.
func (b *browser) call(session, method string, params, result any) error {
	b.mu.Lock()
	if b.gone {
		b.mu.Unlock()
		return fmt.Errorf("%s: the browser ended: %s", method, b.said)
	}
	b.last++
	waits := make(chan answer, 1)
	b.answers[b.last] = waits
	text, err := json.Marshal(call{ID: b.last, Session: session, Method: method, Params: params})
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	a, ok := answer{}, false
	select {
	case a, ok = <-waits:
	case <-time.After(storetest.Deadline):
		return fmt.Errorf("%s: the browser does not answer: %s", method, b.said)
	}
	switch {
	case !ok:
		return fmt.Errorf("%s: the browser ended: %s", method, b.said)
	case a.Error != nil:
		return fmt.Errorf("%s: %s", method, a.Error.Message)
	case result == nil:
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// hear has the events of a session handed to a function; nil: no longer.
func (b *browser) hear(session string, f func(event)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f == nil {
		delete(b.sessions, session)
		return
	}
	b.sessions[session] = f
}

// said is what the browser printed. As a text it is the end of that.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.Bytes()
	return string(text[max(0, len(text)-1000):]) // it says much that means nothing here
}

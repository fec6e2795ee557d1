package console_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A stream is the live part of a page as a program gets it.
type stream struct {
	t      testing.TB
	status int
	body   *http.Response
	events chan string // each is what stands behind data: or event:, by lines; closed at its end
}

// stream opens the stream of a page. A path without an edition gets the right one.
func (v *visitor) stream(path string) *stream {
	v.t.Helper()
	if !strings.Contains(path, "edition=") {
		path += "?edition=" + v.get(path).field(assetEdition)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.url+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html, text/event-stream")
	resp, err := v.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	s := &stream{t: v.t, status: resp.StatusCode, body: resp, events: make(chan string, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	v.t.Cleanup(func() {
		s.close()
		<-read
	})
	return s
}

func (s *stream) close() { s.body.Body.Close() }

func (s *stream) read() {
	defer close(s.events)
	var event []string
	lines := bufio.NewScanner(s.body.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ":")
		switch {
		case lines.Text() == "":
			s.events <- strings.Join(event, "\n")
			event = nil
		case name == "event":
			event = append(event, "event "+strings.TrimSpace(text))
		case name == "data":
			event = append(event, strings.TrimPrefix(text, " "))
		}
	}
}

// says waits for an event with a text, and returns it.
func (s *stream) says(text string) string {
	s.t.Helper()
	for {
		got := storetest.Receive(s.t, "an event that says "+text, s.events)
		if strings.Contains(got, text) {
			return got
		}
		if got == "" {
			s.t.Fatalf("the stream ended, and did not say %q", text)
		}
	}
}

// ends waits for the end of the stream.
func (s *stream) ends() {
	s.t.Helper()
	storetest.Eventually(s.t, "the stream ends", func() bool {
		select {
		case _, more := <-s.events:
			return !more
		default:
			return false
		}
	})
}

// A page that cannot be made says so, and is logged once while it is open, not each second.
func TestBrokenPageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	stream := v.stream("/ui/test/broken?edition=" + v.get("/ui/login").field(assetEdition))
	stream.says("this part could not be made")
	made := console.Broken.Load()
	storetest.Eventually(t, "it is made some times more", func() bool { return console.Broken.Load() >= made+3 })
	if n := strings.Count(s.log.String(), "cannot show a part of the console"); n != 1 {
		t.Errorf("it is logged %d times: %s", n, s.log)
	}
}

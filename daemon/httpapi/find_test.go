package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// findPath returns the path of a call with a question.
func findPath(act, question, more string) string {
	return "/v1/find" + act + "?q=" + url.QueryEscape(question) + more
}

// findAll returns all messages that a question asks for, and the last page; as nobody where the name is empty.
func (s *server) findAll(name, question, more string) (all []api.Message, last calls.Found) {
	s.t.Helper()
	for {
		last = read[calls.Found](s.askAs(name, "GET", findPath("", question, more)).is(200))
		if all = append(all, last.Messages...); last.Cursor == "" {
			return all, last
		}
		more = "&cursor=" + last.Cursor
	}
}

func (s *server) askAs(name, method, path string) answer {
	s.t.Helper()
	if name == "" {
		return s.call(method, path, "")
	}
	return s.as(name, method, path)
}

// Messages are found a page at a time, and acted on.
func TestFind(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store,
		notify.Message{Topic: "orders", ID: "a", Delay: time.Hour, Body: []byte("x\xff4711")}, notify.Message{Topic: "orders", ID: "b", Delay: time.Hour, Body: []byte("4712")},
		notify.Message{Topic: "orders", ID: "c", Body: bytes.Repeat([]byte("4711 "), 10_000)})
	for question, want := range map[string]int{"topic:orders": 3, "body~4711": 2, "state:dead": 0} {
		if got, _ := s.findAll("", question, ""); len(got) != want {
			t.Errorf("%s: %d messages", question, len(got))
		}
	}
	first := read[calls.Found](s.call("GET", findPath("", "topic:orders", "&limit=1"), "").is(200))
	rest, last := s.findAll("", "topic:orders", "&cursor="+first.Cursor)
	if len(first.Messages)+len(rest) != 3 || last.Looked.Looked != 3 || last.Of != 3 {
		t.Errorf("%+v, then %+v", first, last)
	}
	s.call("GET", findPath("", "id:b", "&cursor="+first.Cursor), "").is(422).says("another question")
	s.call("GET", findPath("", "stat:b", ""), "").is(422).says("did you mean state?")
	s.call("POST", findPath("/cancel", "id:b", ""), "").is(422).says("all=true")
	for more, done := range map[string]int{"&dry_run=true": 0, "&all=true": 3} {
		if got := read[calls.Acted](s.call("POST", findPath("/cancel", "topic:orders", more), "").is(200)); got.Done != done {
			t.Errorf("%s: %+v", more, got)
		}
	}
}

// A cursor for a token of some topics says nothing of others, and cannot be made up or changed.
func TestSealedCursor(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "reader "+tokenOf("reader")+" consume order.>\nroot "+tokenOf("root")+" admin >\n")})
	claimer := subscriberstest.Claimer(t, s.store)
	for i := range 3 { // names that no sealed cursor has by chance
		for _, topic := range []string{"order.new", "secret.plan", "zoological"} {
			storetest.Publish(t, s.store, notify.Message{Topic: topic, ID: fmt.Sprint("hidden-", i)}, notify.Message{Topic: topic, ID: fmt.Sprint("later-", i), Delay: time.Hour})
			storetest.Must(t, storetest.ErrOf(claimer.Claim(t.Context(), topic)))
		}
	}
	for _, question := range []string{"state:leased", "state:scheduled", "state:leased,scheduled", "id:none"} {
		seen, more := 0, "&limit=1"
		for {
			page := read[calls.Found](s.as("reader", "GET", findPath("", question, more)).is(200))
			if seen += len(page.Messages); page.Cursor == "" {
				break
			}
			raw, err := base64.RawURLEncoding.DecodeString(page.Cursor)
			storetest.Must(t, err)
			for _, text := range []string{page.Cursor, string(raw)} {
				for _, foreign := range []string{"secret", "zoological", "hidden", base64.StdEncoding.EncodeToString([]byte("secret"))} {
					if strings.Contains(text, foreign) {
						t.Errorf("%s: the cursor %q names %s", question, text, foreign)
					}
				}
			}
			changed := []byte(page.Cursor)
			changed[len(changed)/2] ^= 1
			s.as("reader", "GET", findPath("", question, "&cursor="+string(changed))).is(422).says("cursor")
			more = "&limit=1&cursor=" + page.Cursor
		}
		if want := map[string]int{"state:leased": 3, "state:scheduled": 3, "state:leased,scheduled": 6}[question]; seen != want {
			t.Errorf("%s: %d messages, want %d", question, seen, want)
		}
	}
	plain := base64.RawURLEncoding.EncodeToString([]byte(`{"q":"x","n":1}`))
	s.as("reader", "GET", findPath("", "state:leased", "&cursor="+plain)).is(422).says("this client")
	one := read[calls.Found](s.as("reader", "GET", findPath("", "state:leased", "&limit=1")).is(200)).Cursor
	s.as("root", "POST", "/v1/secret/rotate").is(204)
	storetest.Eventually(t, "the cursor of before the rotation is refused", func() bool {
		return s.as("reader", "GET", findPath("", "state:leased", "&cursor="+one)).status == 422
	})
}

// A token may have two searches of bodies under way.
func TestFindBounds(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Fill(t, s.store, 100_000, func(i int) notify.Message {
		return notify.Message{Topic: "orders", ID: fmt.Sprint(i), Delay: time.Hour, Body: []byte("x")}
	})
	answers := make(chan answer, 8)
	for range cap(answers) {
		go func() { answers <- s.call("GET", findPath("", "body~4711", ""), "") }()
	}
	refused := 0
	for range cap(answers) {
		if a := storetest.Receive(t, "an answer", answers); a.status == 429 {
			if a.says("searches of bodies"); a.header.Get("Retry-After") != "1" {
				t.Errorf("%v", a.header)
			}
			refused++
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
}

func TestFindWithoutAShard(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.ShardAway(t, 8, 3), httpapi.Options{})
	if _, got := s.findAll("", "topic:>", ""); len(got.Missing.Missing) != 1 || got.Missing.Missing[0] != 3 {
		t.Errorf("%+v", got)
	}
}

package httpapi_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// claimAny claims from several topics in the background.
func (h *host) claimAny(c *http.Client, query string) <-chan claimed {
	return h.claimAt(c, "/v1/claim?"+query)
}

// One call claims from several topics: in the order given, or the oldest of all, each with its topic.
func TestClaimAny(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	topicOf := func(letter string) string { return storetest.Near(s.store, letter) }
	topics := strings.NewReplacer("A", topicOf("A"), "B", topicOf("B"), "C", topicOf("C"))
	for i, name := range []string{"C1", "B2", "C3", "A4"} {
		storetest.Publish(t, s.store, notify.Message{
			Topic: topicOf(name[:1]), ID: name, Body: []byte("x"), Due: time.Now().Add(time.Duration(i-10) * time.Minute), Restore: &notify.Restore{},
		})
	}
	for _, test := range [][2]string{
		{"topics=A,B&order=oldest&wait=1m", "B2"},
		{"topics=none,A,B,C&max=9&min_age=7m30s&lease=1m", "C1 C3"},
		{"topics=B,A,C&order=given", "A4"},
	} {
		var got []string
		for _, m := range read[api.Claimed](s.call("POST", "/v1/claim?"+topics.Replace(test[0]), "").is(200)).Messages {
			if got = append(got, m.ID); m.Topic != topicOf(m.ID[:1]) {
				t.Errorf("%s is of the topic %s", m.ID, m.Topic)
			}
		}
		if strings.Join(got, " ") != test[1] {
			t.Errorf("%s: got %q, want %s", test[0], got, test[1])
		}
	}
	storetest.Publish(t, s.store, notify.Message{Topic: topicOf("C"), ID: "last"})
	if got := s.call("POST", topics.Replace("/v1/claim?topics=none,C&as=body"), "").is(200); got.header.Get("Bellhop-Id") != "last" || got.header.Get("Bellhop-Topic") != topicOf("C") {
		t.Errorf("got %v", got.header)
	}
	s.call("POST", "/v1/claim?topics=none,nothing&as=body", "").is(204)
}

// All faults of a claim of several topics are reported at once, and nothing is claimed.
func TestBadClaimAny(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "a", ID: "1", Body: []byte("x")})
	unchanged := s.unchanged()
	many := "a"
	for i := range 32 {
		many += fmt.Sprint(",t", i)
	}
	for query, faults := range map[string][]string{
		"":                    {"topics: it is missing"},
		"topics=":             {"topics: it is empty"},
		"topics=" + many:      {"topics: there are 33; name at most 32"},
		"topics=a,b,a":        {"topics: \"a\" is named twice"},
		"topics=a,,b":         {"topics: topic: it is empty"},
		"topics=a&order=last": {"order: use given, oldest"},
		"topics=a,b%20c,a,d..&order=x&max=501&wait=6m&lease=1ms&min_age=-1s&as=x": {
			"topics: \"b c\": use tokens", "topics: \"a\" is named twice", "topics: \"d..\": use tokens",
			"order: use", "max: write a whole number from 1 to 500", "wait: use", "lease: use", "min_age: it is negative", "as: use body",
		},
	} {
		p := s.call("POST", "/v1/claim?"+query, "").is(422).problem()
		if len(p.Errors) != len(faults) {
			t.Errorf("%.30s: got %+v", query, p.Errors)
		}
		for _, fault := range faults {
			name, words, _ := strings.Cut(fault, ": ")
			found := false
			for _, e := range p.Errors {
				found = found || e.Name == name && strings.Contains(e.Detail, words)
			}
			if !found {
				t.Errorf("%.30s: no fault says %q: %+v", query, fault, p.Errors)
			}
		}
	}
	s.call("POST", "/v1/claim?topics=a&max=2&as=body", "").is(422)
	s.call("POST", "/v1/claim?topics=a", "body").is(422)
	s.call("GET", "/v1/claim?topics=a", "").is(405)
	unchanged()
}

// A token needs the right consume for each topic.
func TestRightsOfClaimAny(t *testing.T) {
	t.Parallel()
	tokens := "a " + tokenOf("a") + " consume order.*,mail\np " + tokenOf("p") + " publish >\n"
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", tokens)})
	for topics, status := range map[string]int{"order.1,order.2,mail": 200, "order.1,payments,mail": 403, "payments": 403, "order.1.2,mail": 403} {
		s.call("POST", "/v1/claim?topics="+topics, "", "Authorization: Bearer "+tokenOf("a")).is(status)
	}
	s.call("POST", "/v1/claim?topics=payments,order.1,secrets", "", "Authorization: Bearer "+tokenOf("a")).is(403).says("payments").says("secrets")
	s.call("POST", "/v1/claim?topics=mail", "", "Authorization: Bearer "+tokenOf("p")).is(403)
}

// Clients that wait for several topics: one is woken, one goes away, one closes its side, one loses its token, and the daemon stops.
func TestPollsOfSeveralTopics(t *testing.T) {
	t.Parallel()
	tokens := file(t, "tokens", "old "+tokenOf("old")+" consume >\nkept "+tokenOf("kept")+" consume >\n")
	store := storetest.Open(t)
	storetest.Beat(t, store)
	h := serve(t, store, httpapi.Options{TokensFile: tokens}, httpapi.Timing{})
	with := func(name string) *http.Client {
		return &http.Client{Transport: bearer{client(t).Transport, tokenOf(name)}}
	}
	const poll = "topics=a,b,c&wait=1m"
	got := h.claimAny(with("kept"), poll)
	h.waiting(1)
	storetest.Publish(t, store, notify.Message{Topic: "b", ID: "m", Body: []byte("x")})
	one := storetest.Receive(t, "the answer", got)
	if diff := cmp.Diff([]string{"m"}, ids(t, one)); diff != "" {
		t.Fatal(diff)
	}
	h.want(with("kept"), http.StatusNoContent, "POST", fmt.Sprintf("/v1/topics/b/messages/m/ack?receipt=%d", one.messages[0].Receipt), "")

	ask := "POST /v1/claim?" + poll + " HTTP/1.1\nHost: x\nAuthorization: Bearer " + tokenOf("kept") + "\n\n"
	w := h.dial(t).say(ask)
	h.waiting(1)
	w.Close()
	h.waiting(0)
	half := h.dial(t).say(ask)
	h.waiting(1)
	closeWrite(t, half)
	if status := half.status(); status != http.StatusOK {
		t.Errorf("a client that closed its side got %d", status)
	}
	h.waiting(0)

	old, kept := h.claimAny(with("old"), poll), h.claimAny(with("kept"), poll)
	h.waiting(2)
	write(t, filepath.Clean(tokens), "kept "+tokenOf("kept")+" consume >\n")
	storetest.Must(t, h.Reload())
	if got := storetest.Receive(t, "the answer", old); got.status != http.StatusUnauthorized {
		t.Errorf("a poll without a token any more got %d, %v", got.status, got.err)
	}
	h.waiting(1)
	h.Quiesce(t.Context())
	if got := ids(t, storetest.Receive(t, "the answer", kept)); len(got) > 0 {
		t.Errorf("at the stop it got %v", got)
	}
	h.stop()
	for _, topic := range []string{"a", "b", "c"} {
		if n, err := store.Client().ZCard(t.Context(), store.KeysOf(topic).Waiting(topic)).Result(); err != nil || n > 0 {
			t.Errorf("%d wait for %s, %v", n, topic, err)
		}
	}
}

// Messages of several topics that were claimed for a client that went away meanwhile are ready at once.
func TestClaimAnyForWhoWentAway(t *testing.T) {
	t.Parallel()
	store := storetest.Unhurried(storetest.At(t, storetest.Lend(t), "gone"))
	h := serve(t, store, httpapi.Options{}, httpapi.Timing{})
	for _, query := range []string{"max=9", "max=9&wait=1m", "max=9&order=oldest", "max=9&min_age=1ms&wait=1m"} {
		for _, topic := range []string{"a", "b"} {
			storetest.Publish(t, store, notify.Message{Topic: topic, ID: topic, Body: []byte("x")})
		}
		hold(t, store, true)
		w := h.dial(t).say("POST /v1/claim?topics=a,b&" + query + " HTTP/1.1\nHost: x\n\n")
		storetest.Eventually(t, "the claim is under way", func() bool { return blocked(t, store) > 0 })
		w.reset()
		hold(t, store, false)
		seen := map[string]bool{}
		for len(seen) < 2 {
			next := storetest.Receive(t, "the answer after "+query, h.claimAny(client(t), "topics=a,b&wait=1m&lease=1m"))
			for _, id := range ids(t, next) {
				seen[id] = true
			}
			for _, m := range next.messages {
				if m.Attempt != 1 {
					t.Errorf("%s: %+v", query, m)
				}
				h.want(client(t), http.StatusNoContent, "POST", fmt.Sprintf("/v1/topics/%s/messages/%s/ack?receipt=%d", m.Topic, m.ID, m.Receipt), "")
			}
		}
	}
}

package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// unchanged returns a function that fails the test if anything in Redis has changed since.
func (s *server) unchanged() func() {
	s.t.Helper()
	s.registered()
	return s.unchangedIn(s.store)
}

// registered waits until Redis holds the gateway's registration, which it makes in the background.
func (s *server) registered() {
	s.t.Helper()
	storetest.Eventually(s.t, "the gateway is registered", func() bool {
		n, err := s.store.Client().Exists(s.t.Context(), s.store.Keys().Workers()).Result()
		return err == nil && n == 1
	})
}

// unchangedIn is unchanged, read by another user of Redis.
func (s *server) unchangedIn(db *notify.Store) func() {
	s.t.Helper()
	before := fingerprint(s.t, db)
	return func() {
		s.t.Helper()
		if diff := cmp.Diff(before, fingerprint(s.t, db)); diff != "" {
			s.t.Errorf("something was changed in Redis: %.2000s", diff)
		}
	}
}

// raw writes bytes to a connection of its own and returns the first answer; nil
// if the connection is closed without one. cut closes the client's side after the bytes.
func (s *server) raw(text string, cut bool) *http.Response {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	storetest.Must(s.t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(storetest.Deadline))
	storetest.Must(s.t, storetest.ErrOf(io.WriteString(conn, text)))
	if cut {
		storetest.Must(s.t, conn.(*net.TCPConn).CloseWrite())
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// chunked hides the length of a body.
type chunked struct{ io.Reader }

func (s *server) post(path string, body io.Reader) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+path, body)
	storetest.Must(s.t, err)
	return s.send(r)
}

func TestBodyOfPublish(t *testing.T) {
	t.Parallel()
	const most = 100_000
	s := start(t, httpapi.Options{MaxBody: most})
	const path = "/v1/topics/orders/messages"
	same := s.unchanged()
	for _, path := range []string{path, "/v1/topics/orders/broadcasts"} {
		s.call("POST", path, strings.Repeat("x", most+1)).is(413).kind("too-large")
		s.post(path, chunked{strings.NewReader(strings.Repeat("x", most+1))}).is(413).kind("too-large")
		s.call("POST", path, "x", "Content-Encoding: gzip").is(422).says("Content-Encoding")
	}
	same()
	for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", most)), chunked{strings.NewReader(strings.Repeat("x", most))}} {
		s.post(path, body).is(201)
		if got := s.claim("orders"); len(got.Bytes()) != most {
			t.Errorf("%d bytes came out", len(got.Bytes()))
		}
	}
	for _, body := range []io.Reader{nil, chunked{strings.NewReader("")}} {
		s.post(path, body).is(201)
		s.call("POST", "/v1/topics/orders/claim", "").is(200).says(`"body":""`)
	}
	s.post("/v1/topics/orders/broadcasts?delay=1h", nil).is(201)
	s.call("GET", "/v1/topics/orders/messages?state=broadcasts", "").is(200).says(`"body":""`)
	s.call("POST", "/v1/messages", `{"topic":"orders","body":"x","headers":{"To":"a","TO":"b"}}`).says(`the keys \"TO\" and \"To\" differ only in case`)
	s.call("POST", "/v1/messages", `{"topic":"orders","body":""}`+"\n"+`{"topic":"orders"}`).says(`"state":"ready"`).says("body: it is missing")
	s.call("POST", "/v1/topics/orders/claim", "").is(200).says(`"body":""`)
	s.call("POST", path, "\xff\x00").is(201)
	if got := s.claim("orders"); !bytes.Equal(got.BodyBase64, []byte("\xff\x00")) || got.Body != nil {
		t.Errorf("got %+v", got)
	}
}

// A call that takes no body refuses one: a client that sends it expects some effect.
func TestBodyWhereNoneBelongs(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "1", Body: []byte("x")})
	same := s.unchanged()
	for _, op := range s.spec.ops {
		if op.RequestBody != nil {
			continue
		}
		path, query, _ := wrongCase{op: op}.address()
		for _, body := range []io.Reader{strings.NewReader("{}"), chunked{strings.NewReader("{}")}, strings.NewReader(strings.Repeat("x", 2<<20))} {
			r, err := http.NewRequestWithContext(t.Context(), op.method, s.url+path+"?"+query, body)
			storetest.Must(t, err)
			s.send(r).is(422).says("none belongs here")
		}
	}
	same()
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	same := s.unchanged()
	const head = "POST /v1/topics/orders/messages HTTP/1.1\r\nHost: a\r\n"
	for what, request := range map[string]string{
		"half of it":             head + "Content-Length: 10\r\n\r\nhello",
		"nothing of it":          head + "Content-Length: 10\r\n\r\n",
		"half of a large one":    head + "Content-Length: 200000\r\n\r\nhello",
		"half of a chunk":        head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"no last chunk":          head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"no number of a chunk":   head + "Transfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n0\r\n\r\n",
		"a negative length":      head + "Content-Length: -1\r\n\r\nhello",
		"no number of a length":  head + "Content-Length: x\r\n\r\nhello",
		"a length too large":     head + "Content-Length: 99999999999999999999\r\n\r\nhello",
		"two lengths":            head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"an unknown encoding":    head + "Transfer-Encoding: gzip\r\n\r\nhello",
		"half of a header":       head,
		"a header without colon": head + "Bellhop-Header-X\r\n\r\n",
		"a space in its name":    head + "Bellhop-Header X: 1\r\nContent-Length: 1\r\n\r\nx",
		"a control character":    head + "Bellhop-Header-X: a\x01b\r\nContent-Length: 1\r\n\r\nx",
		"no host":                "POST /v1/topics/orders/messages HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
		"an unknown version":     "POST /v1/topics/orders/messages HTTP/9.9\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
		"too many headers":       head + strings.Repeat("Bellhop-Header-X: "+strings.Repeat("1", 1000)+"\r\n", 100) + "\r\n",
	} {
		resp := s.raw(request, true)
		if resp != nil && (resp.StatusCode < 400 || resp.StatusCode == 500) {
			t.Errorf("%s: answers %s", what, resp.Status)
		}
	}
	if resp := s.raw(head+"Content-Length: 10\r\n\r\nhello", true); resp == nil || resp.StatusCode != 400 || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("half a body answers %v", resp)
	}
	same()
}

// Malformed addresses and requests are refused, and never reach a handler as something else.
func TestAddresses(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	same := s.unchanged()
	for path, status := range map[string]int{
		"/":                                    404,
		"/v1":                                  404,
		"/v1/":                                 404,
		"/v1/topics/":                          404,
		"/v1/topics//messages":                 404,
		"/v1/topics/orders/messages/":          404,
		"/v1/topics/orders/../orders/messages": 404,
		"/v1/./topics":                         404,
		"//v1/topics":                          404,
		"/V1/topics":                           404,
		"/v1/topics/a%2Fmessages":              422,
		"/v1/topics/%2e%2e/messages":           422,
		"/v1/topics/a%00b":                     422,
		"/v1/topics/%ff":                       422,
		"/v1/topics/a%20b":                     422,
		"/v1/topics/a;b=c":                     422,
		"/v1/topics/*":                         422,
		"/v1/topics/" + strings.Repeat("a", 10_000): 422,
	} {
		s.call("GET", path, "").is(status)
	}
	for _, method := range []string{"PUT", "OPTIONS", "TRACE", "FOO", "HEAD"} {
		a := s.call(method, "/v1/topics/orders/claim", "").is(405)
		if got := a.header.Get("Allow"); got != "POST" {
			t.Errorf("%s: allowed are %q", method, got)
		}
	}
	for path, want := range map[string]string{
		"/v1/topics/orders/broadcasts": "GET, POST", "/v1/push/crm": "GET, PUT, DELETE", "/v1/topics/orders/schedules/daily": "GET, PUT, DELETE",
	} {
		if got := s.call("FOO", path, "").is(405).header.Get("Allow"); got != want {
			t.Errorf("%s: allowed are %q, want %q", path, got, want)
		}
	}
	s.call("HEAD", "/v1/topics/orders/broadcasts", "").is(405)
	if a := s.call("HEAD", "/v1/topics/orders", "").is(200); len(a.body) != 0 || a.header.Get("Content-Length") == "0" {
		t.Errorf("HEAD answers %q, %v", a.body, a.header)
	}
	s.call("HEAD", "/v1/topics/a%00b", "").is(422)
	same()
	for request, status := range map[string]int{
		"GET /v1/topics HTTP/1.0\r\n\r\n":                                                      200,
		"GET http://elsewhere/v1/topics HTTP/1.1\r\nHost: a\r\n\r\n":                           200,
		"GET * HTTP/1.1\r\nHost: a\r\n\r\n":                                                    404,
		"GET /v1/topics/%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                       400,
		"GET /v1/topics/" + strings.Repeat("a", 80_000) + " HTTP/1.1\r\nHost: a\r\n\r\n":       431,
		"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n":                                          404,
		"POST /v1/topics/a/messages HTTP/1.0\r\nContent-Length: 1\r\n\r\nx":                    201,
		"GET /v1/topics HTTP/1.1\r\nHost: a\r\nExpect: something\r\nConnection: close\r\n\r\n": 417,
	} {
		if resp := s.raw(request, false); resp == nil || resp.StatusCode != status {
			t.Errorf("%.80q answers %v, want %d", request, resp, status)
		}
	}
}

func TestHeadersOfMessages(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	const path = "/v1/topics/orders/messages"
	same := s.unchanged()
	many := make([]string, record.MaxHeaders+1)
	for i := range many {
		many[i] = fmt.Sprintf("Bellhop-Header-N%d: x", i)
	}
	for _, test := range []struct {
		headers []string
		name    string
	}{
		{[]string{"Bellhop-Unknown: 1"}, "Bellhop-Unknown"},
		{[]string{"Bellhop-Id: 1"}, "Bellhop-Id"},
		{[]string{"Bellhop-Header-X: 1", "bellhop-header-x: 2"}, "Bellhop-Header-X"},
		{[]string{"Bellhop-Header-X: \xff"}, "Bellhop-Header-X"},
		{[]string{"Bellhop-Header-X: a\tb"}, "Bellhop-Header-X"},
		{[]string{"Bellhop-Header-: a"}, "Bellhop-Header-"},
		{[]string{"Content-Type: a\xff"}, "Content-Type"},
		{[]string{"Content-Type: a", "Content-Type: b"}, "Content-Type"},
		{[]string{"Content-Type: " + strings.Repeat("a", 256)}, "Content-Type"},
		{many, "headers"},
		{[]string{"Bellhop-Header-X: " + strings.Repeat("1", record.MaxHeaderBytes)}, "headers"},
	} {
		p := s.call("POST", path, "x", test.headers...).is(422).kind("invalid").problem()
		if got := strings.Join(names(p), " "); got != test.name {
			t.Errorf("%.60q: the problem names %q: %s", test.headers, got, p.Detail)
		}
		for _, fault := range p.Errors {
			if fault.In != "header" {
				t.Errorf("%.60q: %s is in the %s", test.headers, fault.Name, fault.In)
			}
		}
	}
	for _, op := range s.spec.ops {
		if p, query, _ := (wrongCase{op: op}).address(); op.OperationID != "publish" && op.OperationID != "broadcast" {
			s.call(op.method, p+"?"+query, "", "Bellhop-Header-X: 1").is(422).says("Bellhop-Header-X")
		}
	}
	same()
	s.call("POST", path, "x", "bellhop-header-x_Y: ü €", "Bellhop-Header-Empty: ", "Content-Type: text/plain; charset=\"a b\"").is(201)
	got := s.claim("orders")
	want := map[string]string{"X_y": "ü €", "Empty": ""}
	if diff := cmp.Diff(want, got.Headers); diff != "" || got.ContentType != `text/plain; charset="a b"` {
		t.Errorf("%q, %s", got.ContentType, diff)
	}
	s.call("POST", path, "x", many[1:]...).is(201)
}

func TestBodyOfAckMany(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "1", Body: []byte("x")})
	d := s.claim("orders")
	same := s.unchanged()
	right := fmt.Sprintf(`{"id":"1","receipt":%d}`, d.Receipt)
	for _, body := range []string{
		"", " ", "x", "{}", "null", "1", `"a"`, "[]", "[", "]", right, "[" + right, "[" + right + ",]", "[" + right + "]x", "[" + right + "][]",
		"[null]", "[1]", "[[]]", "[{}]", `[{"id":"1"}]`, `[{"receipt":1}]`, `[{"id":"1","receipt":0}]`, `[{"id":"1","receipt":-1}]`,
		`[{"id":"1","receipt":1.5}]`, `[{"id":"1","receipt":"1"}]`, `[{"id":"1","receipt":9223372036854775808}]`, `[{"id":"1","receipt":1e99}]`,
		`[{"id":1,"receipt":1}]`, `[{"id":"","receipt":1}]`, `[{"id":"a b","receipt":1}]`, `[{"id":"1","receipt":1,"x":1}]`, "[" + right + `,{"id":"a b","receipt":1}]`,
		"[{\"id\":\"\xff\",\"receipt\":1}]", "[" + strings.Repeat(right+",", 10_000) + right + "]", strings.Repeat("[", 100_000), "\ufeff[" + right + "]",
	} {
		s.call("POST", "/v1/topics/orders/ack", body).is(422).kind("invalid")
	}
	s.call("POST", "/v1/topics/orders/ack", strings.Repeat(" ", 1<<20)+"[]").is(413)
	same()
	got := read[api.Acked](s.call("POST", "/v1/topics/orders/ack", "[ "+right+",\n"+right+`,{"id":"none","receipt":1}]`).is(200))
	if diff := cmp.Diff(api.Acked{Acked: 1, Lost: []string{"none"}}, got); diff != "" {
		t.Error(diff)
	}
}

// A result is a line of the answer to many messages.
type result struct {
	Topic, ID, State string
	Error            *api.Problem
}

func TestBulkLines(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{MaxBody: 1000})
	storetest.Publish(t, s.store, notify.Message{Topic: "orders", ID: "there", Body: []byte("x")})
	type line struct{ text, fault string } // no fault: the line is published
	all := []line{
		{`{"topic":"orders","id":"first","body":"1"}`, ""},
		{`x`, "invalid"},
		{`{`, "invalid"},
		{`[]`, "invalid"},
		{`null`, "invalid"},
		{`"a"`, "invalid"},
		{`{}`, "invalid"},
		{`{"topic":"orders","body":"x"} {}`, "invalid"},
		{`{"topic":"orders","body":"x","no":1}`, "invalid"},
		{`{"topic":"orders","id":"dead","body":"x","restore":{"died":"2020-01-01T00:00:00Z"}}`, "invalid"},
		{`{"topic":"orders","id":"restored","body":"x","due":"2199-01-01T00:00:00Z","restore":{}}`, "invalid"},
		{`{"topic":"orders"}`, "invalid"},
		{`{"topic":"or ders","body":"x"}`, "invalid"},
		{`{"topic":"orders.*","body":"x"}`, "invalid"},
		{`{"topic":1,"body":"x"}`, "invalid"},
		{`{"topic":"orders","id":"a b","body":"x"}`, "invalid"},
		{`{"topic":"orders","mode":"all","body":"x"}`, "invalid"},
		{`{"topic":"orders","mode":"broadcast","id":"b","lease":"1h","body":"x"}`, "invalid"},
		{`{"topic":"orders","mode":"broadcast","id":"b","attempts":1,"body":"x"}`, "invalid"},
		{`{"topic":"orders","mode":"broadcast","id":"b","body":"x"}`, ""},
		{`{"topic":"orders","delay":"soon","body":"x"}`, "invalid"},
		{`{"topic":"orders","delay":"-1s","body":"x"}`, "invalid"},
		{`{"topic":"orders","delay":"1s","due":"2030-01-01T00:00:00Z","body":"x"}`, "invalid"},
		{`{"topic":"orders","due":"1969-01-01T00:00:00Z","body":"x"}`, "invalid"},
		{`{"topic":"orders","due":"0001-01-01T00:00:00Z","body":"x"}`, "invalid"},
		{`{"topic":"orders","due":"soon","body":"x"}`, "invalid"},
		{`{"topic":"orders","due":1,"body":"x"}`, "invalid"},
		{`{"topic":"orders","ttl":"-1s","body":"x"}`, "invalid"},
		{`{"topic":"orders","ttl":"1ns","body":"x"}`, "invalid"},
		{`{"topic":"orders","attempts":-1,"body":"x"}`, "invalid"},
		{`{"topic":"orders","attempts":1000001,"body":"x"}`, "invalid"},
		{`{"topic":"orders","attempts":1.5,"body":"x"}`, "invalid"},
		{`{"topic":"orders","headers":{"a b":"x"},"body":"x"}`, "invalid"},
		{`{"topic":"orders","headers":[],"body":"x"}`, "invalid"},
		{`{"topic":"orders","headers":{"a":1},"body":"x"}`, "invalid"},
		{`{"topic":"orders","content_type":"a\u0001","body":"x"}`, "invalid"},
		{`{"topic":"orders","body":"x","body_base64":"eA=="}`, "invalid"},
		{`{"topic":"orders","body_base64":"%"}`, "invalid"},
		{`{"topic":"orders","id":"binary","body_base64":"/w=="}`, ""},
		{"{\"topic\":\"orders\",\"body\":\"\xff\"}", "invalid"},
		{`{"topic":"orders","body":"` + strings.Repeat("x", 1001) + `"}`, "too-large"},
		{`{"topic":"orders","id":"most","body":"` + strings.Repeat("x", 1000) + `"}`, ""},
		{`{"topic":"orders","id":"there","body":"x"}`, "exists"},
		{`{"topic":"orders","id":"first","body":"2"}`, "exists"},
		{`  {"topic":"orders","id":"last","delay":"1h","body":"x"}  `, ""},
	}
	var body strings.Builder
	for i, l := range all {
		body.WriteString(l.text + [...]string{"\n", "\r\n", "\n\n \t\n"}[i%3])
	}
	got := lines[result](s.call("POST", "/v1/messages", strings.TrimSpace(body.String())).is(200))
	if len(got) != len(all) {
		t.Fatalf("%d lines answer %d", len(got), len(all))
	}
	for i, l := range all {
		switch r := got[i]; {
		case l.fault == "" && (r.Error != nil || r.Topic != "orders" || !strings.Contains(l.text, `"`+r.ID+`"`) || r.State == ""):
			t.Errorf("%.100s answers %+v", l.text, r)
		case l.fault != "" && (r.Error == nil || r.Error.Type != "urn:bellhop:"+l.fault || r.ID != ""):
			t.Errorf("%.100s answers %+v, want %s", l.text, r, l.fault)
		}
	}
	for _, id := range []string{"first", "b", "binary", "most", "last"} {
		s.call("GET", "/v1/topics/orders/messages/"+id, "").is(200)
	}
	if got := read[api.Message](s.call("GET", "/v1/topics/orders/messages/first", "").is(200)); string(got.Bytes()) != "1" {
		t.Errorf("the second message of an id replaced the first: %+v", got)
	}
}

func TestBulkBodies(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	same := s.unchanged()
	line := `{"topic":"orders","body":"x"}` + "\n"
	s.call("POST", "/v1/messages", "").is(422).says("it is empty")
	s.call("POST", "/v1/messages", "\n\r\n  \n").is(422).says("it is empty")
	s.call("POST", "/v1/messages", strings.Repeat(line, 10_001)).is(413).kind("too-large")
	s.call("POST", "/v1/messages", strings.Repeat("x", 16<<20+1)).is(413).kind("too-large")
	s.post("/v1/messages", chunked{strings.NewReader(strings.Repeat("x", 16<<20+1))}).is(413)
	s.call("POST", "/v1/messages", line, "Content-Encoding: gzip").is(422)
	if got := lines[result](s.call("POST", "/v1/messages", strings.Repeat("x", 16<<20)).is(200)); len(got) != 1 || got[0].Error == nil {
		t.Errorf("a line of 16 MiB answers %d lines", len(got))
	}
	wrong := lines[result](s.call("POST", "/v1/messages", strings.Repeat(`{"a":1,"b":1,"c":1,"d":1,"e":1}`+"\n", 1000)).is(200))
	if first, last := len(wrong[0].Error.Errors), len(wrong[999].Error.Errors); first < 5 || last != 1 {
		t.Errorf("%d things are wrong with the first of many lines, and %d with the last", first, last)
	}
	if resp := s.raw("POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"+line, true); resp == nil || resp.StatusCode != 400 {
		t.Errorf("half a body answers %v", resp)
	}
	same()
	got := lines[result](s.call("POST", "/v1/messages", strings.Repeat(line, 10_000)).is(200))
	if len(got) != 10_000 || got[9_999].Error != nil {
		t.Errorf("%d lines", len(got))
	}
}

// A client that goes away in the middle of a body leaves nothing behind, even if its connection is not closed.
func TestClientGoesAwayInABody(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{})
	same := s.unchanged()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/topics/orders/messages", chunked{&cutting{cancel}})
	storetest.Must(t, err)
	if resp, err := s.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", resp, err)
	}
	same()
}

// cutting is a body during which the client goes away.
type cutting struct{ cancel func() }

func (c *cutting) Read(p []byte) (int, error) {
	c.cancel()
	return copy(p, "hello"), nil
}

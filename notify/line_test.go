package notify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// All faults of a line are reported at once, each with its field, in the sentences of
// HTTP and flags.
func TestFaultsOfALine(t *testing.T) {
	t.Parallel()
	_, err := notify.ParseLine([]byte(`{"topic":"a b","id":"x y","delay":"-1s","due":"soon","ttl":"1ns","attempts":1000001,"content_type":"\u0001",` +
		`"headers":{"a b":"c"},"dealy":"1s","mode":"all","died":1}`))
	got := make(map[string]string)
	for _, f := range fault.All(err) {
		got[f.Field] += f.Error() + "; "
	}
	for field, want := range map[string]string{
		"topic": "use tokens of letters", "id": "use letters, digits", "delay": "invalid delay -1s: it is negative; use zero or more",
		"due": `invalid due "soon": write a time such as`, "ttl": "invalid ttl 1ns: use 1ms or more",
		"attempts": `invalid attempts "1000001": write a whole number from 1 to 1000000`, "content_type": "use printable text",
		"headers": "header name", "dealy": `the field "dealy" is unknown; write one JSON object a line`, "mode": "use message or broadcast",
		"died": "line: died: Time.UnmarshalJSON: input is not a JSON string; write one", "body": "body: it is missing",
	} {
		if !strings.Contains(got[field], want) {
			t.Errorf("%s: %q, want %q in it", field, got[field], want)
		}
		delete(got, field)
	}
	if len(got) != 0 {
		t.Errorf("told is also %q", got)
	}
}

// A field of the wrong JSON type is refused with its name and the right type.
func TestKindsOfALine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"topic":"a","body":"","delay":1}`:           "delay is a JSON number, and should be a string",
		`{"topic":"a","body":"","due":{}}`:            "due is a JSON object, and should be a string",
		`{"topic":"a","body":"","ttl":[]}`:            "ttl is a JSON array, and should be a string",
		`{"topic":"a","body":"","id":true}`:           "id is a JSON bool, and should be a string",
		`{"topic":"a","body":"","attempts":"3"}`:      "attempts is a JSON string, and should be a whole number",
		`{"topic":"a","body":"","attempts":1.5}`:      `attempts "1.5": write a whole number from 1 to 1000000`,
		`{"topic":"a","body":1}`:                      "body is a JSON number, and should be a string",
		`{"topic":{},"body":""}`:                      "topic is a JSON object, and should be a string",
		`{"topic":"a","body":"","headers":{"a":1}}`:   "should be a string",
		`{"topic":"a","body_base64":"%"}`:             "illegal base64",
		`{"topic":"a","body":"","died":"yesterday"}`:  `"yesterday" is not a time`,
		`{"topic":"a","body":"","ATTEMPTS":-1}`:       `attempts "-1": write`,
		`{"topic":"a","body":"","delay":"x","due":1}`: "due is a JSON number",
	} {
		_, err := notify.ParseLine([]byte(line))
		if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an ErrInvalid with %q", line, err, want)
		}
		if f := fault.All(err); len(f) == 0 || f[0].Field == "line" {
			t.Errorf("%s: %v names no field", line, err)
		}
	}
}

// A field that is empty, zero or null counts as not given, and names are read without
// regard to case.
func TestNothingInALine(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"topic":"a","body":"x","id":"","delay":"","due":null,"ttl":"","attempts":0,"content_type":"","headers":{},"mode":"","restore":null}`,
		`{"topic":"a","body":"x","id":null,"delay":null,"ttl":"0s","attempts":null,"headers":null,"mode":null,"body_base64":null,"first_due":null}`,
		`{"TOPIC":"a","Body":"x","Died":null}`, `{"\u0074opic":"a","body":"\u0078"}`,
	} {
		got, err := notify.ParseLine([]byte(line))
		if len(got.Headers) == 0 {
			got.Headers = nil
		}
		if diff := cmp.Diff(notify.Message{Topic: "a", Body: []byte("x")}, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got), %v:\n%s", line, err, diff)
		}
	}
	want := notify.Message{Topic: "a", ID: "b", Delay: time.Hour, TTL: time.Minute, MaxAttempts: 3, ContentType: "c/d", Body: []byte("x")}
	got, err := notify.ParseLine([]byte(`{"Topic":"a","Id":"b","DELAY":"1h","tTL":"1m","Attempts":3,"Content_Type":"c/d","bODY":"x"}`))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got), %v:\n%s", err, diff)
	}
}

// A message does not keep the lines around its own in memory, nor changes with them.
func TestLineIsACopy(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"topic":"a","id":"b","body":"hello"}`)
	got, err := notify.ParseLine(raw)
	clear(raw)
	if err != nil || got.Topic != "a" || got.ID != "b" || string(got.Body) != "hello" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func BenchmarkParseLine(b *testing.B) {
	for name, line := range map[string]string{
		"short":   `{"topic":"order.timeout","body":"` + strings.Repeat("x", 100) + `"}`,
		"delay":   `{"topic":"order.timeout","id":"order-4711","delay":"30m","body":"` + strings.Repeat("x", 100) + `"}`,
		"due":     `{"topic":"order.timeout","id":"order-4711","due":"2030-01-02T15:04:05.678Z","body":"` + strings.Repeat("x", 100) + `"}`,
		"full":    `{"topic":"order.timeout","id":"order-4711","delay":"30m","ttl":"24h","attempts":5,"content_type":"text/plain","headers":{"Trace":"0123456789"},"body":"{\"order\":4711}"}`,
		"base64":  `{"topic":"order.timeout","body_base64":"` + strings.Repeat("QUJD", 30) + `"}`,
		"export":  `{"topic":"order.timeout","id":"order-4711","due":"2030-01-02T15:04:05.678Z","body":"x","restore":{"published":"2030-01-02T15:04:05.678Z","attempts_used":1}}`,
		"headers": `{"topic":"order.timeout","headers":{"A":"0123456789","B":"0123456789","C":"0123456789"},"body":"x"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				storetest.Must(b, storetest.ErrOf(notify.ParseExported([]byte(line))))
			}
		})
	}
}

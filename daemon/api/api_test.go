package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestDecode(t *testing.T) {
	c := api.Claim{Max: 1}
	if err := api.Decode([]byte(` {"lease":"30s"} `), &c); err != nil || c != (api.Claim{Max: 1, Lease: "30s"}) {
		t.Errorf("got %+v, %v", c, err)
	}
	for data, want := range map[string]string{
		"":                     "it is not a JSON object; write one JSON object whose fields are max, lease, min_age",
		"null":                 "it is not a JSON object",
		"[]":                   "it is not a JSON object",
		"{":                    "it is not JSON",
		`{"max":1,}`:           "it is not JSON",
		`{"max":1}x`:           "something follows the JSON object",
		`{"max":1}{}`:          "something follows the JSON object",
		`{"max":"1"}`:          "max is a JSON string, and should be a whole number",
		`{"max":1.5}`:          "max is a JSON number 1.5, and should be a whole number",
		`{"max":1e99}`:         "max is a JSON number 1e99, and should be a whole number",
		`{"lease":{}}`:         "lease is a JSON object, and should be a string",
		`{"wait":"1s"}`:        `the field "wait" is unknown`,
		"{\"lease\":\"\xff\"}": "it is not UTF-8",
		`{"max":1,"max":2}`:    `the key "max" is given twice`,
		`{"max":1,"MAX":2}`:    "differ only in case",
		`{"lease":"\ud83d"}`:   "half of a surrogate pair",
	} {
		err := api.Decode([]byte(data), &api.Claim{})
		if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an ErrInvalid with %q in it", data, err, want)
		}
	}
}

func TestWhen(t *testing.T) {
	due := time.Date(2030, 1, 2, 15, 4, 5, 678e6, time.UTC)
	for _, test := range []struct {
		in    api.Reschedule
		delay time.Duration
		due   time.Time
		want  string // of the error
	}{
		{in: api.Reschedule{}},
		{in: api.Reschedule{Delay: "90s"}, delay: 90 * time.Second},
		{in: api.Reschedule{Due: "2030-01-02T16:04:05.678+01:00"}, due: due},
		{in: api.Reschedule{Delay: "soon"}, want: "delay"},
		{in: api.Reschedule{Due: "soon"}, want: "due"},
		{in: api.Reschedule{Due: "0001-01-01T00:00:00Z"}, want: "before 1970"},
	} {
		delay, at, err := test.in.When()
		if test.want != "" {
			if !errors.Is(err, notify.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: got %v", test.in, err)
			}
			continue
		}
		if err != nil || delay != test.delay || !at.Equal(test.due) {
			t.Errorf("%+v: got %v, %v, %v", test.in, delay, at, err)
		}
	}
}

func TestProblemOf(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		kind   string
	}{
		{record.CheckTopic(""), 422, "invalid"},
		{fmt.Errorf("x: %w", notify.ErrTooLarge), 413, "too-large"},
		{fmt.Errorf("x: %w", notify.ErrExists), 409, "exists"},
		{fmt.Errorf("x: %w", notify.ErrNotFound), 404, "not-found"},
		{fmt.Errorf("x: %w", notify.ErrLeased), 409, "leased"},
		{fmt.Errorf("x: %w", notify.ErrDead), 409, "dead"},
		{fmt.Errorf("x: %w", notify.ErrLeaseLost), 409, "lease-lost"},
		{fmt.Errorf("x: %w", notify.ErrFull), 503, "full"},
		{fmt.Errorf("x: %w", notify.ErrUnfit), 503, "unavailable"},
		{fmt.Errorf("x: %w", notify.ErrUnreplicated), 503, "unreplicated"},
		{fmt.Errorf("x: %w", context.Canceled), 503, "unavailable"},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), 503, "unavailable"},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, 503, "unavailable"},
		{errors.Join(notify.ErrNotFound, errors.New("a\x00\xff")), 404, "not-found"},
		{errors.New("anything else"), 500, "internal"},
	} {
		p := api.ProblemOf(test.err)
		if p.Status != test.status || p.Type != "urn:bellhop:"+test.kind || p.Title == "" {
			t.Errorf("%v is reported as %+v", test.err, p)
		}
		if strings.ContainsAny(p.Detail, "\n\x00") || !utf8.ValidString(p.Detail) || p.Detail == "" {
			t.Errorf("the detail is %q", p.Detail)
		}
	}
}

// Errors of Redis itself, when it is away or full, are no fault of the client.
func TestProblemsOfRedis(t *testing.T) {
	full := storetest.Server(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	pub := storetest.Publisher(t, storetest.At(t, full.URL(), "test"))
	for _, title := range []string{"redis is full", "redis is away"} {
		_, err := pub.Publish(t.Context(), notify.Message{Topic: "a", Body: []byte("x")})
		if p := api.ProblemOf(err); p.Status != 503 || p.Title != title {
			t.Errorf("%v is reported as %+v, want %q", err, p, title)
		}
		full.Kill()
	}
}

func TestMessageOf(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	got, err := json.Marshal(api.MessageOf(notify.Info{
		Topic: "a", ID: "1", State: notify.Dead, Died: at, Reason: "expired", Attempts: 2,
		Record: notify.Record{Published: at, FirstDue: at.Add(time.Minute), TTL: time.Hour, MaxAttempts: 5, Headers: map[string]string{"A": "1"}, Body: []byte{0xff}},
		Fault:  errors.New("foreign"),
	}))
	want := `{"topic":"a","id":"1","state":"dead","first_due":"2030-01-02T02:05:05Z","died":"2030-01-02T02:04:05Z","reason":"expired","attempts_used":2,"published":"2030-01-02T02:04:05Z",` +
		`"attempts":5,"ttl_ms":3600000,"headers":{"A":"1"},"body_base64":"/w==","fault":"foreign"}`
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err = json.Marshal(api.PublicationOf(notify.Publication{Topic: "a", ID: "1", Due: at, State: notify.Ready, Outcome: notify.Moved, PreviousDue: at}))
	if want := `{"topic":"a","id":"1","due":"2030-01-02T02:04:05Z","state":"ready","outcome":"moved","previous_due":"2030-01-02T02:04:05Z"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

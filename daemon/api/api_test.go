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
	pub := storetest.Publisher(t, storetest.Unhurried(storetest.At(t, full.URL(), "test")))
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

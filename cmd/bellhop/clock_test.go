package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// newShellAhead returns a shell for a Redis whose clock is ahead of this host's.
func newShellAhead(t *testing.T, ahead time.Duration, vars ...string) *shell {
	t.Helper()
	dir := t.TempDir()
	under, err := machine.Clock(t.Context(), dir, ahead)
	storetest.Must(t, err)
	redis, err := redisserver.Start(t.Context(), redisserver.Options{Dir: dir, Under: under})
	storetest.Must(t, err)
	t.Cleanup(redis.Stop)
	return newShell(t, append(vars, "BELLHOP_REDIS_URL="+redis.URL())...)
}

// foundIDs returns the ids of messages that the answer to a search names.
func foundIDs(t *testing.T, answer []byte) string {
	t.Helper()
	var page calls.Found
	if err := json.Unmarshal(answer, &page); err != nil || page.Missing.Missing != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	ids := make([]string, len(page.Messages))
	for i, m := range page.Messages {
		ids[i] = m.ID
	}
	return strings.Join(ids, " ")
}

// Times from now count by Redis's clock, however far that of this host is from it: on the command
// line, over HTTP and over NATS.
func TestFindByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nats := natsServer(t)
			address := fmt.Sprintf("127.0.0.1:%d", storetest.Port(t))
			s := newShellAhead(t, ahead, "BELLHOP_NATS_URL="+nats, "BELLHOP_LISTEN="+address)
			p := s.start("serve")
			for id, delay := range map[string]string{"soon": "20m", "later": "1h", "last": "3h"} {
				s.call("publish", "t", "--id", id, "--delay", delay, "--body", "x")
			}
			const question = "due<+30m"
			if got := foundIDs(t, []byte(s.call("find", question, "--json"))); got != "soon" {
				t.Errorf("the command line finds %q", got)
			}
			contains(t, s.call("find", question), "soon  scheduled  in ")
			p.await(1, "connected to nats")
			storetest.Eventually(t, "HTTP finds what is due soon", func() bool {
				answer, err := http.Get("http://" + address + "/v1/find?q=" + url.QueryEscape(question))
				if err != nil {
					return false
				}
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("%s %s %v", answer.Status, body, err)
				}
				if got := foundIDs(t, body); got != "soon" {
					t.Errorf("HTTP finds %q", got)
				}
				return true
			})
			nc, err := natsgo.Connect(nats)
			storetest.Must(t, err)
			defer nc.Close()
			var answer *natsgo.Msg
			storetest.Eventually(t, "NATS answers", func() bool {
				answer, err = nc.Request("bellhop.find-all", []byte(`{"q":"`+question+`"}`), storetest.Deadline)
				return err == nil
			})
			if got := foundIDs(t, answer.Data); got != "soon" {
				t.Errorf("NATS finds %q", got)
			}
			contains(t, s.call("find", question, "--cancel", "--all"), "cancelled 1\n")
			contains(t, s.call("inspect", "t"), "later  scheduled", "last   scheduled")
			p.stop()
		})
	}
}

// What is printed of lateness, ages and distances is by Redis's clock.
func TestTimesByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShellAhead(t, ahead)
			p := s.start("serve")
			p.await(1, "msg=elected")
			p.await(1, "redis's clock is off this host's")
			contains(t, s.feed("", "doctor", "--quick").out, "Redis's clock is 1h "+map[bool]string{true: "ahead of", false: "behind"}[ahead > 0]+" this host's")
			contains(t, s.call("publish", "t", "--id", "1", "--delay", "5h", "--body", "x"), "(in 5h0m)")
			contains(t, s.call("reschedule", "t", "1", "--delay", "6h"), "(in 6h0m)")
			contains(t, s.call("inspect", "t", "1"), "(in 6h0m)")
			contains(t, s.call("inspect", "t"), "(in 6h0m)")
			s.kill("dead", 1)
			s.call("broadcast", "b", "--body", "x")
			s.publish("work", 2)
			for _, call := range []string{"work work --count 1 --json", "listen b --from beginning --count 1 --json"} {
				var got shown
				s.json(&got, strings.Fields(call)...)
				if late := time.Duration(got.LateMs) * time.Millisecond; late < 0 || late > 30*time.Minute {
					t.Errorf("bellhop %s is %v late", call, late)
				}
			}
			hour := regexp.MustCompile(`\b(1h0m|59m\d+s|1h1m)\b|\s-\d`) // 30 minutes are a long standstill
			for _, call := range []string{"work work --count 1", "listen b --from beginning --count 1", "carrier", "workers", "dead list dead", "find state:dead"} {
				out := s.call(strings.Fields(call)...)
				for line := range strings.Lines(out) {
					if times := regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(line, ""); hour.MatchString(times) {
						t.Errorf("bellhop %s prints an hour too much or too little:\n%s", call, line)
					}
				}
			}
			p.stop()
		})
	}
}

// A distance of more than 292 years, where a time.Duration ends, is printed as it is.
func TestDistancesOfCenturies(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"2030-01-01T00:00:00Z":     "in 0s",
		"2030-12-31T23:00:00Z":     "in 364d23h",
		"2031-01-01T00:00:00Z":     "in 1y0d",
		"9000-01-01T00:00:00Z":     "in 6970y0d",
		"9999-12-31T23:59:59.999Z": "in 7969y364d",
		"2029-12-31T23:00:00Z":     "1h0m ago",
		"1970-01-01T00:00:00Z":     "60y0d ago",
		"1600-02-29T12:00:00Z":     "429y305d ago",
	} {
		at, err := time.Parse(time.RFC3339, to)
		storetest.Must(t, err)
		if got := text.Relative(at, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)); got != want {
			t.Errorf("%s is %s, want %s", to, got, want)
		}
	}
	s := newShell(t)
	if out := s.call("publish", "t", "--due", "9000-01-01T00:00:00Z", "--body", "x"); !regexp.MustCompile(`\(in 69\d\dy\d+d\)`).MatchString(out) {
		t.Errorf("got %s", out)
	}
}

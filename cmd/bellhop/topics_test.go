package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/rivo/uniseg"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// overdue publishes a message that has been ready for some time.
func (s *shell) overdue(topic string, ago time.Duration) {
	s.t.Helper()
	s.call("publish", topic, "--id", "old", "--body", "x")
	store := storetest.At(s.t, s.setting("BELLHOP_REDIS_URL"), s.setting("BELLHOP_PREFIX"))
	since := float64(time.Now().Add(-ago).UnixMilli())
	for key, member := range map[string]string{store.KeysOf(topic).Ready(topic): topic + ":old", store.KeysOf(topic).ReadyTopics(): topic} {
		storetest.Must(s.t, store.Client().ZAdd(s.t.Context(), key, redis.Z{Score: since, Member: member}).Err())
	}
}

// names returns the names of the topics that a call shows, in that order.
func (s *shell) names(args ...string) (names []string) {
	s.t.Helper()
	var all calls.Topics
	s.json(&all, append([]string{"topics", "--json"}, args...)...)
	for _, one := range all.Topics {
		names = append(names, one.Topic)
	}
	return names
}

func TestTopicsAreChosen(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.overdue("a.late", 5*time.Minute)
	s.publish("a.many", 3)
	s.kill("b.dead", 2)
	s.publish("b.idle", 1)
	s.call("pause", "b.idle")
	s.overdue("z.later", time.Hour)
	for args, want := range map[string]string{
		"":                           "a.late a.many b.dead b.idle z.later",
		"--limit 2":                  "a.late a.many",
		"--sort overdue":             "z.later a.late a.many b.dead b.idle",
		"--sort overdue --limit 1":   "z.later",
		"--sort dead --limit 1":      "b.dead",
		"--sort ready --limit 2":     "a.many a.late",
		"--sort rate --limit 1":      "a.late",
		"--bad":                      "z.later a.late b.dead b.idle",
		"--bad --sort name":          "a.late b.dead b.idle z.later",
		"a.* --sort ready":           "a.many a.late",
		"b.> --bad":                  "b.dead b.idle",
		"*.late --sort overdue":      "a.late",
		"a.many":                     "a.many",
		"none.>":                     "",
		"a.* --bad --sort overdue":   "a.late",
		"> --sort overdue --limit 2": "z.later a.late",
	} {
		if diff := cmp.Diff(strings.Fields(want), append([]string{}, s.names(strings.Fields(args)...)...)); diff != "" {
			t.Errorf("topics %s (-want +got):\n%s", args, diff)
		}
	}
	contains(t, s.call("topics", "--limit", "1"), "a.late  0      1 ", "\n\n5 topics, 1 shown: 6 scheduled or ready, 0 leased, 2 dead, 0 broadcasts to come\n")
	contains(t, s.call("topics", "--sort", "overdue", "--limit", "1"), "\n\n5 topics, 1 shown: 6 scheduled or ready, 0 leased, 2 dead, 0 broadcasts to come\n")
	contains(t, s.call("topics", "a.*"), "\n\n2 topics: 4 scheduled or ready, 0 leased, 0 dead, 0 broadcasts to come\n")
	contains(t, s.call("topics", "--sort", "rate"), "PUB/S  ACK/S  SENT/S")
	contains(t, s.call("topics", "a.many", "--bad"), "no topic is overdue, paused, or has dead letters\n\n1 topic, 0 shown: 3 ")
	contains(t, s.call("topics", "none"), "no topic\n")
	contains(t, s.fails(exitUsage, "topics", "--sort", "size"), `invalid order "size": use name, overdue, dead, ready or rate`)
	contains(t, s.fails(exitUsage, "topics", "--limit", "-1"), "invalid limit -1: use 1 or more")
	contains(t, s.fails(exitUsage, "topics", "a..b"), `invalid topic "a..b"`)
}

// The worst of many topics are found by indexes; the others are not counted.
func TestWorstOfManyTopics(t *testing.T) {
	t.Parallel()
	own := storetest.Server(t)
	s := newShell(t, "BELLHOP_REDIS_URL="+own.URL())
	store := storetest.At(t, own.URL(), s.setting("BELLHOP_PREFIX"))
	const many = 5000
	for from := 0; from < many; from += 500 {
		var messages []notify.Message
		for i := range 500 {
			messages = append(messages, notify.Message{Topic: fmt.Sprintf("t%04d", from+i), Body: []byte("x"), Delay: time.Hour})
		}
		storetest.Publish(t, store, messages...)
	}
	s.overdue("zz.worst", time.Hour)
	storetest.Must(t, store.Client().ConfigResetStat(t.Context()).Err())
	out := s.call("topics", "--bad", "--limit", "5")
	contains(t, out, "zz.worst  0      1 ", "\n5001 topics, 1 shown: 5001 scheduled or ready,")
	stats, err := store.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	_, calls, _ := strings.Cut(stats, "cmdstat_zcard:calls=")
	var n int
	if _, err := fmt.Sscanf(calls, "%d", &n); err != nil || n > 4*(6*surveyed) { // four for each topic that is counted
		t.Errorf("%d calls of ZCARD, %v", n, err)
	}
	if names := s.names("--sort", "overdue", "--limit", "1"); len(names) != 1 || names[0] != "zz.worst" {
		t.Errorf("got %v", names)
	}
	if n := len(s.names()); n != many+1 {
		t.Errorf("all are %d", n)
	}
}

// At 80 columns no line is wider; columns that are left out are named, and shortened names have an ….
func TestTopicsOnTerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	long := strings.Repeat("a", 100) + "." + strings.Repeat("b", 27)
	s.overdue(long, time.Hour)
	out := s.onTerminal("topics")
	for line := range strings.Lines(out) {
		if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	contains(t, out, "TOPIC             SCHED ", "aaaaaaaa…bbbbbbb  0 ")
	for name, test := range map[string]struct {
		width int
		row   topicRow
	}{
		"watched":       {80, topicRow{notify.Counts{Topic: "orders", Ready: 1}, &rates{1, 2, 3}}},
		"large numbers": {80, topicRow{notify.Counts{Topic: long, Scheduled: 1e9, Ready: 1e9, Leased: 1e9, Dead: 1e9, Waiting: 1e9, Log: 1e9, Broadcasts: 1e9}, &rates{1e6, 1e6, 1e6}}},
		"keys":          {80, topicRow{notify.Counts{Topic: "ledger", Ready: 1, Blocked: 1204, Leased: 200, OldestLease: time.Hour}, &rates{1, 2, 3}}},
		"narrow":        {40, topicRow{notify.Counts{Topic: long, Ready: 1}, &rates{1, 2, 3}}},
	} {
		lines, left := topicTable([]topicRow{test.row}, test.width)
		for _, line := range lines {
			if n := uniseg.StringWidth(line); n > test.width {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		shown := len(strings.Fields(lines[0]))
		all := len(topicColumns)
		if test.row.Blocked == 0 {
			all-- // which no table shows then
		}
		if test.row.OldestLease == 0 {
			all--
		}
		if left == "" || shown+strings.Count(left, ",")+1 != all {
			t.Errorf("%s: %d columns are shown, and it says %q", name, shown, left)
		}
		if len(strings.Fields(lines[1])) != shown {
			t.Errorf("%s: got %s", name, strings.Join(lines, "\n"))
		}
	}
	if lines, left := topicTable([]topicRow{{notify.Counts{Topic: long}, &rates{}}}, 0); left != "" || !strings.Contains(lines[1], long) || !strings.Contains(lines[0], "SENT/S") {
		t.Errorf("on a pipe it is %q, %q", lines, left)
	}
}

// A topic that nothing was published to is shown while workers wait for it, and a worker says what takes a pattern.
func TestWaitedForTopic(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	contains(t, s.call("topics", "t"), "no topic")
	s.start("work", "t")
	storetest.Eventually(t, "its worker is shown", func() bool {
		return s.counts("t").Waiting == 1
	})
	contains(t, s.fails(exitUsage, "work", "orders.*"), "a worker handles one topic", "bellhop topics 'orders.*'", "bellhop push put")
}

package doctor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) {
	reach.AnswerWait = 10 * time.Second // longer than a machine stands still; a Redis that hangs is waited for
	storetest.Main(m)
}

// examine starts a redis-server, examines it at the address that url makes, and returns the findings by check.
func examine(t *testing.T, url func(*redisserver.Server) string, args ...string) (doctor.Verdict, map[string]doctor.Finding) {
	t.Helper()
	server := storetest.Server(t, args...)
	findings := make(map[string]doctor.Finding)
	worst, err := doctor.Run(t.Context(), notify.Config{URL: url(server)}, doctor.Options{}, func(f doctor.Finding) {
		findings[f.Check] = f
		if f.Verdict != doctor.OK && f.Remedy == "" {
			t.Errorf("%s is %v, and no remedy is named", f.Check, f.Verdict)
		}
	})
	storetest.Must(t, err)
	return worst, findings
}

// ownConfig returns the configuration of a store of the test's own, on the server that all share.
func ownConfig() notify.Config {
	return notify.Config{URL: storetest.URL(), Prefix: "test-" + notify.NewID(), Shards: storetest.Shards()}
}

func plain(s *redisserver.Server) string { return s.URL() }

// as returns the address of a server for a user.
func as(user, password string) func(*redisserver.Server) string {
	return func(s *redisserver.Server) string { return "redis://" + user + ":" + password + "@" + s.Addr() }
}

// bell returns the arguments for a server with a user of some rights.
func bell(rights string) []string {
	return append([]string{"--appendonly", "yes", "--user", "bell", "on", ">pw"}, strings.Fields(rights)...)
}

// timed are the checks that warn of the time that they took, as they do on a busy machine: they find no failure.
var timed = []string{"pub/sub round trip", "clock"}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		url   func(*redisserver.Server) string
		args  []string
		worst doctor.Verdict
		want  map[string]doctor.Verdict
	}{
		{"kept", plain, []string{"--appendonly", "yes"}, doctor.Warn, map[string]doctor.Verdict{
			"reachable": doctor.OK, "version": doctor.OK, "persistence": doctor.OK, "eviction": doctor.OK, "memory": doctor.Warn,
			"rights": doctor.OK, "carrier": doctor.Warn,
		}},
		{"not kept", plain, nil, doctor.Fail, map[string]doctor.Verdict{"persistence": doctor.Fail, "rights": doctor.OK}},
		{"snapshots", plain, []string{"--save", "60 1"}, doctor.Warn, map[string]doctor.Verdict{"persistence": doctor.Warn}},
		{"never synced", plain, []string{"--appendonly", "yes", "--appendfsync", "no"}, doctor.Warn, map[string]doctor.Verdict{"persistence": doctor.Warn}},
		{
			"evicting", plain,
			[]string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			doctor.Fail,
			map[string]doctor.Verdict{"eviction": doctor.Fail, "rights": doctor.Warn},
		},
		{
			"evicting without a limit", plain,
			[]string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"},
			doctor.Warn,
			map[string]doctor.Verdict{"eviction": doctor.Warn, "rights": doctor.OK},
		},
		{
			"with room", plain,
			[]string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction"},
			doctor.Warn,
			map[string]doctor.Verdict{"memory": doctor.OK, "rights": doctor.OK},
		},
		{"full", plain, []string{"--appendonly", "yes", "--maxmemory", "1", "--maxmemory-policy", "noeviction"}, doctor.Fail, map[string]doctor.Verdict{"memory": doctor.Fail}},
		{"wrong password", as("default", "wrong"), []string{"--requirepass", "right"}, doctor.Fail, map[string]doctor.Verdict{"reachable": doctor.Fail}},
		{
			"least rights", as("bell", "pw"), bell(reach.Rights("bellhop", 1)), doctor.Warn,
			map[string]doctor.Verdict{"contents": doctor.Warn, "persistence": doctor.OK, "rights": doctor.OK, "carrier": doctor.Warn},
		},
		{
			"too few rights", as("bell", "pw"), bell(strings.ReplaceAll(reach.Rights("bellhop", 1), "+hincrby", "")), doctor.Fail,
			map[string]doctor.Verdict{"rights": doctor.Fail},
		},
		{
			"rights on other keys", as("bell", "pw"), bell(reach.Rights("other", 1)), doctor.Fail,
			map[string]doctor.Verdict{"rights": doctor.Fail, "carrier": doctor.Fail},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			worst, findings := examine(t, test.url, test.args...)
			if worst != test.worst {
				t.Errorf("the worst is %v, want %v", worst, test.worst)
			}
			for _, check := range timed {
				if got, done := findings[check]; done && got.Verdict == doctor.Fail {
					t.Errorf("%s is %v (%s)", check, got.Verdict, got.Found)
				}
			}
			for check, want := range test.want {
				if got := findings[check]; got.Verdict != want {
					t.Errorf("%s is %v (%s), want %v", check, got.Verdict, got.Found, want)
				}
			}
			if t.Failed() {
				t.Logf("findings: %+v", findings)
			}
		})
	}
}

// An elected carrier without a beat is a failure once its lease should have expired, and a warning while its lease is too
// long to wait for.
func TestCarrierThatIsNotHeard(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		token string
		left  time.Duration // negative: until it is listened for
		want  doctor.Verdict
	}{
		"for twice its lease":         {"1 1 500 gone", time.Hour, doctor.Fail},
		"its lease is over meanwhile": {"1 1 5000 gone", -1, doctor.Warn},
		"for a part of a long lease":  {"1 1 600000 gone", 10 * time.Minute, doctor.Warn},
		"the clock was set back":      {"1 1 600000 gone", time.Hour, doctor.Fail},
		"another program's, for ever": {"gone", 0, doctor.Fail},
		"it is heard":                 {"", 0, doctor.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := ownConfig()
			db := storetest.At(t, c.URL, c.Prefix)
			if test.token == "" {
				carrying, err := carrier.New(db, carrier.Options{Lease: carrier.MaxLease})
				storetest.Must(t, err)
				storetest.Run(t, carrying.Run)
				storetest.Eventually(t, "it carries", func() bool { return carrying.States()[0].Carrying })
			} else {
				storetest.Found(t, db)
				for _, keys := range db.KeysOfAll() {
					storetest.Must(t, db.Client().Set(t.Context(), keys.Carrier(), test.token, max(test.left, 0)).Err())
				}
			}
			ran := make(chan error, 1)
			go func() {
				_, err := doctor.Run(t.Context(), c, doctor.Options{}, func(f doctor.Finding) {
					if f.Check == "carrier" && f.Verdict != test.want {
						t.Errorf("%v, want %v: %s", f.Verdict, test.want, f.Found)
					}
				})
				ran <- err
			}()
			if test.left < 0 {
				endWhenHeard(t, db)
			}
			storetest.Must(t, storetest.Receive(t, "the doctor's end", ran))
		})
	}
}

// endWhenHeard ends the lease of each carrier once somebody listens for its beat.
func endWhenHeard(t *testing.T, db *notify.Store) {
	t.Helper()
	all, err := db.Shards(t.Context())
	storetest.Must(t, err)
	for _, shard := range all {
		storetest.Eventually(t, "the beat is listened for", func() bool {
			heard, err := db.Listening(t.Context(), shard.BeatChannel())
			return err == nil && heard > 0
		})
		storetest.Must(t, db.Client().Del(t.Context(), shard.Keys().Carrier()).Err())
	}
}

func TestLeavesNothingBehind(t *testing.T) {
	server := storetest.Server(t) // so that keys of any name are seen
	storetest.Must(t, storetest.ErrOf(doctor.Run(t.Context(), notify.Config{URL: server.URL(), Shards: storetest.Shards()}, doctor.Options{}, func(doctor.Finding) {})))
	keys, err := storetest.At(t, server.URL(), "").Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("keys are left: %v, %v", keys, err)
	}
}

func TestNobodyThere(t *testing.T) {
	var found doctor.Finding
	worst, err := doctor.Run(t.Context(), notify.Config{URL: "redis://:geheim@127.0.0.1:1"}, doctor.Options{}, func(f doctor.Finding) { found = f })
	if err != nil || worst != doctor.Fail {
		t.Fatalf("got %v, %v", worst, err)
	}
	if !strings.Contains(found.Found, "127.0.0.1:1") || strings.Contains(found.Found, "geheim") {
		t.Errorf("found %q, want the address without the password", found.Found)
	}
}

// Run reports what is out of place with what would be done; only Repair changes it, and reports what it did.
func TestContents(t *testing.T) {
	t.Parallel()
	c := notify.Config{URL: storetest.Server(t, "--appendonly", "yes").URL()}
	db := storetest.At(t, c.URL, "")
	storetest.Publish(t, db, notify.Message{Topic: "orders", ID: "a", Body: []byte("x"), Delay: time.Hour})
	client, keys := db.Client(), db.KeysOf("orders")
	shard := "" // as findings name keys of several
	if storetest.Shards() > 1 {
		shard = "{" + keys.Tag() + "}:"
	}
	storetest.Must(t, client.Del(t.Context(), keys.Scheduled("orders"), keys.ScheduledTopics()).Err())
	storetest.Must(t, client.Set(t.Context(), keys.Base()+"mine", "x", 0).Err())
	examine := func(run func(context.Context, notify.Config, doctor.Options, func(doctor.Finding)) (doctor.Verdict, error)) (worst doctor.Verdict, found []doctor.Finding) {
		t.Helper()
		worst, err := run(t.Context(), c, doctor.Options{}, func(f doctor.Finding) {
			if f.Check == doctor.Contents {
				found = append(found, f)
			}
		})
		storetest.Must(t, err)
		return worst, found
	}
	foreign := doctor.Finding{
		Check: doctor.Contents, Verdict: doctor.Warn, Found: shard + "mine: a key of another program",
		Remedy: "inspect it; if nobody needs it, remove it: DEL " + keys.Base() + "mine",
	}
	sums := func(v doctor.Verdict, found, remedy string) doctor.Finding {
		return doctor.Finding{Check: doctor.Contents, Verdict: v, Found: found, Remedy: remedy}
	}
	for range 2 {
		worst, found := examine(doctor.Run)
		want := []doctor.Finding{
			foreign,
			{
				Check: doctor.Contents, Verdict: doctor.Fail, Found: "orders:a in " + shard + "messages: a record in no place, so its message would never be delivered",
				Remedy: "would be scheduled for when it was due first", Repairable: true,
			},
			sums(doctor.Fail, "1 message, 0 topics: faults found: 1, repairable: 1", "run bellhop doctor --repair"),
		}
		if diff := cmp.Diff(want, found); diff != "" || worst != doctor.Fail {
			t.Errorf("%v, got (-want +got):\n%s", worst, diff)
		}
	}
	worst, found := examine(doctor.Repair)
	want := []doctor.Finding{
		foreign,
		sums(doctor.OK, "orders:a in "+shard+"messages: a record in no place, so its message would never be delivered: scheduled for when it was due first", ""),
		sums(doctor.OK, "1 message, 0 topics: faults found and repaired: 1", ""),
	}
	if diff := cmp.Diff(want, found); diff != "" || worst != doctor.Warn {
		t.Errorf("%v, got (-want +got):\n%s", worst, diff)
	}
	worst, found = examine(doctor.Run) // there is no carrier for what is scheduled again
	if diff := cmp.Diff([]doctor.Finding{foreign, sums(doctor.OK, "1 message, 1 topic: nothing is out of place", "")}, found); diff != "" || worst != doctor.Fail {
		t.Errorf("%v, got (-want +got):\n%s", worst, diff)
	}
}

// For a user with the rights of Bellhop and no more, the finding names the rights that the check of the contents needs.
func TestContentsWithoutRights(t *testing.T) {
	url := as("bell", "pw")(storetest.Server(t, bell(reach.Rights("bellhop", 1))...))
	worst, err := doctor.Repair(t.Context(), notify.Config{URL: url}, doctor.Options{}, func(f doctor.Finding) {
		if f.Check != doctor.Contents || f.Verdict != doctor.Fail || !strings.Contains(f.Remedy, reach.RepairRights("bellhop", 1)) {
			t.Errorf("got %+v", f)
		}
	})
	if err != nil || worst != doctor.Fail {
		t.Errorf("got %v, %v", worst, err)
	}
}

// A missing right is named together with the command that grants it.
func TestMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args          []string
		url           func(*redisserver.Server) string
		found, remedy string
	}{
		{bell(strings.ReplaceAll(reach.Rights("bellhop", 1), "+hincrby", "")), as("bell", "pw"), "its user may not call HINCRBY", "run ACL SETUSER NAME " + reach.Rights("bellhop", 1)},
		{bell(strings.ReplaceAll(reach.Rights("bellhop", 1), "+psubscribe", "")), as("bell", "pw"), "NOPERM", "run ACL SETUSER NAME " + reach.Rights("bellhop", 1)},
		{bell(strings.ReplaceAll(reach.Rights("bellhop", 1), "~bellhop:*", "~bellhop:{0}:*")), as("bell", "pw"), "NOPERM", "run ACL SETUSER NAME " + reach.Rights("bellhop", 1)},
		{[]string{"--rename-command", "zadd", ""}, plain, "it does not know ZADD", "take rename-command out of its configuration for that"},
	} {
		_, findings := examine(t, test.url, test.args...)
		if f := findings["rights"]; f.Verdict != doctor.Fail || !strings.Contains(f.Found, test.found) || strings.Contains(f.Found, "SETUSER") || f.Remedy != test.remedy {
			t.Errorf("got %+v", f)
		}
	}
}

// Another version's format is reported with the way out, and its contents are not examined.
func TestAnotherFormat(t *testing.T) {
	c := ownConfig()
	db := storetest.At(t, c.URL, c.Prefix)
	for format, remedy := range map[int]string{
		2:                         "export it with the version that wrote it, then publish the export with this one under another prefix",
		reach.Newest().Number + 1: "bellhop upgrade was run on it: replace this program by a newer version, or use another prefix",
	} {
		storetest.Must(t, db.Client().Set(t.Context(), db.Keys().Format(), fmt.Sprint(format, " ID"), 0).Err())
		findings := make(map[string]doctor.Finding)
		worst, err := doctor.Run(t.Context(), c, doctor.Options{}, func(f doctor.Finding) { findings[f.Check] = f })
		if err != nil || worst != doctor.Fail {
			t.Errorf("the worst is %v, %v", worst, err)
		}
		if f := findings[doctor.Format]; f.Verdict != doctor.Fail || !strings.HasSuffix(f.Found, fmt.Sprintf("has format %d, and this version of Bellhop works with %s", format, reach.Formats())) || f.Remedy != remedy {
			t.Errorf("got %+v", f)
		}
		if f, there := findings[doctor.Contents]; there {
			t.Errorf("its contents were examined: %+v", f)
		}
	}
}

package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// examine starts a redis-server and returns the findings by their checks. url makes the address of its own.
func examine(t *testing.T, url func(*redisserver.Server) string, args ...string) (doctor.Verdict, map[string]doctor.Finding) {
	t.Helper()
	server := storetest.Server(t, args...)
	findings := make(map[string]doctor.Finding)
	worst, err := doctor.Run(t.Context(), notify.Config{URL: url(server)}, func(f doctor.Finding) {
		findings[f.Check] = f
		if f.Verdict != doctor.OK && f.Remedy == "" {
			t.Errorf("%s is %v, and no remedy is named", f.Check, f.Verdict)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return worst, findings
}

func plain(s *redisserver.Server) string { return s.URL() }

// as returns the address for a user.
func as(user, password string) func(*redisserver.Server) string {
	return func(s *redisserver.Server) string { return "redis://" + user + ":" + password + "@" + s.Addr() }
}

// bell returns the arguments for a server with a user of some rights.
func bell(rights string) []string {
	return append([]string{"--appendonly", "yes", "--user", "bell", "on", ">pw"}, strings.Fields(rights)...)
}

func TestVerdicts(t *testing.T) {
	for _, test := range []struct {
		name  string
		url   func(*redisserver.Server) string
		args  []string
		worst doctor.Verdict
		want  map[string]doctor.Verdict
	}{
		{"kept", plain, []string{"--appendonly", "yes"}, doctor.Warn, map[string]doctor.Verdict{
			"reachable": doctor.OK, "version": doctor.OK, "persistence": doctor.OK, "eviction": doctor.OK, "memory": doctor.Warn,
			"rights": doctor.OK, "pub/sub round trip": doctor.OK, "clock": doctor.OK, "carrier": doctor.Warn,
		}},
		{"not kept", plain, nil, doctor.Fail, map[string]doctor.Verdict{"persistence": doctor.Fail, "rights": doctor.OK}},
		{"snapshots", plain, []string{"--save", "60 1"}, doctor.Warn, map[string]doctor.Verdict{"persistence": doctor.Warn}},
		{"never synced", plain, []string{"--appendonly", "yes", "--appendfsync", "no"}, doctor.Warn, map[string]doctor.Verdict{"persistence": doctor.Warn}},
		{
			"evicting", plain,
			[]string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			doctor.Fail,
			map[string]doctor.Verdict{"eviction": doctor.Fail, "rights": doctor.Warn, "clock": doctor.OK},
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
			"least rights", as("bell", "pw"), bell(notify.Rights("bellhop")), doctor.Warn,
			map[string]doctor.Verdict{"contents": doctor.Warn, "persistence": doctor.OK, "rights": doctor.OK, "pub/sub round trip": doctor.OK, "clock": doctor.OK, "carrier": doctor.Warn},
		},
		{
			"too few rights", as("bell", "pw"), bell(strings.ReplaceAll(notify.Rights("bellhop"), "+hincrby", "")), doctor.Fail,
			map[string]doctor.Verdict{"rights": doctor.Fail},
		},
		{
			"rights on other keys", as("bell", "pw"), bell(notify.Rights("other")), doctor.Fail,
			map[string]doctor.Verdict{"rights": doctor.Fail, "carrier": doctor.Fail},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			worst, findings := examine(t, test.url, test.args...)
			if worst != test.worst {
				t.Errorf("the worst is %v, want %v", worst, test.worst)
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

func TestLeavesNothingBehind(t *testing.T) {
	url := storetest.Server(t).URL()
	if _, err := doctor.Run(t.Context(), notify.Config{URL: url}, func(doctor.Finding) {}); err != nil {
		t.Fatal(err)
	}
	keys, err := storetest.At(t, url, "").Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("keys are left: %v, %v", keys, err)
	}
}

func TestNobodyThere(t *testing.T) {
	var found doctor.Finding
	worst, err := doctor.Run(t.Context(), notify.Config{URL: "redis://:geheim@127.0.0.1:1"}, func(f doctor.Finding) { found = f })
	if err != nil || worst != doctor.Fail {
		t.Fatalf("got %v, %v", worst, err)
	}
	if !strings.Contains(found.Found, "127.0.0.1:1") || strings.Contains(found.Found, "geheim") {
		t.Errorf("found %q, want the address without the password", found.Found)
	}
}

// What is out of place is told with what would be done, and changed only by Repair, which tells what it did.
func TestContents(t *testing.T) {
	c := notify.Config{URL: storetest.Server(t, "--appendonly", "yes").URL()}
	store := storetest.At(t, c.URL, "")
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "a", Body: []byte("x"), Delay: time.Hour})
	client, keys := store.Client(), store.Keys()
	if err := client.Del(t.Context(), keys.Schedule("orders"), keys.Schedules()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), keys.Base()+"mine", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	examine := func(run func(context.Context, notify.Config, func(doctor.Finding)) (doctor.Verdict, error)) (worst doctor.Verdict, told []doctor.Finding) {
		t.Helper()
		worst, err := run(t.Context(), c, func(f doctor.Finding) {
			if f.Check == doctor.Contents {
				told = append(told, f)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return worst, told
	}
	foreign := doctor.Finding{
		Check: doctor.Contents, Verdict: doctor.Warn, Found: "mine: a key of another program",
		Remedy: "look at it, and remove it if nobody needs it: DEL bellhop:{0}:mine",
	}
	sums := func(v doctor.Verdict, found, remedy string) doctor.Finding {
		return doctor.Finding{Check: doctor.Contents, Verdict: v, Found: found, Remedy: remedy}
	}
	for range 2 {
		worst, told := examine(doctor.Run)
		want := []doctor.Finding{
			foreign,
			{
				Check: doctor.Contents, Verdict: doctor.Fail, Found: "orders:a in messages: a record that stands in no place",
				Remedy: "would be made ready, as due now", Repairable: true,
			},
			sums(doctor.Fail, "1 messages, 0 topics: faults found: 1, that can be repaired: 1", "run bellhop doctor --repair"),
		}
		if diff := cmp.Diff(want, told); diff != "" || worst != doctor.Fail {
			t.Errorf("%v, told (-want +got):\n%s", worst, diff)
		}
	}
	worst, told := examine(doctor.Repair)
	want := []doctor.Finding{
		foreign,
		sums(doctor.OK, "orders:a in messages: a record that stands in no place: made ready, as due now", ""),
		sums(doctor.OK, "1 messages, 0 topics: faults found and repaired: 1", ""),
	}
	if diff := cmp.Diff(want, told); diff != "" || worst != doctor.Warn {
		t.Errorf("%v, told (-want +got):\n%s", worst, diff)
	}
	worst, told = examine(doctor.Run)
	if diff := cmp.Diff([]doctor.Finding{foreign, sums(doctor.OK, "1 messages, 1 topics: nothing is out of place", "")}, told); diff != "" || worst != doctor.Warn {
		t.Errorf("%v, told (-want +got):\n%s", worst, diff)
	}
}

// A user who may do all that Bellhop does, and no more, hears what the examination of the contents needs.
func TestContentsWithoutRights(t *testing.T) {
	url := as("bell", "pw")(storetest.Server(t, bell(notify.Rights("bellhop"))...))
	worst, err := doctor.Repair(t.Context(), notify.Config{URL: url}, func(f doctor.Finding) {
		if f.Check != doctor.Contents || f.Verdict != doctor.Fail || !strings.Contains(f.Remedy, notify.RepairRights("bellhop")) {
			t.Errorf("told: %+v", f)
		}
	})
	if err != nil || worst != doctor.Fail {
		t.Errorf("got %v, %v", worst, err)
	}
}

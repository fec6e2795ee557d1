package storetest_test

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// A step whose reply is another one is found, with its line.
func TestWrongSteps(t *testing.T) {
	t.Parallel()
	for want, step := range map[string]string{
		"got  ready\n\twant scheduled":            "publish b = scheduled",
		"got  refused:exists\n\twant ok":          "publish a",
		"got  ready refused:exists\n\twant ready": "publish b a = ready",
		"got  a\n\twant nothing":                  "claim 1 = nothing",
		"got  ready\n\twant ":                     "cancel a",
		"got  a is ready":                         "is a=leased",
		"got  attempts is 0":                      "has a attempts=1",
		"got  expires is":                         "has a expires=due+2h",
		"got  published=1 ready=1":                "counts ready=1 published=2",
		"got  0\n\twant ok":                       "purge a",
		"got  1\n\twant 2":                        "redis ZCARD ready:orders = 2",
		"got  nobody\n\twant desk-1":              "rung = desk-1",
		"there is no verb":                        "do a",
	} {
		fault := storetest.FirstFault(t, `
	publish a ttl=1h        # and nothing else
	`+step)
		if !strings.HasPrefix(fault, "scenario_test.go:32: "+step) || !strings.Contains(fault, want) {
			t.Errorf("%s: got %s; want it at line 32, with %s", step, fault, want)
		}
	}
}

// Each case is a test of its own, between what is before and behind all.
func TestCases(t *testing.T) {
	t.Parallel()
	var played []string
	t.Run("all", func(t *testing.T) {
		say := func(p *storetest.Player, words []string) string {
			played = append(played, p.Name()+" "+words[0])
			return "ok"
		}
		storetest.Play(t, `
	publish 1..3
== a
	cancel 2 = ready
==
	list ready = 1 3
	say after
		`, storetest.Scenario{Verbs: map[string]func(*storetest.Player, []string) string{"say": say}})
	})
	if got := strings.Join(played, ","); got != "TestCases/all/a after" {
		t.Errorf("played were %s", got)
	}
}

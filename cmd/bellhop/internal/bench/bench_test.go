package bench_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/bench"
	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
)

// The daemon has the settings of Redis that bench has, each of them, and no others.
func TestEnvironment(t *testing.T) {
	want := notify.Config{MemoryShare: 80, WaitReplicas: 2, Shards: 8, URL: "redis://127.0.0.1:1"}
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && f.IsZero() {
			f.SetString("/" + v.Type().Field(i).Name)
		}
		if v.Field(i).IsZero() && v.Type().Field(i).Name != "Dial" { // which no variable can give
			t.Errorf("this test does not know the field %s", v.Type().Field(i).Name)
		}
	}
	env := bench.Environment([]string{"PATH=/bin", "BELLHOP_NATS_URL=nats://x", "BELLHOP_PREFIX=mine", "NOTIFY_SOCKET=/run/x", "CREDENTIALS_DIRECTORY=/run/y"}, want, "127.0.0.1:1234")
	if !slices.Contains(env, "PATH=/bin") {
		t.Errorf("got %v", env)
	}
	for _, variable := range env {
		if name, _, _ := strings.Cut(variable, "="); name == "NOTIFY_SOCKET" || name == "CREDENTIALS_DIRECTORY" {
			t.Errorf("got %s", variable)
		}
	}
	got, _ := daemon.Load(env) // the files do not exist
	if diff := cmp.Diff(want, got.Notify()); diff != "" || got.Listen != "127.0.0.1:1234" || got.NatsURL != "" {
		t.Errorf("listen %s, NATS %s (-bench +daemon):\n%s", got.Listen, got.NatsURL, diff)
	}
}

func TestMedians(t *testing.T) {
	turns := [][]bench.Figure{{{Name: "a", Value: 7}, {Name: "b", Value: 1}}, {{Name: "a", Value: 2}, {Name: "b", Value: 1}}, {{Name: "a", Value: 3}, {Name: "b", Value: 4}}}
	want := []bench.Figure{{Name: "a", Value: 3, Least: 2, Most: 7}, {Name: "b", Value: 1, Least: 1, Most: 4}}
	if diff := cmp.Diff(want, bench.Medians(turns)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := bench.Medians(turns[:2])[0]; got.Value != 4.5 || got.Least != 2 {
		t.Errorf("got %+v", got)
	}
}

// A percentile is the first sample than which no more than its share are less.
func TestRank(t *testing.T) {
	for _, test := range []struct{ n, percent, want int }{{1, 50, 0}, {1, 99, 0}, {2, 50, 0}, {99, 99, 98}, {100, 99, 98}, {101, 99, 99}, {200, 99, 197}, {2000, 50, 999}} {
		if got := bench.Rank(test.n, test.percent); got != test.want {
			t.Errorf("percentile %d of %d: got sample %d, want %d", test.percent, test.n, got, test.want)
		}
	}
}

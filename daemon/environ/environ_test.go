package environ_test

import (
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/daemon/environ"
)

func TestLookup(t *testing.T) {
	env := []string{"A=1", "EMPTY=", "AB=2", "A=x=y", "NOTHING"}
	for name, want := range map[string]string{"A": "x=y", "EMPTY": "", "AB": "2"} {
		if got, set := environ.Lookup(env, name); got != want || !set {
			t.Errorf("%s is %q, %v, want %q", name, got, set, want)
		}
	}
	for _, name := range []string{"B", "NOTHING", ""} {
		if got, set := environ.Lookup(env, name); set {
			t.Errorf("%q is set to %q", name, got)
		}
	}
	if got := environ.Get(env, "A") + environ.Get(env, "B"); got != "x=y" {
		t.Errorf("got %q", got)
	}
	if got := environ.Without(env, "A", "EMPTY"); !slices.Equal(got, []string{"AB=2", "NOTHING"}) {
		t.Errorf("got %q", got)
	}
}

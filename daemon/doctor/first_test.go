package doctor_test

import (
	"testing"

	"github.com/bellhopd/bellhop/daemon/doctor"
)

// What stops most comes first, of what failed.
func TestFirst(t *testing.T) {
	t.Parallel()
	of := func(verdict doctor.Verdict, checks ...string) (all []doctor.Finding) {
		for _, check := range checks {
			all = append(all, doctor.Finding{Check: check, Verdict: verdict})
		}
		return all
	}
	if got := doctor.First(append(of(doctor.OK, doctor.Checks()...), of(doctor.Warn, doctor.Checks()...)...)); got != nil {
		t.Errorf("nothing failed: %+v", got)
	}
	failed := of(doctor.Fail, doctor.Checks()...)
	for _, want := range []string{"reachable", "replicas", "rights", "carrier", "memory", "nats", "archive", "outbox", "version"} {
		got := doctor.First(failed)
		if got == nil || got.Check != want {
			t.Fatalf("got %+v, want %s", got, want)
		}
		for i := range failed {
			if failed[i].Check == want {
				failed[i].Verdict = doctor.OK
			}
		}
	}
}

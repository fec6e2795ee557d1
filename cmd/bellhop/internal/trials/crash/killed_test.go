package crash_test

import (
	"syscall"
	"testing"

	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A worker that is killed while its topic is idle stays in the waiting list. That is no fault: the next ring drops it.
func TestKilledWorkerIsNoFinding(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	worker := start(t, store, "worker", func(string) {}, "CRASH_PAUSE=0s")
	waiting(t, store)
	worker.end(syscall.SIGKILL)
	waiting(t, store) // still
	var found []doctor.Finding
	config := notify.Config{URL: store.Address(), Prefix: store.Keys().Prefix()}
	storetest.Must(t, storetest.ErrOf(doctor.Run(t.Context(), config, doctor.Options{}, func(f doctor.Finding) {
		if f.Check == doctor.Contents {
			found = append(found, f)
		}
	})))
	if len(found) != 1 || found[0].Verdict != doctor.OK {
		t.Errorf("the doctor found %+v, want nothing out of place", found)
	}
	storetest.Publish(t, store, notify.Message{Topic: topic, Body: []byte("x")})
	if left := store.Client().ZCard(t.Context(), store.Keys().Waiting(topic)).Val(); left != 0 {
		t.Errorf("%d inboxes are left after the ring", left)
	}
}

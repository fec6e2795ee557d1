package repair_test

import (
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The embedded server of a trial can be examined, too.
func TestTrial(t *testing.T) {
	store := storetest.At(t, "redis://"+miniredis.RunT(t).Addr(), "")
	storetest.Publish(t, store, notify.Message{Topic: "orders", ID: "a", Body: []byte("x")}, notify.Message{Topic: "orders", ID: "b", Body: []byte("x")})
	if got, sum := run(t, store, false); len(got) > 0 || sum.Messages != 2 {
		t.Errorf("found %v, %+v", got, sum)
	}
	do(t, store, "DEL", "ready:orders")
	do(t, store, "ZADD", "waiting:orders", 1, store.Keys().Inbox("ghost"))
	want := []string{"gone inbox:ghost waiting:orders", "index orders ready", "no place orders:a messages", "no place orders:b messages"}
	if got, _ := run(t, store, false); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	run(t, store, true)
	if got, _ := run(t, store, false); len(got) > 0 {
		t.Errorf("found again: %v", got)
	}
}

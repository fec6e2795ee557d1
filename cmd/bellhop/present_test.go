package main

import (
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

// A line of an export whose message is there is no fault, wherever the message is by now; one that differs in anything is refused, and so
// is a message that was published there by itself.
func TestImportOfWhatIsThere(t *testing.T) {
	t.Parallel()
	from, to := newShell(t), newShell(t)
	at := func(s *shell) *notify.Store { return storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX")) }
	future := time.Now().Add(1000 * time.Hour)
	storetest.Publish(t, at(from),
		notify.Message{Topic: "a", ID: "moved", Due: future, Body: []byte("x")},
		notify.Message{Topic: "a", ID: "replaced", Due: future, Body: []byte("x")},
		notify.Message{Topic: "a", ID: "cancelled", Due: future, Body: []byte("x")},
		notify.Message{Topic: "b", ID: "edited", Due: future, Body: []byte("edit me"), Headers: map[string]string{"Shop": "7"}, Key: "k", TTL: time.Hour, UniqueFor: time.Hour},
		notify.Message{Topic: "b", ID: "leased", Body: []byte("\xff")},
		notify.Message{Topic: "b", ID: "told", Due: future, Broadcast: true, Body: []byte("x")})
	file := from.feed("", "export", "-").out
	is := func(file, out string, refused ...string) {
		t.Helper()
		r := to.feed(file, "publish", "--file", "-")
		if want := map[bool]int{true: exitFailed, false: exitDone}[len(refused) > 0]; r.code != want || r.out != out {
			t.Errorf("got %+v, want %q", r, out)
		}
		for _, id := range refused {
			contains(t, r.err, ":"+id+": id already in use")
		}
	}
	is(file, "published 6, refused 0\n")
	is(file, "published 0, refused 0\n6 lines were there unchanged\n")
	to.call("reschedule", "a", "moved", "--delay", "2000h")
	to.call("publish", "a", "--id", "replaced", "--if-exists", "replace", "--delay", "1h", "--body", "x")
	to.call("cancel", "a", "cancelled")
	if ds, err := subscriberstest.Claimer(t, at(to)).Claim(t.Context(), "b", subscribers.ClaimOptions{Lease: time.Hour}); err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	is(file, "published 1, refused 1\n4 lines were there unchanged\n", "replaced")
	for was, edit := range map[string]string{`"edit me"`: `"edited"`, `"Shop":"7"`: `"Shop":"8"`, `"key":"k"`: `"key":"l"`, `"ttl":"1h0m0s"`: `"ttl":"2h"`, `"unique_for":"1h0m0s"`: `"unique_for":"2h"`} {
		edited := strings.Replace(file, was, edit, 1)
		if edited == file {
			t.Fatalf("%s is not in %s", was, file)
		}
		is(edited, "published 0, refused 2\n4 lines were there unchanged\n", "replaced", "edited")
	}
	is(`{"topic":"a","id":"moved","body":"x"}`, "published 0, refused 1\n", "moved")
}

package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
	"github.com/bellhopd/bellhop/subscribers/subscriberstest"
)

const groupsFine = "ok groups no dead letters hold back what waits for a group, and none is open for long → "

func TestGroups(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.expect("groups", "ok groups none → ")
	publish := func(m notify.Message) {
		t.Helper()
		_, err := w.pub.Publish(t.Context(), m)
		w.must(err)
	}
	publish(notify.Message{Topic: "rows", ID: "a", Group: "g"})
	publish(notify.Message{Topic: "rows", ID: "b", Group: "g"})
	publish(notify.Message{Topic: "done", ID: "x", AfterGroup: "rows:g"})
	claims := func() subscribers.Delivery {
		t.Helper()
		got, err := subscriberstest.Claimer(t, w.store).Claim(t.Context(), "rows", subscribers.ClaimOptions{Max: 1})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	buries := func() {
		t.Helper()
		d := claims()
		_, err := d.Bury(t.Context(), "no")
		w.must(err)
	}
	buries()
	w.expect("groups", groupsFine) // another one is left
	const remedy = "see why, then requeue or purge: bellhop find 'topic:rows group:g state:dead' --requeue; or have it come all the same: bellhop reschedule done x --now; " +
		"publish with on_dead=go where dead ones are to count as ended"
	buries()
	w.expect("groups", "warn groups rows:g: 2 dead letters hold back done:x, for <1m → "+remedy)
	_, err := storetest.Inspector(t, w.store).Purge(t.Context(), "rows", "a")
	w.must(err)
	w.expect("groups", "warn groups rows:g: 1 dead letter holds back done:x, for <1m → "+remedy)
	publish(notify.Message{Topic: "done", ID: "x", AfterGroup: "rows:g", OnDead: "go", IfExists: notify.Replace})
	w.expect("groups", groupsFine)

	publish(notify.Message{Topic: "rows", ID: "c", Group: "open"})
	w.expect("groups", groupsFine) // not for long
	key := w.store.KeysOf("rows").GroupsOf("rows")
	head, err := w.store.Client().HGet(t.Context(), key, "#2").Result()
	w.must(err)
	words := strings.Fields(head)
	words[1] = fmt.Sprint("opened=", time.Now().Add(-30*time.Hour).UnixMilli())
	w.must(w.store.Client().HSet(t.Context(), key, "#2", strings.Join(words, " ")).Err())
	w.expect("groups", "warn groups rows:open: open for 30h, 1 left, and nothing waits for it → publish what is to come then: "+
		"bellhop publish TOPIC --after-group rows:open; or forget it: bellhop groups forget rows open --yes")
	d := claims()
	w.must(d.Ack(t.Context()))
	w.expect("groups", groupsFine)

	publish(notify.Message{Topic: "rows", ID: "d", Group: "cut", Due: time.Now(), Restore: &notify.Restore{}})
	w.expect("groups", groupsFine) // the import may go on
	head, err = w.store.Client().HGet(t.Context(), key, "#3").Result()
	w.must(err)
	words = strings.Fields(head)
	words[2] = fmt.Sprint("changed=", time.Now().Add(-3*time.Hour).UnixMilli())
	w.must(w.store.Client().HSet(t.Context(), key, "#3", strings.Join(words, " ")).Err())
	w.expect("groups", "warn groups rows:cut: an import stopped before its line, 3h ago, and what waits for it does not come → "+
		"publish the whole file again: bellhop publish --file FILE; or forget the group: bellhop groups forget rows cut --yes")
}

package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// After an act on all dead letters no page counts them any more.
func TestDeathsAreForgotten(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := s.visitor()
	bury(t, s.store, "order.a", "no such shop", "1", "2", "3")
	bury(t, s.store, "order.b", "no such shop", "1")
	seen := func(letters int64) {
		t.Helper()
		v.get("/ui/dead/reasons").is(200).says(fmt.Sprint(letters, " were counted"))
		if _, n := pastOf(t, v.get("/ui/dead").is(200)); n != letters {
			t.Errorf("%d died, want %d", n, letters)
		}
	}
	seen(4)
	v.act("/ui/dead/letters?topic=order.a", "/ui/acts/found", "m", "order.a:1", "act", "purge").is(303)
	seen(3)
	v.act("/ui/dead/letters?topic=order.a", "/ui/acts/found", "m", "order.a:2", "m", "order.a:3", "act", "purge").is(200).
		says("Purge 2 messages?", `name="m" value="order.a:2"`, `name="m" value="order.a:3"`, `name="sure" value="1"`)
	seen(3)
	v.act("/ui/find?q=state:dead", "/ui/acts/found", "m", "order.a:2", "act", "requeue").is(303)
	seen(2)
	v.actOnAll(v.formOf("/ui/find/act?q=topic:order.a&act=purge", "q", "topic:order.a", "act", "purge")...).says("Purged 1 of 1")
	seen(1)
}

// The page of dead letters, and that of a topic's, show when those died that the viewer may see.
func TestDeathsOverTime(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]*notify.Store{"whole": storetest.Sharded(t, 8), "away": storetest.ShardAway(t, 8, 3)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, store)
			now := time.Now()
			ages := []time.Duration{0, time.Second, 2 * time.Hour, 3 * 24 * time.Hour, 20 * 24 * time.Hour, 50 * 24 * time.Hour}
			pub := storetest.Publisher(t, store)
			var there int64
			for _, topic := range []string{"order.new", "order.slow", "secret.plan", "secret.key"} {
				for i, age := range ages {
					_, err := pub.Publish(t.Context(), notify.Message{Topic: topic, ID: fmt.Sprint(i), Restore: &notify.Restore{Died: now.Add(-age), Reason: "why"}})
					if err == nil && i == 0 {
						there++
					} else if err != nil && name == "whole" {
						t.Fatal(err)
					}
				}
			}
			shop, root := s.login("shop"), s.login("root")
			died := func(v *visitor, path string) int64 {
				word, n := pastOf(t, v.get(path).is(200))
				if word != "" && word != "died" {
					t.Errorf("%s: %s", path, word)
				}
				return n
			}
			for span, n := range map[string]int64{"hour": 2, "day": 3, "week": 4, "month": 5} {
				if got := died(root, "/ui/dead?span="+span); got != n*there {
					t.Errorf("%d died within a %s, want %d", got, span, n*there)
				}
				if got := died(shop, "/ui/dead?span="+span); name == "whole" && got != n*2 {
					t.Errorf("%d died within a %s for a viewer of some, want %d", got, span, n*2)
				}
				if got := died(shop, "/ui/dead/letters?topic=order.slow&span="+span); name == "whole" && got != n {
					t.Errorf("%d of a topic died within a %s, want %d", got, span, n)
				}
			}
			if name == "away" {
				root.get("/ui/dead").is(200).says("Shard 3 is missing")
				return
			}
			root.get("/ui/dead").says("16 earlier", "no longer counted")
			shop.get("/ui/dead/letters?topic=secret.plan").is(403).hides("data-river")
			root.act("/ui/dead/letters?topic=order.new", "/ui/acts/found", "m", "order.new:0", "m", "order.new:1", "act", "purge", "sure", "1").is(303)
			if got := died(root, "/ui/dead/letters?topic=order.new"); got != 0 {
				t.Errorf("%d died of those that were purged", got)
			}
			root.get("/ui/dead/letters?topic=order.new").says("None died in this time.", "4 earlier")
			p := s.browse("/ui/login", consoletest.Look{})
			p.Type("input[name=token]", tokens["root"])
			p.Loads(func() { p.Press("Enter") })
			for _, path := range []string{"/ui/dead?span=month", "/ui/dead/letters?topic=order.slow&span=month"} {
				p.Go(s.url + path)
				p.Await("h2", "Deaths a day")
				p.Until("it is drawn", "document.querySelector('#river canvas')")
			}
		})
	}
}

// All viewers of the same topics share what is read of deaths, for some seconds.
func TestDeathsAreReadOnce(t *testing.T) {
	t.Parallel()
	var made scriptCalls
	store := storetest.Open(t)
	store.Observe(made.observe)
	s := serve(t, store, httpapi.Options{})
	bury(t, store, "order.a", "why", "1")
	stream := s.visitor().stream("/ui/dead")
	stream.says("died")
	before, began := made.of("forecast"), time.Now()
	for range 20 {
		s.visitor().get("/ui/dead").is(200).says("died")
	}
	// One may be under way when it begins, and one may be too old.
	if n, most := made.of("forecast")-before, int64(storetest.Shards())*(2+int64(time.Since(began)/forecast.Kept)); n > most {
		t.Errorf("it was read %d times, of %d", n, most)
	}
}

package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// forms are those of all acts, by the pattern of the act, and the right that each needs.
var forms = map[string][]struct {
	right  calls.Right
	fields string // NAME=VALUE&...
}{
	"/ui/acts/topics":    {{calls.MayAdmin, "pause=order.a"}, {calls.MayAdmin, "resume=order.a"}},
	"/ui/topics/{topic}": {{calls.MayPublish, "body=x"}, {calls.MayPublish, "body=x&mode=broadcast"}, {calls.MayAdmin, "mode=settings&set.attempts=3"}},
	"/ui/topics/{topic}/messages/{id}": {
		{calls.MayPublish, "act=cancel"},
		{calls.MayPublish, "act=stop"},
		{calls.MayPublish, "act=cancel-next"},
		{calls.MayPublish, "act=reschedule&delay=2h"},
		{calls.MayAdmin, "act=requeue"},
		{calls.MayAdmin, "act=purge"},
	},
	"/ui/topics/{topic}/groups/{name}": {{calls.MayAdmin, ""}},
	"/ui/acts/found": {
		{calls.MayPublish, "m=order.a:waits&act=cancel"},
		{calls.MayPublish, "m=order.a:waits&act=stop"},
		{calls.MayPublish, "m=order.a:waits&act=reschedule&delay=2h"},
		{calls.MayAdmin, "m=order.a:dead&act=requeue"},
		{calls.MayAdmin, "m=order.a:dead&act=purge"},
		{calls.MayAdmin, "m=order.a:dead&m=order.a:waits&act=purge"},
	},
	"/ui/find/act": {
		{calls.MayAdmin, "q=topic:order.a&act=cancel"},
		{calls.MayAdmin, "q=topic:order.a&act=reschedule&delay=2h"},
		{calls.MayAdmin, "q=topic:order.a&act=requeue"},
		{calls.MayAdmin, "q=topic:order.a&act=purge"},
		{calls.MayAdmin, "q=topic:order.a&act=purge&began=1"},
	},
	"/ui/broadcasts":     {{calls.MayPublish, "topic=order.a&body=x"}},
	"/ui/acts/listeners": {{calls.MayAdmin, "remove=stock"}},
	"/ui/acts/schedules": {
		{calls.MaySchedule, "run=order.a:daily"}, {calls.MaySchedule, "pause=order.a:daily"}, {calls.MaySchedule, "resume=order.a:daily"}, {calls.MaySchedule, "delete=order.a:daily"},
	},
	"/ui/topics/{topic}/schedules/{name}": {{calls.MaySchedule, "from=2020-01-01T00:00:00Z&to=2020-01-01T05:00:00Z"}},
	"/ui/acts/pushes":                     {{calls.MayPush, "pause=crm"}, {calls.MayPush, "resume=crm"}, {calls.MayPush, "delete=crm"}, {calls.MayPush, "test=crm"}},
	"/ui/put/schedule":                    {{calls.MaySchedule, "topic=order.a&name=hourly&every=1h&revision=0&shown="}, {calls.MaySchedule, "topic=order.a&name=daily&every=1h&revision=1"}},
	"/ui/put/push":                        {{calls.MayPush, "name=crm&topics=order.a&url=https://x.example"}, {calls.MayPush, "name=crm&topics=order.a&to=nats:x&do=test"}},
	"/ui/acts/outbox":                     {{calls.MayAdmin, "retry=all"}, {calls.MayAdmin, "purge=all"}, {calls.MayAdmin, "purge=ticked&m=1:"}},
	"/ui/acts/upgrade":                    {{calls.MayAdmin, ""}},
}

// No act does anything for a viewer who lacks its right, or who has all rights to other topics: it is refused, and all that Redis holds stays.
func TestActsNeedRights(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString(tokensFile + "others others-token-0123456789 admin other.>\n")
	lacks := make(map[calls.Right]string) // tokens that have all other rights
	for _, right := range []calls.Right{calls.MayAdmin, calls.MayPublish, calls.MaySchedule, calls.MayPush} {
		rest := slices.DeleteFunc(slices.Clone(calls.AllRights), func(r calls.Right) bool { return r == right || r == calls.MayAdmin })
		lacks[right] = fmt.Sprintf("lacks-%s-0123456789", right)
		fmt.Fprintf(&file, "lacks-%s %s %s >\n", right, lacks[right], calls.ListRights(rest, ","))
	}
	s := serve(t, storetest.Open(t), httpapi.Options{TokensFile: writeTokens(t, file.String())})
	bury(t, s.store, "order.a", "why", "dead")
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "waits", Group: "daily", Delay: time.Hour})
	schedule(t, s.store, "order.a", "daily", asItIs)
	putPush(t, s.store, "crm", asPut, "order.a")
	listen(t, s.store, "stock", "order.>")
	visitors := make(map[string]*visitor)
	login := func(token string) *visitor {
		if visitors[token] == nil {
			visitors[token] = s.visitor()
			visitors[token].post("/ui/login", "token", token).is(http.StatusSeeOther)
		}
		return visitors[token]
	}
	for _, pattern := range console.Acts() {
		if len(forms[pattern]) == 0 {
			t.Errorf("%s: say here what its forms are", pattern)
		}
		for _, form := range forms[pattern] {
			id := "waits"
			if form.right == calls.MayAdmin {
				id = "dead"
			}
			path := strings.NewReplacer("{topic}", "order.a", "{id}", id, "{name}", "daily").Replace(pattern)
			pairs := []string{"sure", "1"}
			for _, pair := range strings.Split(form.fields, "&") {
				name, value, _ := strings.Cut(pair, "=")
				pairs = append(pairs, name, value)
			}
			for _, token := range []string{lacks[form.right], "others-token-0123456789"} {
				v := login(token)
				filled := v.formOf("/ui/topics", pairs...)
				before := held(t, s.store)
				answer := v.post(path, filled...)
				searches := pattern == "/ui/find/act" && token != lacks[form.right] // which looks at no other topics
				if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[searches]; answer.status != want {
					t.Errorf("with the token %s %s %s answers %d, want %d: %.2000s", token, path, form.fields, answer.status, want, answer.body)
				}
				if after := held(t, s.store); !maps.Equal(before, after) {
					t.Errorf("with the token %s %s %s changed %q", token, path, form.fields, changed(before, after))
				}
			}
		}
	}
}

// held returns all that Redis holds of a store but who is there, by its keys.
func held(t *testing.T, store *notify.Store) map[string]string {
	t.Helper()
	all := make(map[string]string)
	client := store.Client()
	keys, err := client.Keys(t.Context(), store.Home().Keys().Prefix()+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if all[key], err = client.Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	delete(all, store.Home().Keys().Workers()) // a worker of the daemon's pushes comes meanwhile
	return all
}

// changed returns the keys of which the values differ.
func changed(before, after map[string]string) (keys []string) {
	for key := range after {
		if before[key] != after[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// What is checked is what is acted on, and shown: a name with a blank beside it is none.
func TestNamesStandAsTheyAre(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", ID: "waits", Delay: time.Hour})
	schedule(t, s.store, "order.a", "daily", asItIs)
	putPush(t, s.store, "crm", asPut, "order.a")
	v := s.login("root")
	for _, address := range []string{
		"/ui/topics/%20order.a", "/ui/topics/order.a/messages/%20waits", "/ui/topics/order.a/schedules/%20daily", "/ui/topics/%20order.a/schedules/daily", "/ui/pushes/crm%20", "/ui/dead/letters?topic=order.a%20",
	} {
		v.get(address).is(http.StatusUnprocessableEntity)
	}
	for _, form := range [][]string{
		{"/ui/acts/topics", "pause", " order.a"},
		{"/ui/acts/schedules", "delete", "order.a: daily"},
		{"/ui/acts/pushes", "delete", "crm "},
		{"/ui/acts/found", "act", "cancel", "m", "order.a: waits"},
		{"/ui/topics/order.a/schedules/%20daily", "from", "2020-01-01T00:00:00Z", "to", "2020-01-01T05:00:00Z"},
		{"/ui/acts/found", "act", "reschedule", "m", "order.a:waits", "delay", " "},
	} {
		before := held(t, s.store)
		v.act("/ui/topics", form[0], append(form[1:], "sure", "1")...).is(http.StatusUnprocessableEntity)
		if after := held(t, s.store); !maps.Equal(before, after) {
			t.Errorf("%q changed %q", form, changed(before, after))
		}
	}
	v.act("/ui/topics", "/ui/acts/found", "act", "reschedule", "m", "order.a:waits", "delay", " 2h ").leads("/ui/topics")
}

package console_test

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// ailing is a site of which the doctor finds much wrong, as an operator would make it.
func ailing(t *testing.T) *site {
	t.Helper()
	s := sound(t, httpapi.Options{TokensFile: writeTokens(t, tokensFile)})
	carry(t, s.store)
	storetest.Set(t, s.store, "order.ledger", notify.SettingsChange{OnDead: new("stop")})
	storetest.Publish(t, s.store,
		message("order.held", "x"), message("order.alone", "x"), notify.Message{Topic: "mail", ID: "hangs"},
		notify.Message{Topic: "order.ledger", ID: "first", Key: "acct-7"}, notify.Message{Topic: "order.ledger", ID: "next", Key: "acct-7"})
	storetest.Must(t, storetest.Inspector(t, s.store).Pause(t.Context(), "order.held"))
	age(t, s.store, "order.held")
	age(t, s.store, "order.alone")
	buryAll(t, s.store, "order.ledger", "because")
	hang(t, s.store, "mail")
	fail(t, s.store, "order.late", 3)
	putPush(t, s.store, "crm", fails, "paid")
	putPush(t, s.store, "held", func(p *store.Push) { p.Paused = "by ops" }, "bills")
	day := 24 * time.Hour
	next := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	swallowed := store.Schedule{Topic: "order.bills", Name: "daily", Spec: calendar.Spec{Every: day, From: next.Add(-day)}}
	_, err := s.store.Of(swallowed.Topic).RestoreSchedule(t.Context(), &swallowed, &store.ScheduleRestore{ScheduleState: store.ScheduleState{Cursor: next.Add(365 * day), Fell: next.Add(day)}})
	storetest.Must(t, err)
	holdUp(t, s.store)
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Branches: new("ship,points")})
	work(t, s.store, "paid-1", "order.paid")
	lag(t, s.store, "warehouse", "stock.changed")
	return s
}

// holdUp has two dead letters of a group hold back what waits for it.
func holdUp(t *testing.T, db *notify.Store) {
	t.Helper()
	storetest.Publish(t, db, notify.Message{Topic: "rows", ID: "a", Group: "g"}, notify.Message{Topic: "rows", ID: "b", Group: "g"}, notify.Message{Topic: "done", ID: "x", AfterGroup: "rows:g"})
	buryAll(t, db, "rows", "no", "no")
}

// lag has a named listener not get a broadcast of a topic for an hour.
func lag(t *testing.T, db *notify.Store, name, topic string) {
	t.Helper()
	client, keys := db.Client(), db.KeysOf(topic)
	at := notify.Position(time.Now().Add(-time.Hour).UnixMicro())
	storetest.Must(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Log(topic), ID: at.String(), Values: []any{"id", at.String(), "prev", "0"}}).Err())
	storetest.Must(t, client.ZAdd(t.Context(), keys.Logs(), redis.Z{Score: float64(at), Member: topic}).Err())
	for _, each := range db.KeysOfAll() {
		storetest.Must(t, client.HSet(t.Context(), each.Listeners(), name, topic+" beginning 0 0 store").Err())
	}
}

// age has what is ready of a topic be so for an hour.
func age(t *testing.T, db *notify.Store, topic string) {
	t.Helper()
	keys := db.KeysOf(topic)
	ageIn(t, db, keys.Ready(topic), keys.ReadyTopics(), topic)
}

// ageIn has what is in a place of a topic, and the topic in the index of that, be there for an hour.
func ageIn(t *testing.T, db *notify.Store, place, index, topic string) {
	t.Helper()
	client, since := db.Client(), float64(time.Now().Add(-time.Hour).UnixMilli())
	members, err := client.ZRange(t.Context(), place, 0, -1).Result()
	storetest.Must(t, err)
	for _, member := range members {
		storetest.Must(t, client.ZAdd(t.Context(), place, redis.Z{Score: since, Member: member}).Err())
	}
	storetest.Must(t, client.ZAdd(t.Context(), index, redis.Z{Score: since, Member: topic}).Err())
}

// hang has a worker have a message of a topic for twenty minutes.
func hang(t *testing.T, db *notify.Store, topic string) {
	t.Helper()
	claimer, err := subscribers.NewClaimer(db, subscribers.ClaimerOptions{Name: "w-hangs", Logger: discard})
	storetest.Must(t, err)
	_, err = claimer.Claim(t.Context(), topic, subscribers.ClaimOptions{Lease: time.Hour})
	storetest.Must(t, err)
	claims, client := db.KeysOf(topic).Claims(), db.Client()
	all, err := client.ZRangeWithScores(t.Context(), claims, 0, -1).Result()
	storetest.Must(t, err)
	for _, one := range all { // a base, since when in ms, the topic and the worker
		f := strings.Fields(one.Member.(string))
		if f[2] != topic {
			continue
		}
		since, err := strconv.ParseInt(f[1], 10, 64)
		storetest.Must(t, err)
		f[1] = fmt.Sprint(since - (20 * time.Minute).Milliseconds())
		storetest.Must(t, client.ZRem(t.Context(), claims, one.Member).Err())
		storetest.Must(t, client.ZAdd(t.Context(), claims, redis.Z{Score: one.Score, Member: strings.Join(f, " ")}).Err())
	}
}

// fail has a worker fail some attempts of a message of a topic, which falls due in an hour then.
func fail(t *testing.T, db *notify.Store, topic string, attempts int) {
	t.Helper()
	storetest.Publish(t, db, notify.Message{Topic: topic, ID: "o-1"})
	for i := range attempts {
		storetest.Eventually(t, "it is ready", func() bool {
			counts, err := storetest.Count(db, topic)
			return err == nil && counts.Ready == 1
		})
		delay := time.Duration(0)
		if i == attempts-1 {
			delay = time.Hour
		}
		storetest.Must(t, storetest.ErrOf(claimOne(t, db, topic).Nack(t.Context(), delay, "no such customer")))
	}
}

var (
	mendButton = regexp.MustCompile(`<button id="[^"]*" formaction="([^"]*)" name="([^"]*)" value="([^"]*)">([^<]*)`)
	mendLink   = regexp.MustCompile(`<a href="([^"]*)">[^<]*<span class="away"> of `)
)

// The first page has what the doctor finds, failures first, with a button for each that Bellhop can mend, and each
// button does what it says.
func TestFirstPageMends(t *testing.T) {
	t.Parallel()
	s := ailing(t)
	root := s.login("root")
	page := wait(t, root, "/ui/", "overdue: order.alone: ").is(http.StatusOK)
	page.says(`<p class="large late"`, `href="topics/order.late/messages/o-1">failing: order.late: `, `href="topics/order.alone">overdue: order.alone: oldest due 1h ago, 1 ready, no subscriber waits`, "start a worker: bellhop work order.alone",
		"paused: order.held: paused for", "dead: order.ledger: 1 died", "blocked: order.ledger: dead letters bar 1 key", "leases: mail: w-hangs has had hangs for 20m",
		"pushes: crm: its endpoint fails", "pushes: held: it is paused, by ops", "schedules: order.bills daily: it misses").hides("Nothing is wrong", "Nothing wrong")
	letter := regexp.MustCompile(`topics/order.ledger/messages/([\w.-]+)" name="act"`).FindStringSubmatch(page.body)[1]
	root.get("/ui/topics/order.ledger").says("blocked: order.ledger: dead letters bar 1 key", `formaction="topics/order.ledger/messages/`+letter+`"`).hides("order.held", "Dropped ever")
	root.get("/ui/topics/mail").says("leases: mail: w-hangs has had hangs for 20m", "Stop hangs", `formaction="topics/mail/messages/hangs"`)
	does := map[string]struct{ says, answers string }{
		"resume order.held": {"Resume", "Resumed order.held"}, "resume held": {"Resume", "Resumed the push held"}, "test crm": {"Test", "The daemon pushes to no URL"},
		"resume order.bills:daily": {"Resume", "Resumed the schedule daily of order.bills"},
		"act stop":                 {"Stop hangs", "Stop the work on hangs, and cancel it?"}, "act requeue": {"Requeue " + letter, "Requeued " + letter},
	}
	for _, b := range mendButton.FindAllStringSubmatch(page.body, -1) {
		to, name, value := html.UnescapeString(b[1]), b[2], html.UnescapeString(b[3])
		want, known := does[name+" "+value]
		if delete(does, name+" "+value); !known || b[4] != want.says {
			t.Errorf("%s %s says %q, want %q", name, value, b[4], want.says)
			continue
		}
		answer := root.act("/ui/", "/ui/"+to, name, value)
		if answer.status == http.StatusSeeOther {
			answer.did(want.answers, "/ui/")
		} else {
			answer.says(want.answers)
		}
	}
	if len(does) > 0 {
		t.Errorf("there is no button for %v", does)
	}
	asks := map[string]string{
		"topic:order.ledger state:dead": "Requeue all that match", "topic:rows state:dead": "Requeue all that match", "topic:rows group:g state:dead": "Requeue all that match",
		"topic:order.ledger key:acct-7": "next",
	}
	for _, l := range mendLink.FindAllStringSubmatch(page.body, -1) {
		to := html.UnescapeString(l[1])
		asked := mustURL(t, to).Query().Get("q")
		root.get("/ui/" + to).is(http.StatusOK).says(cmp.Or(asks[asked], "there is to be no link for "+asked))
		delete(asks, asked)
	}
	if len(asks) > 0 {
		t.Errorf("there is no link for %v", asks)
	}
	storetest.Eventually(t, "what was mended is found no more", func() bool {
		page = root.get("/ui/")
		return strings.Contains(page.body, "overdue: order.alone") && !strings.Contains(page.body, "paused: order.held") && !strings.Contains(page.body, "blocked: ")
	})
	page.hides("pushes: held: it is paused", "schedules: order.bills")
}

// Who sees some topics is told what the doctor finds of these, and gets the buttons of acts that the token permits.
func TestFirstPageOfSomeMends(t *testing.T) {
	t.Parallel()
	s := ailing(t)
	page := wait(t, s.login("shop"), "/ui/", "overdue: order.alone").says("blocked: order.ledger").hides("mail", "crm", "pushes: ", "schedules: ", "Resume", "Requeue")
	if mendButton.MatchString(page.body) {
		t.Error("it has a button that does nothing")
	}
}

// A finding is mended from the first page in a browser, with JavaScript and without.
func TestMendsInABrowser(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]consoletest.Look{"with JavaScript": {}, "without": {NoScript: true, Width: 390}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sound(t, httpapi.Options{})
			carry(t, s.store)
			work(t, s.store, "mailer-1", "mail")
			storetest.Must(t, storetest.Inspector(t, s.store).Pause(t.Context(), "mail"))
			storetest.Publish(t, s.store, message("mail", "x"))
			age(t, s.store, "mail")
			wait(t, s.visitor(), "/ui/", "paused: mail: paused")
			p := s.browse("/ui/", look)
			p.Await(".large", "paused: mail: paused")
			p.Fits()
			p.Click(".mends button")
			p.Await("[role=status]", "Resumed mail")
			wait(t, s.visitor(), "/ui/", "Nothing is wrong")
			if look.NoScript {
				p.Go(s.url + "/ui/")
			}
			p.Await(".large.ok", "Nothing is wrong")
		})
	}
}

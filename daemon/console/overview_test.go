package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/consoletest"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What nothing was published to does not look as if all were well with it.
func TestNothingWasPublished(t *testing.T) {
	t.Parallel()
	s := open(t)
	carry(t, s.store)
	v := s.visitor()
	storetest.Eventually(t, "a carrier is elected", func() bool { return !strings.Contains(v.get("/ui/").body, "No carrier") })
	v.get("/ui/").is(200).says("Nothing was published yet", "bellhop publish greetings").hides("Nothing is wrong")
	v.get("/ui/topics/order.timout").is(200).says("Nothing was ever published to it").hides("Nothing is late")
}

// The first page says what is wrong, and where, before all else.
func testOverview(t *testing.T, s *site) {
	v := s.visitor()
	wait(t, v, "/ui/", "dead: order.refused: 10 died")
	wait(t, v, "/ui/", `href="topics/order.slow"`).is(200).says("pushes: crm: its endpoint fails", `href="pushes/crm"`, `href="topics/invoice.held"`, "paused", "Redis memory").hides("Nothing is wrong", "mail.welcome")
	for query, says := range map[string]string{"span=week": "messages a day", "span=month": "messages a day", "span=<script>": "messages a minute"} {
		storetest.Eventually(t, "the river is there", func() bool { return strings.Contains(v.get("/ui/?"+query).is(200).hides("<script>").body, says) })
	}
}

// A viewer of some topics sees nothing of the others, and nothing of the whole store.
func TestOverviewOfSome(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	storetest.Publish(t, store, message("order.new", "x"), message("secret.plan", "x"), notify.Message{Topic: "secret.later", Delay: time.Minute}, notify.Message{Topic: "order.later", Delay: time.Minute})
	pause := storetest.Inspector(t, store).Pause
	for _, topic := range []string{"order.held", "secret.held"} {
		if err := pause(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	shop, root := s.login("shop"), s.login("root")
	for _, v := range []*visitor{shop, root} {
		storetest.Eventually(t, "the river is there, and the doctor was", func() bool {
			page := v.get("/ui/").body
			return strings.Contains(page, "data-river") && strings.Contains(page, "carrier: none")
		})
	}
	some := shop.get("/ui/").is(200).says("order.held", "carrier: none is heard").hides("secret", "Redis memory", "Messages kept", "delivered</span>")
	all := root.get("/ui/").is(200).says("order.held", "secret.held", "Redis memory", "Messages kept", "delivered</span>")
	if one, two := dueIn(t, some), dueIn(t, all); one != 1 || two != 2 {
		t.Errorf("%d messages fall due for a viewer of some, and %d for one of all", one, two)
	}
	s.login("metrics").get("/ui/").is(200).says("Messages kept").hides("Redis memory", "delivered</span>")
}

var riverData = regexp.MustCompile(`data-river="([^"]*)"`)

// dueIn returns how many messages fall due in the river of a page.
func dueIn(t *testing.T, page shown) (sum int64) {
	t.Helper()
	var drawn struct{ Due []*int64 }
	if err := json.Unmarshal([]byte(html.UnescapeString(page.field(riverData))), &drawn); err != nil {
		t.Fatal(err)
	}
	for _, n := range drawn.Due {
		if n != nil {
			sum += *n
		}
	}
	return sum
}

func TestNothingIsWrong(t *testing.T) {
	t.Parallel()
	s := sound(t, httpapi.Options{})
	carry(t, s.store)
	storetest.Publish(t, s.store, notify.Message{Topic: "order.a", Delay: time.Hour})
	v := s.visitor()
	v.get("/ui/").is(200).says("The doctor is looking").hides("Nothing is wrong")
	wait(t, v, "/ui/", "Nothing is wrong").says(`<a href="carriers">advice</a> on how this is set up: memory, standby.`).hides("looking", "standby: none")
}

// The first page says first what the doctor finds wrong, and of topics alone to who sees no more.
func TestOverviewQuotesTheDoctor(t *testing.T) {
	t.Parallel()
	s := sound(t, httpapi.Options{TokensFile: writeTokens(t, tokensFile), Doctor: doctor.Options{NATS: natsgate.Options{URL: "nats://127.0.0.1:1"}}})
	carry(t, s.store)
	for _, topic := range []string{"order.a", "secret.a"} {
		storetest.Set(t, s.store, topic, notify.SettingsChange{OnDead: new("stop")})
		storetest.Publish(t, s.store, notify.Message{Topic: topic, ID: "first", Key: "acct-7"}, notify.Message{Topic: topic, ID: "next", Key: "acct-7"})
		buryAll(t, s.store, topic, "because")
	}
	page := wait(t, s.login("root"), "/ui/", "nats: away").
		says(`<a href="topics/order.a">blocked: order.a: dead letters bar 1 key`, `<a href="topics/secret.a">blocked: `, "→</span> start NATS there", "see why, then requeue or purge").hides("Nothing is wrong")
	if found := quoted.FindAllString(page.body, -1); len(found) != 5 || !strings.Contains(found[0], "nats: away") {
		t.Errorf("it says %q", found)
	}
	wait(t, s.login("shop"), "/ui/", "blocked: order.a: dead letters bar 1 key").hides("secret", "nats", "advice", "looking")
}

var quoted = regexp.MustCompile(`<p class="(large|also) [^\n]*`)

// Shards that are away are named, and the others are shown.
func TestOverviewWithoutAShard(t *testing.T) {
	t.Parallel()
	store := storetest.ShardAway(t, 8, 3)
	s := serve(t, store, httpapi.Options{})
	wait(t, s.visitor(), "/ui/", "carrier: shards 0, 1, 2, 4").is(200).says("Shard 3 is missing", "Topics in trouble", "0 of 8")
}

// The river is drawn, and is a table for whoever does not see it.
func testRiver(t *testing.T, s *site) {
	p := s.browse("/ui/", consoletest.Look{})
	p.Until("it is drawn", "document.querySelector('#river canvas')")
	p.Await("#river-at", "within a minute")
	if n := p.Count("#river canvas"); n != 1 {
		t.Errorf("%d plots", n)
	}
	p.Look(consoletest.Look{Dark: true, Width: 320})
	p.Until("it fits", "document.querySelector('#river canvas').clientWidth <= 320")
	p.Fits()
	p.Click(".choose a")
	p.Await("h2", "messages an hour")
	p.Go(s.url + "/ui/topics/order.timeout?span=day")
	p.Await("#live h2", "Messages an hour")
	p.Click(".choose a")
	p.Await("#live h2", "Messages a minute")
	p.Until("it is drawn", "document.querySelector('#river canvas')")
	plain := s.browse("/ui/", consoletest.Look{NoScript: true})
	for _, path := range []string{"/ui/", "/ui/topics/order.timeout?span=day"} {
		plain.Go(s.url + path)
		plain.Await(".plain", "Falls due")
		if plain.Count("#river canvas") != 0 {
			t.Errorf("%s: it is drawn without JavaScript", path)
		}
	}
}

// inked reports whether the river is drawn as wide as the page permits, with bars or lines in colour.
const inked = `(() => {
	const c = document.querySelector("#river canvas");
	if (!c || c.clientWidth < 0.9 * c.closest("section").clientWidth) return false;
	const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
	let coloured = 0;
	for (let i = 0; i < data.length; i += 4) {
		const rgb = data.slice(i, i + 3);
		if (data[i + 3] === 255 && Math.max(...rgb) - Math.min(...rgb) > 60) coloured++;
	}
	return coloured > 20;
})()`

// In a window that nothing resizes, the river is drawn on each page that has one.
func testRiverIsDrawn(t *testing.T, s *site) {
	for _, width := range []int{320, 1400} {
		p := s.browse("/ui/login", consoletest.Look{Width: width})
		for _, path := range []string{"/ui/", "/ui/topics/order.timeout", "/ui/dead", "/ui/dead/letters?topic=order.refused"} {
			p.Go(s.url + path)
			p.Until(fmt.Sprintf("%s is drawn %d pixels wide", path, width), inked)
		}
	}
}

// setRiver has the page draw a river whose messages were late by some milliseconds, in buckets of so many seconds, and
// keeps the plot.
const setRiver = `
	const make = uPlot;
	window.uPlot = Object.assign(function (...given) { return window.plot = new make(...given); }, make);
	window.setRiver = async (step, p50, p99) => {
		do {
			const from = document.getElementById("river-data");
			if (from) { // else what falls due is being counted
				const river = JSON.parse(from.dataset.river);
				river.step = step;
				river.p50.fill(null).fill(p50, 0, 2);
				river.p99.fill(null).fill(p99, 0, 2);
				from.dataset.river = JSON.stringify(river);
			}
			await new Promise((done) => setTimeout(done));
		} while (window.plot && window.plot.data.at(-1)[0] !== p99); // the page has drawn anew what it was sent
	};`

// What schedules add to what falls due is drawn behind it, and stands in the table, with until when it is whole.
func TestRiverOfSchedules(t *testing.T) {
	t.Parallel()
	s := open(t)
	from := time.Now().Add(10 * time.Minute).Truncate(time.Minute)
	storetest.Publish(t, s.store, notify.Message{Topic: "bills", Due: from.Add(time.Minute)})
	schedule(t, s.store, "bills", "second", func(o *store.Schedule) { o.Spec = calendar.Spec{Every: time.Second, From: from} })
	p := s.browse("/ui/topics/bills", consoletest.Look{})
	p.Until("it is drawn", inked)
	p.Await("#live", "schedules add")
	p.Await(".plain", "Schedules add")
	p.Await("#live", "whole until "+from.Add(1000*time.Second).UTC().Format("2006-01-02 15:04:05.000 UTC"))
	var recur []int64
	p.Eval(`(async () => {
		let from;
		while (!(from = document.getElementById("river-data"))) await new Promise((done) => setTimeout(done)); // what falls due is being counted
		return JSON.parse(from.dataset.river).recur;
	})()`, &recur)
	sum := int64(0)
	for _, n := range recur {
		sum += n
	}
	if sum != 1000 {
		t.Errorf("got %d: %v", sum, recur)
	}
	if *screenshots != "" {
		p.Screenshot(filepath.Join(*screenshots, "river-of-schedules.png"))
	}
}

// However late messages are, the axis of the river has few ticks: one that never ended would freeze the page.
func testRiverOfAllMagnitudes(t *testing.T, s *site) {
	p := s.browse("/ui/", consoletest.Look{})
	p.Until("it is drawn", inked)
	p.Eval(setRiver, nil)
	for from := 0.001; from < 10_000; from *= 10 {
		var wrong []string
		p.Eval(fmt.Sprintf(`(async () => {
			const wrong = [], from = %v;
			for (let p50 = from; p50 < 10 * from; p50 *= 1.04) {
				const p99 = 40 * p50;
				await setRiver(61, p50, p99);
				const { min, max } = plot.scales.late, ticks = plot.axes[2]._splits.length;
				if (!(min <= p50 && max >= p99 && ticks < 100)) wrong.push(p50 + " and " + p99 + ": " + ticks + " ticks from " + min + " to " + max);
			}
			return wrong;
		})()`, from), &wrong)
		if len(wrong) > 0 {
			t.Errorf("%d are wrong: %q", len(wrong), wrong[0])
		}
	}
}

// A river that cannot be drawn is a table, and the rest of the page works.
func testRiverThatFails(t *testing.T, s *site) {
	p := s.browse("/ui/", consoletest.Look{})
	p.Until("it is drawn", inked)
	p.Expect("no such plot")
	p.Eval(setRiver+`
		window.uPlot = Object.assign(function () { throw new Error("no such plot"); }, make);
		setRiver(61, 1, 2)`, nil)
	p.Until("the table shows", `document.querySelector("#river:empty") && getComputedStyle(document.querySelector(".plain")).position !== "absolute"`)
	p.Click(".choose a")
	p.Await("h2", "messages an hour")
}

// What was delivered stands to the left of now in the river, with how late it was.
func testRiverHasAPast(t *testing.T, s *site) {
	v := s.visitor()
	for _, span := range []string{"hour", "day", "week", "month"} {
		storetest.Eventually(t, "the past is noted", func() bool {
			var drawn struct {
				Past []*int64
				P99  []*float64
			}
			page := v.get("/ui/?span=" + span).is(200)
			if !strings.Contains(page.body, "data-river") {
				return false
			}
			if err := json.Unmarshal([]byte(html.UnescapeString(page.field(riverData))), &drawn); err != nil {
				t.Fatal(err)
			}
			var sum int64 // they may fall into two bars
			late := false
			for i, n := range drawn.Past {
				if n != nil {
					sum += *n
					late = late || drawn.P99[i] != nil && *drawn.P99[i] > 0
				}
			}
			return sum >= 20 && late
		})
	}
}

// The overview takes as long with many topics as with few.
func TestOverviewOfManyTopics(t *testing.T) {
	t.Parallel()
	s := open(t)
	storetest.Fill(t, s.store, 10_000, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprint("order.of-", i), Delay: time.Duration(i%7000) * time.Second}
	})
	v := s.visitor()
	began := time.Now()
	v.get("/ui/").is(200).says("10,000 topics")
	t.Logf("it took %v", time.Since(began)) // 0.2 s on a machine at rest
	storetest.Eventually(t, "the river comes later", func() bool { return strings.Contains(v.get("/ui/").body, "falls due") })
}

// The topics of others may take all places among the worst of the store: those of the viewer are looked at
// by name then, or it is said that they were not.
func TestOverviewBehindOthers(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := guarded(t, store)
	carry(t, store)
	storetest.Fill(t, store, 220, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprint("secret.", i), Due: time.Now().Add(-2 * time.Hour)}
	})
	storetest.Publish(t, store, notify.Message{Topic: "order.old", ID: "o1", Due: time.Now().Add(-time.Hour)})
	shop := s.login("shop")
	wait(t, shop, "/ui/", `<a href="./#trouble">Messages wait</a>`).says("order.old").hides("secret", "Nothing is wrong")
	if _, err := storetest.Publisher(t, store).Cancel(t.Context(), "order.old", "o1"); err != nil {
		t.Fatal(err)
	}
	storetest.Eventually(t, "it is not late any more", func() bool { return !strings.Contains(shop.get("/ui/").body, "order.old") })
	storetest.Fill(t, store, 201, func(i int) notify.Message {
		return notify.Message{Topic: fmt.Sprint("order.", i), Delay: time.Hour}
	})
	wait(t, shop, "/ui/", "Only the worst topics of the store were looked at").says("None was found").hides("Nothing is wrong", "nothing is late")
}

// A number of topics in trouble that the survey cut is told as such.
func TestManyTopicsInTrouble(t *testing.T) {
	t.Parallel()
	for n, says := range map[int]string{150: ">131 more<", 220: ">at least 181 more<"} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			store := storetest.Open(t)
			s := serve(t, store, httpapi.Options{})
			carry(t, store)
			storetest.Must(t, storetest.Inspector(t, store).Pause(t.Context(), "held"))
			storetest.Publish(t, store, message("held", "x"))
			storetest.Fill(t, store, n, func(i int) notify.Message {
				return notify.Message{Topic: fmt.Sprint("order.", i), Due: time.Now().Add(-2 * time.Hour)}
			})
			wait(t, s.visitor(), "/ui/", says)
		})
	}
}

// The table of topics in trouble has the order of the headlines.
func TestOrderOfTrouble(t *testing.T) {
	t.Parallel()
	store := storetest.Open(t)
	s := serve(t, store, httpapi.Options{})
	carry(t, store)
	for _, topic := range []string{"idle", "held"} {
		if err := storetest.Inspector(t, store).Pause(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Publish(t, store, message("died", "x"))
	buryAll(t, store, "died", "why")
	storetest.Publish(t, store, message("held", "x"), message("alone", "x"), notify.Message{Topic: "idle", Delay: time.Hour})
	row := regexp.MustCompile(`<tr id="topic:(\w+)">`)
	var topics []string
	storetest.Eventually(t, "the order is that of the headlines", func() bool {
		topics = nil
		for _, found := range row.FindAllStringSubmatch(s.visitor().get("/ui/").body, -1) {
			topics = append(topics, found[1])
		}
		return slices.Equal(topics, []string{"alone", "held", "died", "idle"})
	})
}

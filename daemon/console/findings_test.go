package console_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/doctor"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A found is a finding of the doctor as pages have it.
type found struct {
	check, says, remedy string
	isAdvice            bool // the first page names the check, and leads to the page that has the rest
}

// sick are sites of which the doctor finds something wrong, which is made for real.
var sick = map[string]struct {
	opens func(*testing.T) *visitor
	finds []found
}{
	"topics, pushes and listeners": {func(t *testing.T) *visitor { return ailing(t).login("root") }, []found{
		{check: "overdue", says: "order.alone: oldest due 1h ago, 1 ready, no subscriber waits", remedy: "start a worker: bellhop work order.alone"},
		{check: "paused", says: "order.held: paused for", remedy: "resume it, unless the pause is intended: bellhop resume order.held"},
		{check: "failing", says: "order.late: the last 3 attempts of o-1 failed, the newest ", remedy: "mend its worker, and it comes again by itself: bellhop inspect order.late o-1"},
		{check: "dead", says: "order.ledger: 1 died in the last 24h", remedy: "see why, then requeue or purge them: bellhop dead list order.ledger"},
		{check: "blocked", says: "order.ledger: dead letters bar 1 key; of acct-7, 1 blocked", remedy: "see why, then requeue or purge what bars: bellhop keys order.ledger"},
		{check: "groups", says: "rows:g: 2 dead letters hold back done:x", remedy: "bellhop find 'topic:rows group:g state:dead' --requeue"},
		{check: "branches", says: "1 wait at order.paid, which has branches ship, points", remedy: "bellhop work order.paid@ship"},
		{check: "leases", says: "mail: w-hangs has had hangs for 20m", remedy: "if it hangs: bellhop cancel mail hangs --stop"},
		{check: "listeners", says: "warehouse: is 1h behind, nobody listens", remedy: "listen again: bellhop listen 'stock.changed' --name warehouse"},
		{check: "pushes", says: "crm: its endpoint fails since 1h ago", remedy: "bellhop push test crm"},
		{check: "pushes", says: "held: it is paused, by ops", remedy: "bellhop push resume held"},
		{check: "schedules", says: "order.bills daily: it misses", remedy: "start it anew: bellhop schedule resume order.bills daily"},
		{check: "memory", says: "without a limit", remedy: "run CONFIG SET maxmemory 2gb", isAdvice: true},
		{check: "standby", says: "none: if the carrier's machine fails", remedy: "run a second daemon on another machine", isAdvice: true},
	}},
	"nobody carries": {uncarried, []found{
		{check: "carrier", says: "none is elected, so what is scheduled does not become due", remedy: "start one: bellhop serve"},
		{check: "behind", says: "1 topic with overdue messages that are not ready yet; the oldest is of bills, due 1h ago", remedy: "see the check of the carrier above"},
		{check: "persistence", says: "none: a restart of Redis loses all messages", remedy: doctor.KeepRemedy},
	}},
	"what is configured": {misset, []found{
		{check: "settings", says: `for all topics: unreadable settings: "attempts=many"`, remedy: "run bellhop doctor --repair"},
		{check: "nats", says: "away: ", remedy: "start NATS there"},
		{check: "archive", says: "is up, and no daemon archives there: 0 wait", remedy: "start one with BELLHOP_ARCHIVE_URL: bellhop serve"},
		{check: "outbox", says: "has no outbox", remedy: "bellhop outbox install --url "},
	}},
	"a Cluster without a master": {masterAway, []found{
		{check: "reachable", says: "connection refused", remedy: "start Redis there (systemctl start redis-server)"},
		{check: doctor.Shards, says: "while one master is away, all others refuse calls, too", remedy: "run CONFIG SET cluster-require-full-coverage no on each node", isAdvice: true},
		{check: "replicas", says: "1 connected, but nothing waits for them", remedy: "set BELLHOP_WAIT_REPLICAS=1", isAdvice: true},
	}},
	"one node of a Cluster": {oneNode, []found{
		{check: "cluster", says: "this is one node of a Redis Cluster, used as if it were all of it", remedy: "name several of the Cluster's nodes in BELLHOP_REDIS_URL"},
	}},
	"a Redis that evicts": {evicting, []found{
		{check: "eviction", says: "maxmemory-policy allkeys-lru, limit 1.00G: messages may be evicted", remedy: "run CONFIG SET maxmemory-policy noeviction"},
	}},
	"the trial server": {func(t *testing.T) *visitor {
		_, db := storetest.Trial(t, "trial")
		return serve(t, db, httpapi.Options{}).visitor()
	}, []found{
		{check: "version", says: "the trial server of bellhop dev", remedy: "use Redis 7.0 or newer, or Valkey, for messages that matter", isAdvice: true},
	}},
	"an older format": {func(t *testing.T) *visitor { return older(t).visitor() }, []found{
		{check: doctor.Format, says: "9, and this version works with 10, which adds the outbox, groups, and branches", remedy: "bellhop upgrade", isAdvice: true},
	}},
	"a clock": {func(t *testing.T) *visitor {
		server, _ := ahead(t, 5*time.Second)
		return serve(t, storetest.At(t, server.URL(), "clock"), httpapi.Options{}).visitor()
	}, []found{
		{check: "clock", says: "Redis's clock is 5s ahead of this host's", remedy: "run an NTP client on both hosts"},
	}},
}

// notLooked are the checks that bellhop doctor alone makes: they write, or read all keys.
var notLooked = []string{"rights", "pub/sub round trip", "functions", doctor.Contents}

// Each finding of the doctor is on the first page with its remedy: what is not made here, no page shows.
func TestEachFindingIsOnTheFirstPage(t *testing.T) {
	t.Parallel()
	made := make(map[string]bool)
	for name, s := range sick {
		for _, f := range s.finds {
			made[f.check] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := s.opens(t)
			for _, f := range s.finds {
				v.finds(f)
			}
			for _, one := range listed.FindAllStringSubmatch(v.get("/ui/carriers").body, -1) {
				if check := one[1]; !made[check] || !strings.Contains(one[2], "→") {
					t.Errorf("the doctor finds %s, which is not made here, or has no remedy: %s", check, one[2])
				}
			}
		})
	}
	for _, check := range doctor.Checks() {
		if made[check] == slices.Contains(notLooked, check) {
			t.Errorf("%s: make something here that the check finds, unless bellhop doctor alone makes it", check)
		}
	}
}

var listed = regexp.MustCompile(`<li>.*<strong>([^<]+)</strong>: (.*)</li>`)

// finds waits until the first page, or for advice the page to which it leads, has a finding with its remedy.
func (v *visitor) finds(f found) {
	v.t.Helper()
	path, pattern := "/ui/", `<p class="(?:large|also) [^\n]*">%s: [^\n]*%s[^\n]*</a></p>\n<p class="mends">[^\n]*→</span> [^\n]*%s`
	if f.isAdvice {
		wait(v.t, v, path, `<a href="carriers">advice</a>`)
		advised := regexp.MustCompile(`advice</a> on how this is set up: (.*)\.</p>`)
		if got := v.get(path).field(advised); !slices.Contains(strings.Split(got, ", "), f.check) {
			v.t.Errorf("it advises on %s, and not on %s", got, f.check)
		}
		path, pattern = "/ui/carriers", `<strong>%s</strong>: [^\n]*%s[^\n]*→</span> [^\n]*%s`
	}
	want := regexp.MustCompile(fmt.Sprintf(pattern, regexp.QuoteMeta(f.check), regexp.QuoteMeta(f.says), regexp.QuoteMeta(f.remedy)))
	var page shown
	if !storetest.Poll(50*time.Millisecond, storetest.Deadline, func() bool {
		page = v.get(path)
		return want.MatchString(html.UnescapeString(page.body))
	}) {
		v.t.Errorf("%s does not say %s: %s → %s: %.5000s", path, f.check, f.says, f.remedy, page.body)
	}
}

// uncarried is a site where nobody makes ready what is due.
func uncarried(t *testing.T) *visitor {
	db := storetest.Open(t)
	storetest.Publish(t, db, notify.Message{Topic: "bills", Delay: time.Hour})
	keys := db.KeysOf("bills")
	ageIn(t, db, keys.Scheduled("bills"), keys.ScheduledTopics(), "bills")
	return serve(t, db, httpapi.Options{}).visitor()
}

// misset is a site with settings that cannot be read, and with a NATS, an archive and an outbox that do not work.
func misset(t *testing.T) *visitor {
	db, url := storetest.Open(t), databasetest.Database(t)
	storetest.Publish(t, db, message("order.a", "x"))
	storetest.Must(t, db.Client().HSet(t.Context(), db.KeysOfAll()[0].Topics(), "*:settings", " attempts=many").Err())
	return serve(t, db, httpapi.Options{Doctor: doctor.Options{
		NATS: natsgate.Options{URL: "nats://127.0.0.1:1"}, Archive: archive.Options{URL: url, Room: 10},
		Outboxes: []outbox.Options{{Address: database.Address{URL: url}, MaxBody: notify.DefaultMaxBody}},
	}}).visitor()
}

// masterAway is a site on a Cluster of which a master is killed that does not say what the store is.
func masterAway(t *testing.T) *visitor {
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, time.Hour) // nobody takes over
	storetest.Must(t, err)
	t.Cleanup(cluster.Stop)
	db := storetest.Unhurried(storetest.With(t, notify.Config{URL: cluster.URL(), Shards: 8}))
	storetest.Found(t, db)
	root, err := db.Root(t.Context())
	storetest.Must(t, err)
	home, err := db.Home().Site(t.Context())
	storetest.Must(t, err)
	other := slices.IndexFunc(cluster.Masters, func(s *redisserver.Server) bool { return s.Addr() != root.Server && s.Addr() != home.Server })
	cluster.Masters[other].Kill()
	return serve(t, db, httpapi.Options{}).visitor()
}

// oneNode is a site on a Cluster of one node, which is used as if it were none.
func oneNode(t *testing.T) *visitor {
	server := storetest.Server(t, "--appendonly", "yes", "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(storetest.Port(t)))
	admin := adminOf(t, server)
	storetest.Must(t, admin.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	storetest.Eventually(t, "the Cluster works", func() bool { return admin.Set(t.Context(), "k", "v", 0).Err() == nil })
	db := storetest.At(t, server.URL(), "node")
	storetest.Publish(t, db, message("order.a", "x"))
	return serve(t, db, httpapi.Options{}).visitor()
}

// evicting is a site on a Redis that may evict messages since a short while.
func evicting(t *testing.T) *visitor {
	server := storetest.Server(t, "--appendonly", "yes", "--maxmemory", "1gb", "--maxmemory-policy", "noeviction")
	db := storetest.At(t, server.URL(), "evicts")
	storetest.Found(t, db)
	storetest.Must(t, adminOf(t, server).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	return serve(t, db, httpapi.Options{}).visitor()
}

// older is a site with a store that an older version founded.
func older(t *testing.T) *site {
	db := storetest.Open(t)
	storetest.Found(t, db)
	for _, keys := range db.KeysOfAll() {
		text, err := db.Client().Get(t.Context(), keys.Format()).Result()
		storetest.Must(t, err)
		storetest.Must(t, db.Client().Set(t.Context(), keys.Format(), "9"+strings.TrimPrefix(text, "10"), 0).Err())
	}
	return serve(t, storetest.At(t, storetest.URL(), db.Prefix()), httpapi.Options{})
}

// ahead starts a redis-server whose clock is ahead of this host's. It returns the folder by which machine.SetClock sets that.
func ahead(t *testing.T, by time.Duration, args ...string) (server *redisserver.Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	under, err := machine.Clock(t.Context(), dir, by)
	storetest.Must(t, err)
	server, err = redisserver.Start(t.Context(), redisserver.Options{Dir: dir, Under: under, Args: append([]string{"--appendonly", "yes"}, args...)})
	storetest.Must(t, err)
	t.Cleanup(server.Stop)
	return server, dir
}

// adminOf returns a client of a server.
func adminOf(t *testing.T, server *redisserver.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return client
}

// The store is upgraded by the button of the finding, once it was said whom that shuts out.
func TestUpgradeFromThePage(t *testing.T) {
	t.Parallel()
	s := older(t)
	v := s.visitor()
	const page, act = "/ui/carriers", "/ui/acts/upgrade"
	wait(t, v, page, `formaction="acts/upgrade" name="upgrade" value="yes">Upgrade`)
	v.act(page, act, "upgrade", "yes").is(http.StatusOK).says("Upgrade the store from format 9 to 10, which adds the outbox, groups, and branches? It shuts out older programs")
	format := func(want int) {
		t.Helper()
		if got, err := s.store.FormatOf(t.Context()); err != nil || got != want {
			t.Errorf("the format is %d, %v, want %d", got, err, want)
		}
	}
	format(9)
	v.act(page, act, "upgrade", "yes", "sure", "1").did("Upgraded the store to format 10", page)
	format(10)
	storetest.Eventually(t, "the finding is gone", func() bool {
		body := v.get(page).body
		return strings.Contains(body, "As of ") && !strings.Contains(body, "acts/upgrade\" name")
	})
	v.act(page, act, "upgrade", "yes").is(http.StatusConflict).says("There is nothing to upgrade")
}

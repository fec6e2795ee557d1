package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/archive/archivetest"
	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/database/databasetest"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/daemon/push"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// A night is a site of which nothing is wrong, until something breaks.
type night struct {
	t      *testing.T
	server *redisserver.Server
	clock  string // the folder of the server's clock
	store  *notify.Store
	o      httpapi.Options
	onTerm func(context.Context, carrier.Term)
	resign func()
}

// nightFaults are what breaks at night, and what the first page then says. Each returns what breaks it.
var nightFaults = []struct {
	name   string
	begins func(n *night) (breaks func())
	says   []string
}{
	{"Redis refuses", func(n *night) func() { return n.server.Kill }, []string{"Redis cannot be reached", "connection refused; start Redis there"}},
	{"Redis hangs", func(n *night) func() {
		n.t.Cleanup(func() { _ = n.server.Signal(syscall.SIGCONT) })
		return func() { storetest.Must(n.t, n.server.Signal(syscall.SIGSTOP)) }
	}, []string{"Redis cannot be reached", "Redis accepts connections and does not answer"}},
	{"Redis takes no writes", func(n *night) func() {
		return func() { storetest.Must(n.t, n.server.Follow(n.t.Context(), "127.0.0.1", "1")) }
	}, []string{"READONLY", "; set BELLHOP_REDIS_URL to its master"}},
	{"Redis is full", func(n *night) func() {
		return func() { storetest.Must(n.t, adminOf(n.t, n.server).ConfigSet(n.t.Context(), "maxmemory", "1mb").Err()) }
	}, []string{">memory: ", "publishes are refused", "start workers, purge dead letters, or raise maxmemory"}},
	{"Redis has another password", func(n *night) func() {
		return func() {
			admin := adminOf(n.t, n.server)
			storetest.Must(n.t, errors.Join(admin.ConfigSet(n.t.Context(), "requirepass", "new").Err(), admin.ClientKillByFilter(n.t.Context(), "TYPE", "normal").Err()))
		}
	}, []string{"NOAUTH", "; check BELLHOP_REDIS_URL, BELLHOP_REDIS_USERNAME and BELLHOP_REDIS_PASSWORD_FILE"}},
	{"nobody carries", func(n *night) func() { return func() { n.resign() } }, []string{">carrier: none is elected, so what is scheduled does not become due", "start one: bellhop serve"}},
	{"a worker hangs", func(n *night) func() {
		return func() {
			storetest.Publish(n.t, n.store, notify.Message{Topic: "mail", ID: "hangs"})
			hang(n.t, n.store, "mail")
		}
	}, []string{">leases: mail: w-hangs has had hangs for 20m", "Stop hangs"}},
	{"a worker fails", (*night).workerFails, []string{">failing: mail: the last ", " attempts of x failed, the newest ", " ago by w-fails: no such customer", "bellhop inspect mail x"}},
	{"a limit is full", (*night).limitIsFull, []string{">overdue: mail: oldest due 1h ago, 1 ready, 1 of at most 1 leased", "bellhop topics set mail concurrency=N"}},
	{"a key is barred", func(n *night) func() {
		storetest.Set(n.t, n.store, "ledger", notify.SettingsChange{OnDead: new("stop")})
		return func() {
			storetest.Publish(n.t, n.store, notify.Message{Topic: "ledger", Key: "acct-7"}, notify.Message{Topic: "ledger", Key: "acct-7"})
			buryAll(n.t, n.store, "ledger", "because")
		}
	}, []string{">blocked: ledger: dead letters bar 1 key; of acct-7, 1 blocked", "Show the key acct-7"}},
	{"a push fails", (*night).pushFails, []string{">pushes: crm: its endpoint fails since", "HTTP 500 Internal Server Error", ">Test<"}},
	{"NATS is away", (*night).natsIsAway, []string{">nats: away: ", "start NATS there"}},
	{"PostgreSQL is away", (*night).postgresIsAway, []string{">archive: away: ", ">outbox: away: ", "start PostgreSQL there"}},
	{"the clock is off", func(n *night) func() {
		return func() { storetest.Must(n.t, machine.SetClock(n.clock, 5*time.Second)) }
	}, []string{">clock: Redis's clock is 5s ahead of this host's", "run an NTP client on both hosts"}},
}

// The first page, on which nothing is wrong, names the cause of what breaks at night, with the remedy. The log has how long that took:
// an open page asks each second, and the doctor looks every ten.
func TestFirstPageNamesTheCauseByThirds(t *testing.T) {
	t.Parallel()
	for i, fault := range nightFaults {
		if !storetest.InThird(i) {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			n := &night{t: t}
			n.server, n.clock = ahead(t, 0, "--maxmemory", "256mb", "--maxmemory-policy", "noeviction")
			n.store = storetest.At(t, n.server.URL(), "night")
			storetest.Publish(t, n.store, notify.Message{Topic: "calm", Delay: time.Hour})
			breaks := fault.begins(n)
			n.resign = carryWith(t, n.store, n.onTerm)
			v := serve(t, n.store, n.o).visitor()
			wait(t, v, "/ui/", "Nothing is wrong")
			began := time.Now()
			breaks()
			var page shown
			isNamed := func() bool {
				page = v.get("/ui/")
				for _, text := range fault.says {
					if !strings.Contains(page.body, strings.ReplaceAll(text, "'", "&#39;")) {
						return false
					}
				}
				return true
			}
			if !storetest.Poll(200*time.Millisecond, storetest.Deadline, isNamed) {
				t.Fatalf("it does not say %q: %.5000s", fault.says, page.body)
			}
			t.Logf("named after %v", time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// workerFails has a worker fail each attempt of a message that has many left.
func (n *night) workerFails() (breaks func()) {
	worker, err := subscribers.NewSubscriber(n.store, subscribers.SubscriberOptions{Name: "w-fails", Logger: discard})
	storetest.Must(n.t, err)
	storetest.Must(n.t, worker.Handle("mail", func(context.Context, *subscribers.Delivery) error { return errors.New("no such customer") }))
	storetest.Run(n.t, worker.Run)
	return func() { storetest.Publish(n.t, n.store, notify.Message{Topic: "mail", ID: "x"}) }
}

// limitIsFull has a message wait that a limit keeps from the workers.
func (n *night) limitIsFull() (breaks func()) {
	storetest.Set(n.t, n.store, "mail", notify.SettingsChange{Concurrency: new(1)})
	return func() {
		storetest.Publish(n.t, n.store, message("mail", "x"), message("mail", "y"))
		claimOne(n.t, n.store, "mail")
		age(n.t, n.store, "mail")
	}
}

// pushFails has the endpoint of a push fail to which a daemon sends.
func (n *night) pushFails() (breaks func()) {
	var isBroken atomic.Bool
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if isBroken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	n.t.Cleanup(endpoint.Close)
	putPush(n.t, n.store, "crm", func(p *store.Push) { p.URL = endpoint.URL }, "paid")
	pusher, err := push.New(n.store, push.Options{Allow: "127.0.0.1", Logger: discard})
	storetest.Must(n.t, err)
	storetest.Run(n.t, pusher.Run)
	return func() {
		isBroken.Store(true)
		storetest.Publish(n.t, n.store, message("paid", "x"))
	}
}

// natsIsAway has the NATS of the configuration end.
func (n *night) natsIsAway() (breaks func()) {
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	storetest.Must(n.t, err)
	nats.Start()
	n.t.Cleanup(nats.Shutdown)
	storetest.Eventually(n.t, "nats is up", func() bool { return nats.ReadyForConnections(time.Millisecond) })
	n.o.Doctor.NATS.URL = "nats://" + nats.Addr().String()
	return nats.Shutdown
}

// postgresIsAway has the database of an archive and of an outbox end, which both work there.
func (n *night) postgresIsAway() (breaks func()) {
	postgres, url := databasetest.Server(n.t)
	at := database.Address{URL: url}
	_, err := outbox.Install(n.t.Context(), at, outbox.InstallOptions{})
	storetest.Must(n.t, err)
	n.o.Doctor.Archive = archive.Options{URL: url, Room: 10}
	n.o.Doctor.Outboxes = []outbox.Options{{Address: at, MaxBody: notify.DefaultMaxBody}}
	kept := archivetest.Open(n.t, n.store, n.o.Doctor.Archive)
	box, err := outbox.New(n.store, outbox.Options{Address: at})
	storetest.Must(n.t, err)
	n.t.Cleanup(box.Close)
	n.onTerm = func(ctx context.Context, term carrier.Term) {
		var both sync.WaitGroup
		both.Go(func() { kept.Term(ctx, term) })
		both.Go(func() { box.Term(ctx, term) })
		both.Wait()
	}
	return postgres.Stop
}

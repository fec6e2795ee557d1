package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/servers/child"
	"github.com/bellhopd/bellhop/notify/servers/machine"
	"github.com/bellhopd/bellhop/notify/servers/postgres"
	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
	"github.com/bellhopd/bellhop/notify/storetest"
)

const (
	carrierLease = 600 * time.Millisecond // short, since rounds are
	disk         = 48 << 20               // bytes for Redis's append-only file
	stream       = "FAULTS"               // JetStream stream of broadcasts
	deliveries   = "faults.deliveries"    // subject of NATS to which messages are pushed
)

// A world is the servers of a round and the crew that uses them.
type world struct {
	dir      string // of the histories and logs
	seed     uint64
	before   string        // program of the version before; empty: all are of the present one
	branches string        // of a topic; empty: there are none
	lease    time.Duration // of the carrier
	log      *history.Log  // of the harness

	upgraded atomic.Bool // to the newest format, so that no program of the version before can start

	fsync   string // of Redis
	machine *machine.Machine
	ahead   time.Duration // of its clock
	redis   *redisserver.Server
	watched *watched // in place of machine and redis, if Redis is replicated
	cluster *cluster // the same, if it is a Cluster

	database    *postgres.Server // of the archive; nil: there is none
	databaseLog *os.File

	nats      *member
	inspector *notify.Inspector
	store     *notify.Store // over a connection of its own, which no fault hits
	ports     map[string]int

	neighbour *world // in another database of this Redis; nil: there is none
	number    int    // of the database of a neighbour

	crew []*member
	busy sync.Map // name of a member → mutex, held while it has a fault

	watching sync.WaitGroup
	unwatch  context.CancelFunc
}

// newWorld starts the servers and two daemons with a carrier's lease, and returns when one of them carries.
func newWorld(ctx context.Context, dir string, p plan, lease time.Duration) (w *world, err error) {
	w = &world{dir: dir, seed: p.Seed, before: p.Before, branches: p.branches(), fsync: p.Fsync, ahead: p.Ahead, lease: lease, ports: make(map[string]int)}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.log, err = history.Open(filepath.Join(dir, "harness"+history.Suffix), "harness"); err != nil {
		return w, err
	}
	if err := w.startServers(ctx, p); err != nil {
		return w, err
	}
	if err := w.openStore(ctx); err != nil {
		return w, err
	}
	if err := w.startDaemons(ctx); err != nil || !p.Neighbour {
		return w, err
	}
	w.neighbour, err = newNeighbour(ctx, w)
	return w, err
}

// openStore opens the store for the harness, and records what beats in it.
func (w *world) openStore(ctx context.Context) (err error) {
	if err := w.foundBefore(ctx); err != nil {
		return err
	}
	if w.store, err = notify.Open(w.config()); err != nil {
		return err
	}
	if w.inspector, err = notify.NewInspector(w.store); err != nil {
		return err
	}
	if err := w.setDefaults(ctx); err != nil {
		return err
	}
	if err := w.startTicks(ctx); err != nil {
		return err
	}
	if w.nats != nil {
		if err := w.store.Home().PutPush(ctx, store.Push{Name: "couriers", Topics: []string{deliveredTopic}, To: "nats:" + deliveries, Timeout: natsTimeout}); err != nil {
			return err
		}
	}
	w.watch(ctx)
	return nil
}

// config returns the configuration of the harness, which has all rights.
func (w *world) config() notify.Config {
	switch {
	case w.watched != nil:
		return w.watched.config()
	case w.cluster != nil:
		return w.cluster.config("")
	}
	return notify.Config{URL: w.redis.URL() + w.path()}
}

// path returns the number of the database as the end of a URL.
func (w *world) path() string {
	if w.number == 0 {
		return ""
	}
	return "/" + strconv.Itoa(w.number)
}

// setDefaults sets the topic settings of the daemons' configuration, which daemons set only after they carry, and limits of a topic.
func (w *world) setDefaults(ctx context.Context) error {
	_, err := w.inspector.Set(ctx, notify.AllTopics, notify.SettingsChange{
		Lease: new(lease), BackoffMin: new(quickest), BackoffMax: new(slowest), Attempts: new(store.DefaultAttempts), // of messages alone
	})
	if err != nil {
		return err
	}
	_, err = w.inspector.Set(ctx, limitedTopic, notify.SettingsChange{
		Concurrency: new(limits.Concurrency), Rate: new(record.Rate(limits.PerSecond) * record.PerSecond), Burst: new(limits.Burst),
	})
	if err != nil || w.branches == "" {
		return err
	}
	_, err = w.inspector.Set(ctx, branchedTopic, notify.SettingsChange{Branches: &w.branches})
	return err
}

// startServers starts Redis, NATS, and the database of an archive.
func (w *world) startServers(ctx context.Context, p plan) (err error) {
	for _, server := range []string{"nats", "daemon-1", "daemon-2", hook} {
		if err := w.place(server); err != nil {
			return err
		}
	}
	start := w.startRedis
	switch {
	case p.Replicated:
		start = w.startWatched
	case p.Sharded:
		start = w.startCluster
	}
	if err := start(ctx); err != nil {
		return err
	}
	if p.Archived {
		if err := w.startDatabase(ctx); err != nil {
			return err
		}
	}
	if p.relays() {
		if err := w.startOutbox(ctx); err != nil {
			return err
		}
	}
	w.nats = &member{w: w, name: "nats", program: func(*member) child.Program {
		return child.Program{Path: os.Args[0], Env: append(os.Environ(),
			"FAULTS_ROLE=nats", "FAULTS_PORT="+strconv.Itoa(w.ports["nats"]), "FAULTS_DIR="+filepath.Join(w.dir, "nats"))}
	}}
	if err := w.nats.start(); err != nil {
		return err
	}
	return w.nats.ready()
}

// place reserves a port and makes a folder for a server.
func (w *world) place(server string) (err error) {
	if w.ports[server], err = child.HoldPort(); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(w.dir, server), 0o755)
}

// startRedis starts a Redis on a machine of its own.
func (w *world) startRedis(ctx context.Context) (err error) {
	if err := w.place("redis"); err != nil {
		return err
	}
	if w.machine, err = machine.New(ctx, filepath.Join(w.dir, "redis"), library, disk); err != nil {
		return err
	}
	if err := w.skew(); err != nil {
		return err
	}
	w.redis, err = redisserver.Start(ctx, w.machine.Options(redisserver.Options{
		Port: w.ports["redis"], Args: append([]string{"--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"}, userArguments(1, neighbours)...),
	}))
	return err
}

// startWatched starts a master, its replica and sentinels.
func (w *world) startWatched(ctx context.Context) (err error) {
	w.watched, err = startWatched(ctx, w.dir, w.fsync)
	return err
}

// startCluster starts a Cluster.
func (w *world) startCluster(ctx context.Context) (err error) {
	dir := filepath.Join(w.dir, clustered)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	w.cluster, err = startCluster(ctx, dir, w.fsync)
	return err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// startDaemons starts the daemons, and waits until each shard is carried and bridged.
func (w *world) startDaemons(ctx context.Context) error {
	for _, name := range []string{"daemon-1", "daemon-2"} {
		if err := w.enlist(name, daemonProgram); err != nil {
			return err
		}
	}
	if err := until("a carrier is elected and bridges to NATS", func() bool {
		return !slices.ContainsFunc(w.store.KeysOfAll(), func(keys script.Keys) bool {
			n, err := w.store.Client().Exists(ctx, keys.Carrier(), keys.Bridge()).Result()
			return err != nil || n < 2
		})
	}); err != nil || w.database == nil {
		return err
	}
	return w.awaitArchive(ctx)
}

// startCrew starts receivers, waits until they are ready, and starts publishers, and those of a neighbour. Until all are ready appendfsync
// is always: a power cut must not take a name that has just been registered.
func (w *world) startCrew(ctx context.Context) error {
	if err := w.startHook(ctx); err != nil {
		return err
	}
	for _, name := range []string{"worker-1", "worker-2", "listener-1", "listener-2", "web-1", "courier-1"} {
		if err := w.enlist(name, actorProgram); err != nil {
			return err
		}
	}
	for _, name := range []string{"command-1", "command-2"} {
		if err := w.enlist(name, workProgram); err != nil {
			return err
		}
	}
	for _, name := range packaged {
		if err := w.enlist(name, packageProgram); err != nil {
			return err
		}
	}
	receivers := w.crew[2:]
	for _, m := range receivers {
		if err := m.ready(); err != nil {
			return err
		}
	}
	for _, name := range []string{"publisher-1", "publisher-2"} {
		if err := w.enlist(name, actorProgram); err != nil {
			return err
		}
		if err := w.member(name).ready(); err != nil {
			return err
		}
	}
	if w.neighbour != nil {
		if err := w.neighbour.lodge(); err != nil {
			return err
		}
	}
	return w.ask(ctx, "CONFIG SET appendfsync "+w.fsync)
}

// enlist starts a member of the crew, with links of its own.
func (w *world) enlist(name string, program func(*member) child.Program) (err error) {
	m := &member{w: w, name: name, program: program, links: make(map[string]*link)}
	for server, port := range w.ports {
		if m.links[server], err = newLink(address(port)); err != nil {
			return err
		}
	}
	w.crew = append(w.crew, m)
	if roleOf(name) == "command" {
		if err := m.giveCommand(); err != nil {
			return err
		}
	}
	return m.start()
}

// config returns a member's configuration of Redis.
func (m *member) config() notify.Config {
	as := user + ":" + password + "@"
	switch {
	case m.w.watched != nil:
		return m.w.watched.config()
	case m.w.cluster != nil:
		return m.w.cluster.config(as)
	}
	return notify.Config{URL: "redis://" + as + m.links["redis"].addr() + m.w.path()}
}

// storeEnv returns the environment of a bellhop for its store.
func (m *member) storeEnv() []string {
	return environment(m.config())
}

// environment returns the environment of a bellhop for a store.
func environment(c notify.Config) []string {
	env := append(os.Environ(), "BELLHOP_REDIS_URL="+c.URL, "BELLHOP_REDIS_MASTER="+c.Master, "BELLHOP_WAIT_REPLICAS="+strconv.Itoa(c.WaitReplicas))
	if c.Shards > 0 {
		env = append(env, "BELLHOP_SHARDS="+strconv.Itoa(c.Shards))
	}
	return env
}

// daemonProgram returns the program bellhop serve.
func daemonProgram(m *member) child.Program {
	return child.Program{Path: m.bellhop(), Args: []string{"serve"}, Env: append(slices.Concat(m.storeEnv(), m.natsEnv(), m.outboxEnv()),
		"BELLHOP_LISTEN="+address(m.w.ports[m.name]), "BELLHOP_ARCHIVE_URL="+m.archiveURL(), "BELLHOP_PUSH_ALLOW=127.0.0.1",
		"BELLHOP_CARRIER_LEASE="+m.w.lease.String(), "BELLHOP_LEASE="+lease.String(), "BELLHOP_SHUTDOWN_TIMEOUT=5s",
		"BELLHOP_MAX_ATTEMPTS="+strconv.Itoa(hookedAttempts), "BELLHOP_BACKOFF_MIN="+quickest.String(), "BELLHOP_BACKOFF_MAX="+slowest.String())}
}

// natsEnv returns the environment of a daemon for NATS.
func (m *member) natsEnv() []string {
	if m.w.nats == nil {
		return nil
	}
	return []string{"BELLHOP_NATS_URL=nats://" + m.links["nats"].addr(), "BELLHOP_NATS_JETSTREAM=" + stream}
}

// actorProgram returns the test binary in the role in the member's name.
func actorProgram(m *member) child.Program {
	role, number, _ := strings.Cut(m.name, "-")
	n, _ := strconv.Atoi(number)
	c := m.config()
	return child.Program{Path: os.Args[0], Env: append(os.Environ(),
		"FAULTS_ROLE="+role, "FAULTS_NAME="+m.name, "FAULTS_PROCESS="+m.id(), "FAULTS_DIR="+m.w.dir,
		"FAULTS_SEED="+strconv.FormatUint(m.w.seed+uint64(100*n+m.life), 10),
		"FAULTS_REDIS="+c.URL, "FAULTS_MASTER="+c.Master, "FAULTS_REPLICAS="+strconv.Itoa(c.WaitReplicas), "FAULTS_SHARDS="+strconv.Itoa(c.Shards),
		"FAULTS_DATABASE="+strconv.Itoa(m.w.number), "FAULTS_BRANCHES="+m.w.branches, "FAULTS_OUTBOX="+m.outboxURL(), "FAULTS_HOOK="+address(m.w.ports[hook]),
		"FAULTS_NATS=nats://"+m.addr("nats"), "FAULTS_HTTP=http://"+m.addr("daemon-1")+",http://"+m.addr("daemon-2"))}
}

// addr returns the address of a server over a member's link, empty if it has none.
func (m *member) addr(server string) string {
	if m.links[server] == nil {
		return ""
	}
	return m.links[server].addr()
}

// member returns the member of the crew with a name.
func (w *world) member(name string) *member {
	i := slices.IndexFunc(w.crew, func(m *member) bool { return m.name == name })
	return w.crew[i]
}

// carrier waits for an elected carrier of the first shard, and returns its daemon and epoch.
func (w *world) carrier(ctx context.Context) (carries *member, epoch int64, err error) {
	err = until("a carrier is elected", func() bool {
		s, err := carrier.Look(ctx, w.store.Home())
		for _, m := range w.crew[:2] {
			if err == nil && m.isCarrier(s) {
				carries, epoch = m, s.Epoch
			}
		}
		return carries != nil
	})
	return carries, epoch, err
}

// isCarrier reports whether a daemon is the carrier in a state.
func (m *member) isCarrier(s carrier.Status) bool {
	return strings.HasSuffix(s.Name, fmt.Sprintf(":%d", m.running().Pid()))
}

// terms returns what a daemon carries of several shards, in the form of records. It leaves
// out what is not known, because a server is away.
func (w *world) terms(ctx context.Context, m *member) (string, error) {
	shards, err := w.store.Shards(ctx)
	var all []string
	for _, shard := range shards {
		ctx, stop := context.WithTimeout(ctx, answerTimeout)
		s, err := carrier.Look(ctx, shard)
		if stop(); err == nil && m.isCarrier(s) {
			all = append(all, fmt.Sprintf("%d:%d", shard.Number(), s.Epoch))
		}
	}
	return strings.Join(all, ","), err
}

// watch records the beats of each shard, over connections of their own to the masters, until
// unwatch.
func (w *world) watch(ctx context.Context) {
	ctx, w.unwatch = context.WithCancel(ctx)
	for number, keys := range w.store.KeysOfAll() {
		w.watching.Go(func() {
			for ctx.Err() == nil {
				w.recordBeats(ctx, number, keys)
				rest(ctx, 10*time.Millisecond)
			}
		})
	}
}

// recordBeats records the beats of a shard until the connection fails. In a Cluster it also
// ends when nothing beats, since a former master may not say that it is one.
func (w *world) recordBeats(ctx context.Context, number int, keys script.Keys) {
	sub, end, silence := w.store.Client().Subscribe(ctx, w.store.Heard(keys.Beat())), func() {}, time.Duration(0)
	if w.cluster != nil {
		var err error
		if sub, end, err = w.cluster.hear(ctx, keys, keys.Beat()); err != nil {
			return
		}
		silence = 2 * reach.Heartbeat
	}
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	defer end()
	defer sub.Close()
	for {
		got, err := sub.ReceiveTimeout(ctx, silence)
		if err != nil {
			return
		}
		switch m := got.(type) {
		case *redis.Message:
			fields := strings.Fields(m.Payload)
			epoch, _ := strconv.ParseInt(fields[0], 10, 64)
			at, _ := strconv.ParseInt(fields[1], 10, 64)
			w.log.Event(history.Record{Op: history.Beat, Shard: number, Epoch: epoch, Redis: at * 1000})
		case *redis.Subscription:
			if m.Kind == "sunsubscribe" {
				return
			}
		}
	}
}

// stop stops the members of a role by SIGTERM.
func (w *world) stop(role string) error {
	var errs []error
	for _, m := range w.crew {
		if !strings.HasPrefix(m.name, role) {
			continue
		}
		select {
		case <-m.running().Done():
			errs = append(errs, fmt.Errorf("%s ended by itself, see %s.log", m.id(), m.id()))
		default:
			errs = append(errs, m.term(0))
		}
	}
	return errors.Join(errs...)
}

// drain stops publishing, and waits until all messages are settled and all broadcasts received.
func (w *world) drain(ctx context.Context) error {
	if err := w.stop("publisher"); err != nil {
		return err
	}
	for _, m := range w.crew {
		if m.name != "web-1" && m.name != "courier-1" {
			continue
		}
		if err := m.running().Signal(syscall.SIGUSR1); err != nil {
			return fmt.Errorf("stop the publishing of %s: %w", m.name, err)
		}
	}
	if err := w.emptyOutbox(ctx); err != nil {
		return err
	}
	var left []notify.Counts
	if err := until("every message is settled", func() bool {
		counts, err := storetest.Collect(w.inspector.Topics(ctx))
		left = slices.DeleteFunc(counts, func(c notify.Counts) bool {
			held, wrong := w.held(ctx, c.Topic)
			err = errors.Join(err, wrong)
			return c.Scheduled+c.Ready+c.Blocked+c.Leased+c.Broadcasts == held
		})
		return err == nil && len(left) == 0
	}); err != nil {
		return fmt.Errorf("%w; left: %+v", err, left)
	}
	if err := w.sendFences(ctx); err != nil {
		return err
	}
	for _, m := range w.crew {
		if err := until(m.name+" has received all", m.hasFences); err != nil {
			return err
		}
	}
	for _, name := range w.names() {
		if err := until(name+" has all", func() bool { return w.hasAll(ctx, name) }); err != nil {
			return err
		}
	}
	if w.nats != nil {
		if err := w.readStream(ctx); err != nil {
			return err
		}
	}
	w.log.Event(history.Record{Op: history.Drained})
	return nil
}

// sendFences sends the last broadcast of each topic.
func (w *world) sendFences(ctx context.Context) error {
	pub, err := notify.NewPublisher(w.store)
	if err != nil {
		return err
	}
	for _, topic := range broadcastTopics {
		op := w.log.Call(history.Record{Op: history.Broadcast, Topic: topic, ID: fence + "-" + topic})
		result, err := pub.Broadcast(ctx, notify.Message{Topic: topic, ID: fence + "-" + topic, Body: []byte("x")})
		published(op, result, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// hasFences reports whether all listeners of a process have received the last broadcasts.
func (m *member) hasFences() bool {
	role, _, _ := strings.Cut(m.name, "-")
	for _, pattern := range patterns[role] {
		p, err := notify.ParsePattern(pattern)
		for _, topic := range broadcastTopics {
			if err != nil || p.Match(topic) && !m.said(m.name+"/"+pattern+" "+fence+"-"+topic) {
				return false
			}
		}
	}
	return true
}

// names returns under which names processes listen.
func (w *world) names() []string {
	if w.number > 0 { // of a neighbour, whose daemon pushes nothing
		return []string{shared}
	}
	return []string{shared, announcing.Listener()}
}

// hasAll reports whether a name has handled the last broadcasts.
func (w *world) hasAll(ctx context.Context, name string) bool {
	client := w.store.Client()
	for _, topic := range broadcastTopics {
		keys := w.store.KeysOf(topic)
		held, err := client.Exists(ctx, keys.Held(name)).Result()
		if err != nil || held > 0 {
			return false
		}
		last, err := client.ZScore(ctx, keys.Logs(), topic).Result()
		at, missing := client.HGet(ctx, keys.Places(name), topic).Float64()
		if err != nil || missing != nil || at < last {
			return false
		}
	}
	return true
}

// readStream waits for the last broadcasts in the stream, and records its contents.
func (w *world) readStream(ctx context.Context) error {
	conn, err := nats.Connect(address(w.ports["nats"]), nats.Timeout(storetest.Deadline))
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	kept, err := awaitStream(ctx, js)
	if err != nil {
		return err
	}
	held, err := kept.Info(ctx)
	if err != nil {
		return fmt.Errorf("inspect the stream: %w", err)
	}
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	for left := int(held.State.Msgs); left > 0; {
		page, err := consumer.Fetch(min(left, 500), jetstream.FetchMaxWait(patience))
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		for m := range page.Messages() {
			left--
			w.log.Event(history.Record{Op: history.Store, Topic: m.Headers().Get("ce-type"), ID: m.Headers().Get("ce-id")})
		}
		if err := page.Error(); err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
	}
	return nil
}

// awaitStream waits until the stream holds the last broadcasts.
func awaitStream(ctx context.Context, js jetstream.JetStream) (kept jetstream.Stream, err error) {
	err = until("the stream has all", func() bool {
		found, err := js.Stream(ctx, stream)
		if err != nil {
			return false
		}
		for _, topic := range broadcastTopics {
			last, err := found.GetLastMsgForSubject(ctx, "bellhop.broadcast."+topic)
			if err != nil || last.Header.Get("ce-id") != fence+"-"+topic {
				return false
			}
		}
		kept = found
		return true
	})
	return kept, err
}

// close ends all processes that still run.
func (w *world) close() {
	all := w.crew
	if w.nats != nil {
		all = append(all, w.nats)
	}
	for _, m := range all {
		if p := m.running(); p != nil {
			p.Kill()
		}
		for _, k := range m.links {
			k.close()
		}
		if m.outlet != nil {
			m.outlet.close()
		}
	}
	if w.unwatch != nil {
		w.unwatch()
		w.watching.Wait()
	}
	if w.store != nil {
		w.store.Close()
	}
	if w.neighbour != nil {
		w.neighbour.close()
	}
	if w.redis != nil && w.number == 0 {
		w.redis.Kill()
	}
	if w.database != nil {
		w.database.Close()
	}
	if w.databaseLog != nil {
		w.databaseLog.Close()
	}
	if w.watched != nil {
		w.watched.close()
	}
	if w.cluster != nil {
		w.cluster.close()
	}
	if w.machine != nil {
		w.machine.Close()
	}
	if w.log != nil {
		w.log.Close()
	}
}

package metrics

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// redisState shows what Redis keeps, and the connections to it.
type redisState struct {
	store     *notify.Store
	inspector *notify.Inspector
	topics    *topics
	fresh     time.Duration

	last cache.Value[*reading]

	rounds []groupRound // by the number of the shard; used while last is read

	took, known, claimed, death, lease, unsent, shards, layout, groups *prometheus.Desc

	pool    []figure[*redis.PoolStats]
	byTopic []topicFigure
	overdue *prometheus.Desc // among byTopic
}

// A reading is an answer of Redis. Scrapes that come while it is awaited, or soon
// after, share it.
type reading struct {
	up     bool // at least one shard answered
	took   time.Duration
	shards []shardReading // while their number is not known, one that did not answer
	topics int64
	recurs bool // there are schedules, or were

	grouped bool // there are groups
	counts  []notify.Counts
	deaths  map[string]time.Time // newest deaths, by label
	leases  map[string]time.Duration
	unsent  []string // pushes that no daemon sends
}

// several reports whether the store has several shards.
func (r *reading) several() bool { return len(r.shards) > 1 }

// A shardReading is what a shard answered.
type shardReading struct {
	up        bool
	status    carrier.Status
	published int64 // ever; only of one of several shards
	server    string
	memory    *reach.Memory // of the server; nil: another shard has it
	schedules store.ScheduleSums
	groups    map[store.GroupState]int64 // nil: not all were seen yet
}

type topicFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(notify.Counts) float64
	of    shownOf
	extra []string // values of the labels after that of the topic
}

const (
	overdueName = "bellhop_oldest_overdue_seconds"
	overdueHelp = "How long the oldest ready message of a topic has been due. For other: paused topics excepted."
)

// shownOf says for which topics a figure is shown.
type shownOf int

const (
	ofAll   shownOf = iota
	ofNamed         // topics with a label of their own: the others have no total
	ofOther
)

func (o shownOf) takes(label string) bool { return o == ofAll || (o == ofOther) == (label == other) }

func newRedis(db *notify.Store, inspector *notify.Inspector, t *topics, fresh time.Duration) *redisState {
	overdue := desc(overdueName, overdueHelp, "topic")
	return &redisState{
		store: db, topics: t, fresh: fresh, inspector: inspector,
		took:    desc("bellhop_redis_scrape_seconds", "How long Redis took to answer this scrape."),
		shards:  desc("bellhop_shards", "Shards of the store; missing while their number is not known."),
		layout:  desc("bellhop_layout_epoch", "Number of the layout of the store, which grows when the number of its shards changes."),
		known:   desc("bellhop_topics", "Topics that Bellhop knows."),
		claimed: desc("bellhop_claimed_total", "Messages that this process handed out, over HTTP and NATS.", "topic"),
		death:   desc("bellhop_newest_death_timestamp_seconds", "When the newest dead letter of a topic died; shown for the topics with the newest ones.", "topic"),
		lease:   desc("bellhop_oldest_lease_seconds", "How long a worker has had a message of a topic; shown for topics of which one that told its name has one.", "topic"),
		unsent:  desc("bellhop_push_unsent", "1 for each push, but paused ones, that no daemon sends: none that runs has BELLHOP_PUSH_ALLOW, or for one to NATS BELLHOP_NATS_URL.", "push"),
		groups:  desc("bellhop_groups", "Groups of messages by state; of held ones only dead letters are left, and these keep back what waits for them.", "state"),
		pool:    poolFigures(),
		byTopic: topicFigures(overdue),
		overdue: overdue,
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func topicFigures(overdue *prometheus.Desc) []topicFigure {
	messages := desc("bellhop_messages", "Messages of a topic by state, of all processes. For other, scheduled, ready and blocked are one state, scheduled_or_ready.", "topic", "state")
	of := func(name, help string) *prometheus.Desc { return desc(name, help, "topic") }
	ever := func(name, help string) *prometheus.Desc {
		return of(name, help+" For other: since the first scrape of this process.")
	}
	named := func(name, help string) *prometheus.Desc { return of(name, help+" Not shown for other.") }
	return []topicFigure{
		{messages, prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Scheduled) }, ofNamed, []string{"scheduled"}},
		{messages, prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Ready) }, ofNamed, []string{"ready"}},
		{messages, prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Blocked) }, ofNamed, []string{"blocked"}},
		{messages, prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Scheduled) }, ofOther, []string{"scheduled_or_ready"}},
		{messages, prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Leased) }, ofAll, []string{"leased"}},
		{messages, prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Dead) }, ofAll, []string{"dead"}},
		{named("bellhop_waiting_subscribers", "Subscribers of a topic that wait for messages, of all processes."), prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Waiting) }, ofNamed, nil},
		{overdue, prometheus.GaugeValue, func(c notify.Counts) float64 { return c.Overdue.Seconds() }, ofAll, nil},
		{named("bellhop_oldest_blocked_seconds", "How long the oldest message of a topic that others of its key keep back has been due."), prometheus.GaugeValue, func(c notify.Counts) float64 { return c.OldestBlocked.Seconds() }, ofNamed, nil},
		{ever("bellhop_published_total", "Messages ever published to a topic for one worker, by all processes."), prometheus.CounterValue, func(c notify.Counts) float64 { return float64(c.Published) }, ofAll, nil},
		{ever("bellhop_acknowledged_total", "Messages of a topic ever acknowledged, by all processes."), prometheus.CounterValue, func(c notify.Counts) float64 { return float64(c.Acked) }, ofAll, nil},
		{ever("bellhop_died_total", "Messages of a topic that ever died, in any process."), prometheus.CounterValue, func(c notify.Counts) float64 { return float64(c.Died) }, ofAll, nil},
		{ever("bellhop_dropped_total", "Messages of a topic that ever failed, expired or came too late and were dropped, as they asked for, and broadcasts that were not sent since they had expired, in any process."), prometheus.CounterValue, func(c notify.Counts) float64 { return float64(c.Dropped) }, ofAll, nil},
		{named("bellhop_last_claim_lateness_seconds", "How late the oldest message of the last claim of a topic was claimed, in any process."), prometheus.GaugeValue, func(c notify.Counts) float64 { return c.Lateness.Seconds() }, ofNamed, nil},
		{named("bellhop_paused", "Whether a topic is paused."), prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(truth(c.Paused)) }, ofNamed, nil},
		{of("bellhop_scheduled_broadcasts", "Scheduled broadcasts to a topic."), prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Broadcasts) }, ofAll, nil},
		{ever("bellhop_broadcasts_sent_total", "Broadcasts ever sent to a topic's listeners, by all processes."), prometheus.CounterValue, func(c notify.Counts) float64 { return float64(c.Sent) }, ofAll, nil},
		{named("bellhop_log_broadcasts", "Broadcasts that the log of a topic keeps."), prometheus.GaugeValue, func(c notify.Counts) float64 { return float64(c.Log) }, ofNamed, nil},
	}
}

// shardLabels returns the label of a metric that each shard has; none in a store of one.
func shardLabels(number int, several bool) prometheus.Labels {
	if !several {
		return nil
	}
	return prometheus.Labels{"shard": strconv.Itoa(number)}
}

// figuresOfShards are those that each shard has.
func figuresOfShards(labels prometheus.Labels) (up, elected, published figure[shardReading]) {
	return gauge("bellhop_redis_up", "Whether Redis answered this scrape.", func(s shardReading) int { return truth(s.up) }, labels),
		gauge("bellhop_carrier_elected", "Whether Redis knows an elected carrier, of any process.", func(s shardReading) int { return truth(s.status.Name != "") }, labels),
		counter("bellhop_shard_published_total", "Messages ever published to a shard for one worker, by all processes; not shown of a store of one shard.", func(s shardReading) int64 { return s.published }, labels)
}

// memoryFigures are those that each server has.
func memoryFigures(labels prometheus.Labels) []figure[reach.Memory] {
	return []figure[reach.Memory]{
		gauge("bellhop_redis_memory_used_bytes", "Memory in use of Redis that counts against its maxmemory.", func(m reach.Memory) int64 { return m.Used }, labels),
		gauge("bellhop_redis_memory_max_bytes", "Redis's maxmemory; 0: no limit.", func(m reach.Memory) int64 { return m.Max }, labels),
		gauge("bellhop_redis_evicts", "Whether Redis may evict messages by its maxmemory-policy; publishes are then refused.", func(m reach.Memory) int { return truth(m.Evicts) }, labels),
		gauge("bellhop_redis_memory_limit_bytes", "Memory in use above which publishes of this process are refused; 0: no limit.", func(m reach.Memory) int64 { return m.Limit }, labels),
	}
}

func poolFigures() []figure[*redis.PoolStats] {
	return []figure[*redis.PoolStats]{
		counter("bellhop_redis_pool_hits_total", "Calls that found a free connection to Redis.", func(s *redis.PoolStats) uint32 { return s.Hits }),
		counter("bellhop_redis_pool_misses_total", "Calls that found no free connection to Redis.", func(s *redis.PoolStats) uint32 { return s.Misses }),
		counter("bellhop_redis_pool_timeouts_total", "Calls that got no connection to Redis in time.", func(s *redis.PoolStats) uint32 { return s.Timeouts }),
		counter("bellhop_redis_pool_stale_total", "Connections to Redis that were closed because they were stale.", func(s *redis.PoolStats) uint32 { return s.StaleConns }),
		gauge("bellhop_redis_pool_connections", "Connections to Redis for calls.", func(s *redis.PoolStats) uint32 { return s.TotalConns }),
		gauge("bellhop_redis_pool_idle_connections", "Free connections to Redis for calls.", func(s *redis.PoolStats) uint32 { return s.IdleConns }),
		gauge("bellhop_redis_subscriptions", "Connections to Redis that are subscribed.", func(s *redis.PoolStats) uint32 { return s.PubSubStats.Active }),
	}
}

// Describe implements prometheus.Collector. It describes nothing: only a store of several
// shards has their label.
func (r *redisState) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r *redisState) Collect(to chan<- prometheus.Metric) {
	now, err := r.last.Get(context.Background(), cache.Keep{Age: r.fresh, Within: ScrapeTimeout + time.Second}, r.read)
	if err != nil { // a machine that stands still
		now = &reading{took: ScrapeTimeout, shards: make([]shardReading, 1)}
	}
	constant := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	constant(r.took, prometheus.GaugeValue, now.took.Seconds())
	show(to, r.pool, r.store.PoolStats())
	for label, n := range r.topics.handOuts() {
		constant(r.claimed, prometheus.CounterValue, n, label)
	}
	showShards(to, now)
	if !now.up {
		return
	}
	constant(r.shards, prometheus.GaugeValue, float64(len(now.shards)))
	constant(r.layout, prometheus.GaugeValue, 0)
	constant(r.known, prometheus.GaugeValue, float64(now.topics))
	showSchedules(to, now)
	r.showGroups(to, now)
	for _, c := range now.counts {
		for _, f := range r.byTopic {
			if f.of.takes(c.Topic) {
				constant(r.placed(f.desc, c.Topic, now.several()), f.kind, f.value(c), append([]string{c.Topic}, f.extra...)...)
			}
		}
	}
	for label, at := range now.deaths {
		constant(r.death, prometheus.GaugeValue, float64(at.UnixMilli())/1000, label)
	}
	for label, age := range now.leases {
		constant(r.lease, prometheus.GaugeValue, age.Seconds(), label)
	}
	for _, name := range now.unsent {
		constant(r.unsent, prometheus.GaugeValue, 1, name)
	}
}

// placed returns the description of a figure of a topic. That of how long its oldest message
// is overdue says in which of several shards the topic is, since a shard may be behind.
func (r *redisState) placed(d *prometheus.Desc, topic string, several bool) *prometheus.Desc {
	if d != r.overdue || !several || topic == other {
		return d
	}
	return prometheus.NewDesc(overdueName, overdueHelp, []string{"topic"}, shardLabels(r.store.Of(topic).Number(), several))
}

// showShards shows what each shard answered, and each server.
func showShards(to chan<- prometheus.Metric, now *reading) {
	for i, s := range now.shards {
		up, elected, published := figuresOfShards(shardLabels(i, now.several()))
		show(to, []figure[shardReading]{up}, s)
		if !s.up {
			continue
		}
		show(to, []figure[shardReading]{elected}, s)
		if now.several() {
			show(to, []figure[shardReading]{published}, s)
		}
		if s.memory != nil {
			show(to, memoryFigures(serverLabels(s.server, now.several())), *s.memory)
		}
	}
}

// serverLabels returns the label of a metric that each server has; none in a store of one shard.
func serverLabels(server string, several bool) prometheus.Labels {
	if !several {
		return nil
	}
	return prometheus.Labels{"server": server}
}

// read asks Redis. What does not answer is not up: that is no error.
func (r *redisState) read(ctx context.Context) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, ScrapeTimeout) // less than those that wait for the answer do
	defer cancel()
	began := time.Now()
	shards, err := r.store.Shards(ctx)
	mine := &reading{shards: make([]shardReading, max(len(shards), 1))}
	if err == nil {
		var asking sync.WaitGroup
		asking.Go(func() { r.look(ctx, mine.shards) })
		err = r.count(ctx, mine)
		asking.Wait()
		if mine.recurs {
			r.sum(ctx, mine.shards)
		}
		if mine.grouped {
			r.group(ctx, mine.shards)
		}
	}
	for i := range mine.shards {
		s := &mine.shards[i]
		s.up = s.up && err == nil
		mine.up = mine.up || s.up
	}
	mine.took = time.Since(began)
	return mine, nil
}

// look asks each shard, several at a time, and the servers that they are on.
func (r *redisState) look(ctx context.Context, into []shardReading) {
	var servers sync.Map                                                                                     // that are asked
	_, _ = store.Gather(ctx, r.store, func(ctx context.Context, shard store.Shard) (_ struct{}, err error) { // those that fail are not up
		var s shardReading
		if s.status, err = carrier.Look(ctx, shard); err != nil {
			return struct{}{}, err
		}
		site, err := shard.Site(ctx)
		if err != nil {
			return struct{}{}, err
		}
		s.server = site.Server
		if _, asked := servers.LoadOrStore(site.Server, true); !asked {
			memory, err := shard.Memory(ctx)
			if err != nil {
				return struct{}{}, err
			}
			s.memory = &memory
		}
		if len(into) > 1 {
			survey, err := shard.Survey(ctx, 1)
			if err != nil {
				return struct{}{}, err
			}
			s.published = survey.Published
		}
		s.up = true
		into[shard.Number()] = s
		return struct{}{}, nil
	})
}

// sum sums up the schedules of each shard, of a store that has some. A shard that fails to answer is not up.
func (r *redisState) sum(ctx context.Context, into []shardReading) {
	_, _ = store.Gather(ctx, r.store, func(ctx context.Context, shard store.Shard) (_ struct{}, err error) {
		s := &into[shard.Number()]
		if !s.up {
			return struct{}{}, nil
		}
		s.schedules, err = shard.ScheduleSums(ctx)
		s.up = err == nil
		return struct{}{}, err
	})
}

// stepTimeout is how long each of the three steps of count waits in a store of several
// shards, so that one that hangs leaves time to ask the others.
const stepTimeout = ScrapeTimeout / 3

// count surveys the store, and counts the topics that stand out. If these are few,
// other topics get a label, too, the first ones by name. What shards that are away hold
// is left out.
func (r *redisState) count(ctx context.Context, mine *reading) error {
	step := func() (context.Context, context.CancelFunc) {
		if mine.several() {
			return context.WithTimeout(ctx, stepTimeout)
		}
		return ctx, func() {}
	}
	once, end := step()
	survey, err := r.inspector.Survey(once, min(r.topics.places()+1, mostSurveyed))
	end()
	whole := err == nil
	if away(err) != nil {
		return err
	}
	names := r.topics.candidates(survey)
	once, end = step()
	counts, err := r.inspector.Count(once, names...)
	end()
	if away(err) != nil && whole {
		return err
	}
	if len(names) < r.topics.limit {
		once, end = step()
		quiet, _, err := r.inspector.TopicsAfter(once, "", r.topics.limit)
		end()
		if away(err) != nil && whole {
			return err
		}
		counts = append(counts, others(quiet, names)...)
	}
	var hand store.InHand
	if survey.Leased > 0 {
		once, end = step()
		hand, err = store.InHandOf(once, r.store)
		end()
		if err != nil && whole {
			return err
		}
	}
	mine.topics, mine.recurs, mine.grouped = survey.Topics, survey.Schedules > 0, survey.Grouped > 0
	mine.counts, mine.deaths = r.topics.update(survey, counts, whole)
	mine.leases = r.topics.oldestLeases(hand, survey.Now)
	if survey.Pushes > 0 {
		once, end = step()
		mine.unsent = unsentPushes(once, r.store.Home())
		end()
	}
	return nil
}

// unsentPushes returns the names of the pushes that no daemon sends, but paused ones; none if that cannot be read.
func unsentPushes(ctx context.Context, home store.Shard) (names []string) {
	all, err := home.Pushes(ctx)
	if err != nil || home.NoteUnsent(ctx, all) != nil {
		return nil
	}
	for _, p := range all {
		if p.Unsent && p.Paused == "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// away returns an error, unless only some shards did not answer.
func away(err error) error {
	if store.IsPartial(err) {
		return nil
	}
	return err
}

// mostSurveyed is how many topics of each kind a scrape surveys, even if there may be more labels.
const mostSurveyed = 500

// others returns the counts of the topics that are not among some, and that may have a label.
func others(all []notify.Counts, some []string) []notify.Counts {
	known := map[string]bool{other: true}
	for _, topic := range some {
		known[topic] = true
	}
	return slices.DeleteFunc(all, func(c notify.Counts) bool { return known[c.Topic] })
}

package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// redisState shows what Redis keeps, and the connections to it.
type redisState struct {
	store     *notify.Store
	inspector *notify.Inspector
	topics    *topics
	fresh     time.Duration

	mu   sync.Mutex
	last *reading // the last; nil: none yet

	up, took, elected, known, claimed, death *prometheus.Desc

	memory  []figure[store.Memory]
	pool    []poolFigure
	byTopic []topicFigure
}

// A reading is an answer of Redis. Scrapes that come while it is awaited, or soon
// after, share it.
type reading struct {
	until  time.Time     // scrapes share it until then; zero: Redis has not answered yet
	done   chan struct{} // closed when the fields below are set
	up     bool
	took   time.Duration
	status carrier.Status
	memory store.Memory
	topics int64
	counts []notify.Counts
	deaths map[string]time.Time // newest deaths, by label
}

type topicFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(notify.Counts) float64
	of    shownOf
	extra []string // values of the labels after that of the topic
}

// shownOf says for which topics a figure is shown.
type shownOf int

const (
	ofAll   shownOf = iota
	ofNamed         // topics with a label of their own: the others have no total
	ofOther
)

func (o shownOf) takes(label string) bool { return o == ofAll || (o == ofOther) == (label == other) }

type poolFigure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*redis.PoolStats) float64
}

func newRedis(db *notify.Store, inspector *notify.Inspector, t *topics, fresh time.Duration) *redisState {
	return &redisState{
		store: db, topics: t, fresh: fresh, inspector: inspector,
		up:      desc("bellhop_redis_up", "Whether Redis answered this scrape."),
		took:    desc("bellhop_redis_scrape_seconds", "How long Redis took to answer this scrape."),
		elected: desc("bellhop_carrier_elected", "Whether Redis knows an elected carrier, of any process."),
		known:   desc("bellhop_topics", "Topics that Bellhop knows."),
		claimed: desc("bellhop_claimed_total", "Messages that this process handed out, over HTTP and NATS.", "topic"),
		death:   desc("bellhop_newest_death_timestamp_seconds", "When the newest dead letter of a topic died; shown for the topics with the newest ones.", "topic"),
		memory:  memoryFigures(),
		pool:    poolFigures(),
		byTopic: topicFigures(),
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func topicFigures() []topicFigure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	messages := desc("bellhop_messages", "Messages of a topic by state, of all processes. For other, scheduled and ready are one state, scheduled_or_ready.", "topic", "state")
	of := func(name, help string) *prometheus.Desc { return desc(name, help, "topic") }
	ever := func(name, help string) *prometheus.Desc {
		return of(name, help+" For other: since the first scrape of this process.")
	}
	named := func(name, help string) *prometheus.Desc { return of(name, help+" Not shown for other.") }
	return []topicFigure{
		{messages, gauge, func(c notify.Counts) float64 { return float64(c.Scheduled) }, ofNamed, []string{"scheduled"}},
		{messages, gauge, func(c notify.Counts) float64 { return float64(c.Ready) }, ofNamed, []string{"ready"}},
		{messages, gauge, func(c notify.Counts) float64 { return float64(c.Scheduled) }, ofOther, []string{"scheduled_or_ready"}},
		{messages, gauge, func(c notify.Counts) float64 { return float64(c.Leased) }, ofAll, []string{"leased"}},
		{messages, gauge, func(c notify.Counts) float64 { return float64(c.Dead) }, ofAll, []string{"dead"}},
		{named("bellhop_waiting_subscribers", "Subscribers of a topic that wait for messages, of all processes."), gauge, func(c notify.Counts) float64 { return float64(c.Waiting) }, ofNamed, nil},
		{of("bellhop_oldest_overdue_seconds", "How long the oldest ready message of a topic has been due. For other: paused topics excepted."), gauge, func(c notify.Counts) float64 { return c.Overdue.Seconds() }, ofAll, nil},
		{ever("bellhop_published_total", "Messages ever published to a topic for one worker, by all processes."), counter, func(c notify.Counts) float64 { return float64(c.Published) }, ofAll, nil},
		{ever("bellhop_acknowledged_total", "Messages of a topic ever acknowledged, by all processes."), counter, func(c notify.Counts) float64 { return float64(c.Acked) }, ofAll, nil},
		{ever("bellhop_died_total", "Messages of a topic that ever died, in any process."), counter, func(c notify.Counts) float64 { return float64(c.Died) }, ofAll, nil},
		{ever("bellhop_dropped_total", "Messages of a topic that ever failed, expired or came too late and were dropped, as they asked for, and broadcasts that were not sent since they had expired, in any process."), counter, func(c notify.Counts) float64 { return float64(c.Dropped) }, ofAll, nil},
		{named("bellhop_last_claim_lateness_seconds", "How late the oldest message of the last claim of a topic was claimed, in any process."), gauge, func(c notify.Counts) float64 { return c.Lateness.Seconds() }, ofNamed, nil},
		{named("bellhop_paused", "Whether a topic is paused."), gauge, func(c notify.Counts) float64 { return truth(c.Paused) }, ofNamed, nil},
		{of("bellhop_scheduled_broadcasts", "Scheduled broadcasts to a topic."), gauge, func(c notify.Counts) float64 { return float64(c.Broadcasts) }, ofAll, nil},
		{ever("bellhop_broadcasts_sent_total", "Broadcasts ever sent to a topic's listeners, by all processes."), counter, func(c notify.Counts) float64 { return float64(c.Sent) }, ofAll, nil},
		{named("bellhop_log_broadcasts", "Broadcasts that the log of a topic keeps."), gauge, func(c notify.Counts) float64 { return float64(c.Log) }, ofNamed, nil},
	}
}

func memoryFigures() []figure[store.Memory] {
	of := func(name, help string, value func(store.Memory) int64) figure[store.Memory] {
		return figure[store.Memory]{desc("bellhop_redis_memory_"+name+"_bytes", help), prometheus.GaugeValue, func(m store.Memory) float64 { return float64(value(m)) }}
	}
	return []figure[store.Memory]{
		of("used", "Memory in use of Redis that counts against its maxmemory.", func(m store.Memory) int64 { return m.Used }),
		of("max", "Redis's maxmemory; 0: no limit.", func(m store.Memory) int64 { return m.Max }),
		{
			desc("bellhop_redis_evicts", "Whether Redis may evict messages by its maxmemory-policy; publishes are then refused."),
			prometheus.GaugeValue, func(m store.Memory) float64 { return truth(m.Evicts) },
		},
		of("limit", "Memory in use above which publishes of this process are refused; 0: no limit.", func(m store.Memory) int64 { return m.Limit }),
	}
}

func poolFigures() []poolFigure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []poolFigure{
		{desc("bellhop_redis_pool_hits_total", "Calls that found a free connection to Redis."), counter, func(s *redis.PoolStats) float64 { return float64(s.Hits) }},
		{desc("bellhop_redis_pool_misses_total", "Calls that found no free connection to Redis."), counter, func(s *redis.PoolStats) float64 { return float64(s.Misses) }},
		{desc("bellhop_redis_pool_timeouts_total", "Calls that got no connection to Redis in time."), counter, func(s *redis.PoolStats) float64 { return float64(s.Timeouts) }},
		{desc("bellhop_redis_pool_stale_total", "Connections to Redis that were closed because they were stale."), counter, func(s *redis.PoolStats) float64 { return float64(s.StaleConns) }},
		{desc("bellhop_redis_pool_connections", "Connections to Redis for calls."), gauge, func(s *redis.PoolStats) float64 { return float64(s.TotalConns) }},
		{desc("bellhop_redis_pool_idle_connections", "Free connections to Redis for calls."), gauge, func(s *redis.PoolStats) float64 { return float64(s.IdleConns) }},
		{desc("bellhop_redis_subscriptions", "Connections to Redis that are subscribed."), gauge, func(s *redis.PoolStats) float64 { return float64(s.PubSubStats.Active) }},
	}
}

// Describe implements prometheus.Collector.
func (r *redisState) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.up, r.took, r.elected, r.known, r.claimed, r.death} {
		to <- d
	}
	for _, f := range r.memory {
		to <- f.desc
	}
	for _, f := range r.pool {
		to <- f.desc
	}
	for _, f := range r.byTopic {
		if f.extra == nil || f.extra[0] == "scheduled" {
			to <- f.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (r *redisState) Collect(to chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	now := r.read()
	show(r.up, prometheus.GaugeValue, truth(now.up))
	show(r.took, prometheus.GaugeValue, now.took.Seconds())
	stats := r.store.PoolStats()
	for _, f := range r.pool {
		show(f.desc, f.kind, f.value(stats))
	}
	for label, n := range r.topics.handOuts() {
		show(r.claimed, prometheus.CounterValue, n, label)
	}
	if !now.up {
		return
	}
	show(r.elected, prometheus.GaugeValue, truth(now.status.Name != ""))
	show(r.known, prometheus.GaugeValue, float64(now.topics))
	for _, f := range r.memory {
		show(f.desc, f.kind, f.value(now.memory))
	}
	for _, c := range now.counts {
		for _, f := range r.byTopic {
			if f.of.takes(c.Topic) {
				show(f.desc, f.kind, f.value(c), append([]string{c.Topic}, f.extra...)...)
			}
		}
	}
	for label, at := range now.deaths {
		show(r.death, prometheus.GaugeValue, float64(at.UnixMilli())/1000, label)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// read asks Redis, or shares the answer that another scrape awaits or just got.
func (r *redisState) read() *reading {
	r.mu.Lock()
	if last := r.last; last != nil && (last.until.IsZero() || time.Now().Before(last.until)) {
		r.mu.Unlock()
		<-last.done
		return last
	}
	mine := &reading{done: make(chan struct{})}
	r.last = mine
	r.mu.Unlock()
	r.ask(mine)
	r.mu.Lock()
	mine.until = time.Now().Add(r.fresh)
	r.mu.Unlock()
	close(mine.done)
	return mine
}

func (r *redisState) ask(mine *reading) {
	ctx, cancel := context.WithTimeout(context.Background(), ScrapeTimeout)
	defer cancel()
	began := time.Now()
	err := r.count(ctx, mine)
	if err == nil {
		mine.status, err = carrier.Look(ctx, r.store.Home())
	}
	if err == nil {
		mine.memory, err = r.store.Home().Memory(ctx)
	}
	mine.up, mine.took = err == nil, time.Since(began)
}

// count surveys the store, and counts the topics that stand out. If these are few,
// other topics get a label, too, the first ones by name.
func (r *redisState) count(ctx context.Context, mine *reading) error {
	survey, err := r.inspector.Survey(ctx, min(r.topics.places()+1, mostSurveyed))
	if err != nil {
		return err
	}
	names := r.topics.candidates(survey)
	counts, err := r.inspector.Count(ctx, names...)
	if err != nil {
		return err
	}
	if len(names) < r.topics.limit {
		quiet, _, err := r.inspector.TopicsAfter(ctx, "", r.topics.limit)
		if err != nil {
			return err
		}
		counts = append(counts, others(quiet, names)...)
	}
	mine.topics = survey.Topics
	mine.counts, mine.deaths = r.topics.update(survey, counts)
	return nil
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

package metrics

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Defaults and limits of Options.
const (
	DefaultTopicLimit = 100
	MaxTopicLimit     = 10_000
	DefaultFresh      = time.Second
)

// ScrapeTimeout is how long a scrape waits for Redis at most.
const ScrapeTimeout = 5 * time.Second

// MaxScrapes is how many scrapes are answered at a time.
const MaxScrapes = 32

// Options are the options of Metrics. The zero value is the default.
type Options struct {
	TopicLimit int           // limit of topics with a label of their own because they stand out; zero: DefaultTopicLimit
	Topics     []string      // further topics that always have a label of their own
	Version    string        // of the daemon
	Fresh      time.Duration // how long further scrapes share an answer of Redis, less 100 ms; zero: DefaultFresh
}

// Metrics are the metrics of a process. Its methods are safe for concurrent use, and do not block.
type Metrics struct {
	topics   *topics
	registry *prometheus.Registry

	ready        *bulk
	claimLate    prometheus.Histogram
	carry        prometheus.Histogram
	moved        prometheus.Counter
	full         prometheus.Counter
	scripts      *prometheus.HistogramVec
	scriptErrors *prometheus.CounterVec
	requests     *prometheus.HistogramVec
	responses    *prometheus.CounterVec
}

// The buckets of durations, in seconds. Those of lateness are dense around the
// milliseconds in which a message is usually handed out.
var (
	lateBuckets   = []float64{.0001, .00025, .0005, .001, .0015, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	scriptBuckets = []float64{.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 3, 10}
	httpBuckets   = []float64{.0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 30, 60}
)

// New returns metrics of a process on a store. ShowCarrier, ShowHTTP, ShowNATS, ShowPush,
// ShowArchive and ShowOutbox add those of its parts. The error is a notify.ErrInvalid that names the option.
func New(s *notify.Store, o Options) (*Metrics, error) {
	if o.TopicLimit == 0 {
		o.TopicLimit = DefaultTopicLimit
	}
	if o.Fresh == 0 {
		o.Fresh = DefaultFresh
	}
	inspector, err := notify.NewInspector(s)
	if err := errors.Join(err, o.checkLimit(), CheckTopics(o.Topics)); err != nil {
		return nil, err
	}
	m := &Metrics{topics: newTopics(o.TopicLimit, o.Topics), registry: prometheus.NewRegistry()}
	m.makeHistograms()
	m.makeCounters()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "bellhop_build_info", Help: "Always 1; the label is the running version.", ConstLabels: prometheus.Labels{"version": o.Version},
	})
	build.Set(1)
	published := []figure[*notify.Store]{handovers("publisher", "sent", (*notify.Store).HandedOver)}
	m.registry.MustRegister(
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.ready, m.claimLate, m.carry, m.moved, m.full, m.scripts, m.scriptErrors, m.requests, m.responses,
		newRedis(s, inspector, m.topics, o.Fresh),
		source(func(to chan<- prometheus.Metric) { show(to, published, s) }),
	)
	return m, nil
}

func (o Options) checkLimit() error {
	return fault.Within("topic_limit", "topic limit of metrics", o.TopicLimit, 1, MaxTopicLimit)
}

// CheckTopics reports faults of the topics that are always to have a label of their
// own, as a notify.Fault.
func CheckTopics(topics []string) error {
	if len(topics) > MaxTopicLimit {
		return fault.New("topics", "topics of metrics: there are %d; name up to %d", len(topics), MaxTopicLimit)
	}
	for _, topic := range topics {
		if err := record.CheckTopic(topic); err != nil {
			return fault.Renamed("topics", err)
		}
		if topic == other {
			return fault.New("topics", "topic of metrics %q: it stands for the topics without series of their own; leave it out", topic)
		}
	}
	return nil
}

func (m *Metrics) makeHistograms() {
	m.ready = newBulk("bellhop_ready_lateness_seconds", "How late scheduled messages were made ready by this carrier.", lateBuckets)
	m.claimLate = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "bellhop_claim_lateness_seconds", Help: "How late messages were that this process handed out, over HTTP and NATS: from due to claimed, less the min_age of the claim, to the millisecond.", Buckets: lateBuckets,
	})
	m.carry = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "bellhop_carry_seconds", Help: "How long Redis took to carry due messages and broadcasts, if there were any.", Buckets: scriptBuckets,
	})
	m.scripts = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "bellhop_script_seconds", Help: "How long scripts took, with the round trip to Redis.", Buckets: scriptBuckets,
	}, []string{"script"})
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "bellhop_http_request_seconds", Help: "How long requests over HTTP took, the wait of long polls included.", Buckets: httpBuckets,
	}, []string{"operation"})
}

func (m *Metrics) makeCounters() {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m.moved = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "bellhop_carried_total", Help: "Messages made ready and broadcasts sent by this carrier.",
	})
	m.full = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "bellhop_publishes_refused_total", Help: "Calls of this process to publish, one message or many, that were refused because Redis is full.",
	})
	m.scriptErrors = counter("bellhop_script_errors_total", "Scripts that failed, or did not answer.", "script")
	m.responses = counter("bellhop_http_requests_total", "Answered requests over HTTP.", "operation", "code")
}

// Carried notes what the carrier moved: it is for carrier.Options.OnCarried.
func (m *Metrics) Carried(c carrier.Carried) {
	for _, late := range c.Lateness {
		m.ready.observe(late.Late.Seconds(), late.N)
	}
	m.carry.Observe(c.Took.Seconds())
	m.moved.Add(float64(c.Moved))
}

// Observe notes a run of a script: it is for [notify.Store.Observe]. A run that its
// caller cancelled is no error.
func (m *Metrics) Observe(script string, took time.Duration, err error) {
	m.scripts.WithLabelValues(script).Observe(took.Seconds())
	failed := m.scriptErrors.WithLabelValues(script) // so that it is shown as 0
	if err != nil && !errors.Is(err, context.Canceled) {
		failed.Inc()
	}
	if errors.Is(err, notify.ErrFull) {
		m.full.Inc()
	}
}

// Claimed notes that a message was handed out, and how late after its due time.
func (m *Metrics) Claimed(topic string, late time.Duration) {
	m.claimLate.Observe(late.Seconds())
	m.topics.handedOut(topic)
}

// Request notes a request over HTTP: its operation of the API, of which there must be a
// bounded number, the status of the response, and its duration.
func (m *Metrics) Request(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation).Observe(took.Seconds())
	m.responses.WithLabelValues(operation, strconv.Itoa(code)).Inc()
}

// Handler returns a handler that answers scrapes, in the format that the client asks
// for: the text format of Prometheus, OpenMetrics, or protocol buffers. More scrapes
// than MaxScrapes at a time are answered with 503.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: MaxScrapes,
	})
}

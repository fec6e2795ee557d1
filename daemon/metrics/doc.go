// Package metrics shows what a daemon does to Prometheus.
//
//	m, err := metrics.New(store, metrics.Options{})
//	...
//	store.Observe(m.Observe)
//	c, err := carrier.New(store, carrier.Options{OnCarried: m.Carried})
//	...
//	m.ShowCarrier(c.State)
//	mux.Handle("/metrics", m.Handler())
//
// # What is true of whom
//
// What is counted by topic (bellhop_published_total and so on) stands in Redis and
// is the truth of all daemons: those that show a topic show the same, so that queries
// take the max over them, not the sum. All else is what this process did or is, and adds up.
//
// # A scrape
//
// A scrape asks Redis for at most ScrapeTimeout, and scrapes that come meanwhile or
// within Options.Fresh, a second, share the answer, so that Redis is asked once a
// second whoever scrapes. What it is asked for are indexes and the counts of some
// hundred topics, in calls of a millisecond each, however many topics there are.
// Where Redis does not answer, what stands in it is left out, and bellhop_redis_up
// is 0; a scrape is never an error because of that.
//
// # Labels
//
// The topics of Options.Topics have a label of their own, and at most
// Options.TopicLimit others that stand out. Those in trouble come first: with what is
// overdue, with new dead letters, paused, or behind because the carrier is, the worst
// of each kind in turn. A fifth of the places and what trouble leaves is for those
// with traffic. A topic that has a label keeps it until another needs its place more,
// for which traffic must be twice as much. Nothing else that users name is a label.
//
// The rest, and a topic of that name, are shown as topic "other": the totals of the
// store less those that have a label. What there is no total of is not shown of it, and
// scheduled and ready are one state. Its counters begin at zero with the first scrape
// and never go down when labels come and go; what a topic did before it had a label
// was counted there. Each daemon chooses for itself: to add up topics, add up those of
// each instance, and take the max over the instances.
//
// # Prometheus
//
//	scrape_configs:
//	  - job_name: bellhop # which the rules for alerts name
//	    static_configs:
//	      - targets: ["bell1:8420", "bell2:8420"] # by the name of the machine, an address, or a name in BELLHOP_HOSTS
//	    authorization: # where BELLHOP_METRICS_NEED_TOKEN=true; the tokens file has a line "prometheus TOKEN metrics >"
//	      credentials_file: /etc/prometheus/bellhop.token
//
// Beside the code stand grafana.json, a dashboard, and alerts.yml, rules for alerts.
package metrics

// Package metrics shows Prometheus what a daemon does.
//
//	m, err := metrics.New(store, metrics.Options{})
//	...
//	store.Observe(m.Observe)
//	c, err := carrier.New(store, carrier.Options{OnCarried: m.Carried})
//	...
//	m.ShowCarrier(c.States)
//	mux.Handle("/metrics", m.Handler())
//
// # Counts of all daemons, and of one
//
// Counts by topic (bellhop_published_total and so on) are kept in Redis and hold for all
// daemons. All daemons that show a topic show the same values, so queries take the max
// over them, not the sum. All other metrics are about this process alone, and add up.
//
// # A scrape
//
// A scrape waits for Redis for at most ScrapeTimeout. Scrapes that come meanwhile, or
// within Options.Fresh (a second), share the answer, so Redis is asked once a second
// however many scrapes there are. The daemon reads indexes and the counts of some
// hundred topics, in calls of a millisecond each, however many topics there are. If
// Redis does not answer, the scrape still succeeds: the metrics kept in Redis are left
// out, and bellhop_redis_up is 0.
//
// # Labels
//
// The topics of Options.Topics have a label of their own, and so have at most
// Options.TopicLimit others that stand out. Topics in trouble come first: with overdue
// messages, with new dead letters, paused, or waiting for a late carrier, the worst of
// each kind in turn. A fifth of the places, and those that trouble leaves, are for topics
// with traffic. A topic keeps its label until another needs the place more; for traffic
// that means twice as much of it. Beside them only outboxes have a label that users choose.
//
// The remaining topics, and a topic named so, are shown as topic "other": the totals of
// the store less the topics with a label. Metrics without a total are not shown of it,
// and scheduled and ready are one state. Its counters begin at zero with the first
// scrape and never go down when labels come and go; they include what a topic did before
// it had a label. Each daemon chooses its labels for itself: to add up topics, add up
// those of each instance, and take the max over the instances.
//
// # Schedules
//
// bellhop_schedules, _behind_seconds and _unreadable_total, and bellhop_occurrences_made_total, _missed_total, _taken_total and
// _refused_total are of all schedules of the store, and have no label: bellhop doctor names the schedule that an alert is
// about. Counters go on where a schedule is deleted, and are left out while a shard is away. bellhop_schedules_stopped is the
// elected carrier's: the clock of Redis was ahead when these were filled.
//
// # Groups
//
// bellhop_groups is of all groups of the store, by state: bellhop doctor names those that are held. A scrape looks at up to a
// thousand of each shard and goes on where the last one was, so with more of them the numbers are of the last whole round, and
// are left out in the first.
//
// # Outboxes
//
// What is of an outbox has a label outbox, the URL of its database without the password. bellhop_outbox_waiting,
// _oldest_seconds and _refused are asked of the database by each scrape, show the same in all daemons, and are left out while
// it does not answer.
//
// # Shards
//
// In a store of several shards these have a label shard, from 0 on: bellhop_redis_up,
// bellhop_is_carrier, bellhop_carrier_elected, _heard, _epoch, _kept, _lateness_seconds and
// _progress_timestamp_seconds, bellhop_schedules_stopped, bellhop_fallbacks_total of the parts carrier and ring,
// bellhop_oldest_overdue_seconds of single topics, and bellhop_shard_published_total, which
// such a store alone has: it shows how even the traffic is. What is about the memory of
// Redis has a label server instead. A store of one shard has none of these labels. Of a
// shard that does not answer bellhop_redis_up is 0, and what it holds is missing: gauges of
// topic "other" and bellhop_topics are those of the other shards, and counters stay.
//
// # Prometheus
//
//	scrape_configs:
//	  - job_name: bellhop # the alert rules name it
//	    static_configs:
//	      - targets: ["bell1:8420", "bell2:8420"] # by the name of the machine, an address, or a name in BELLHOP_HOSTS
//	    authorization: # where BELLHOP_METRICS_NEED_TOKEN=true; the tokens file has a line "prometheus TOKEN metrics >"
//	      credentials_file: /etc/prometheus/bellhop.token
//
// Beside the code are grafana.json, a dashboard, and alerts.yml, alert rules.
package metrics

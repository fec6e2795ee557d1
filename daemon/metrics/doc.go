// Package metrics shows what a daemon does to Prometheus.
//
//	var c *carrier.Carrier
//	m, err := metrics.New(store, metrics.Options{Carrier: func() carrier.State { return c.State() }})
//	...
//	store.Observe(m.Observe)
//	c, err = carrier.New(store, carrier.Options{OnCarried: m.Carried})
//	...
//	mux.Handle("/metrics", m.Handler())
//
// # What is true of whom
//
// What is counted by topic (bellhop_published_total and so on) stands in Redis and
// is the truth of all daemons: each shows the same, so that queries take the
// max over them, not the sum. All else is what this process did or is, and adds up.
//
// # A scrape
//
// A scrape asks Redis once, for at most ScrapeTimeout, and scrapes that come
// meanwhile share the answer. Where Redis does not answer, what stands in it is
// left out, and bellhop_redis_up is 0; a scrape is never an error because of that.
//
// # Labels
//
// At most Options.TopicLimit topics have a label of their own, those that were
// there first, for as long as the process lives. The others are added up as
// topic "other"; so is a topic of that name. Nothing else that users name is a label.
//
// Beside the code stand grafana.json, a dashboard, and alerts.yml, rules for alerts.
package metrics

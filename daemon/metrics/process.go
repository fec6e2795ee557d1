package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// ShowCarrier adds the states of a carrier, one for each shard. The function is called at each scrape.
func (m *Metrics) ShowCarrier(states func() []carrier.State) {
	figures := carrierFigures()
	m.registry.MustRegister(source(func(to chan<- prometheus.Metric) {
		now := states()
		show(to, figures, sumOf(now))
		for _, s := range now {
			show(to, moverFigures(shardLabels(s.Shard, len(now) > 1)), s)
		}
	}))
}

// sumOf adds up what a carrier counts of each shard and shows of all together.
func sumOf(states []carrier.State) (sum carrier.State) {
	for _, s := range states {
		sum.HandedOver += s.HandedOver
		sum.Lapsed += s.Lapsed
		sum.DeadRemoved += s.DeadRemoved
		sum.TopicsForgotten += s.TopicsForgotten
	}
	return sum
}

// ShowHTTP adds the statistics of a gateway for HTTP. The function is called at each scrape.
func (m *Metrics) ShowHTTP(stats func() httpapi.Stats) {
	figures, listener := httpFigures(), listenerFigures()
	received, publishes := receivedFigures("http"), publishFigures("http")
	m.registry.MustRegister(source(func(to chan<- prometheus.Metric) {
		now := stats()
		show(to, figures, now)
		show(to, received, now.Handovers)
		show(to, publishes, now.Publisher)
		show(to, listener, now.Listener)
	}))
}

// ShowNATS adds the statistics of a gateway for NATS. The function is called at each scrape.
func (m *Metrics) ShowNATS(stats func() natsgate.Stats) {
	figures, publishes := natsFigures(), publishFigures("nats")
	m.registry.MustRegister(source(func(to chan<- prometheus.Metric) {
		now := stats()
		show(to, figures, now)
		show(to, publishes, now.Publisher)
		for endpoint, t := range now.Endpoints {
			show(to, endpointFigures(endpoint), t)
		}
	}))
}

// A source is a prometheus.Collector of the figures of a part of the process.
type source func(chan<- prometheus.Metric)

// Describe implements prometheus.Collector. It describes nothing, so series of one name may come from several parts.
func (source) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s source) Collect(to chan<- prometheus.Metric) { s(to) }

// carrierFigures are those of a carrier's work on all shards.
func carrierFigures() []figure[carrier.State] {
	return []figure[carrier.State]{
		handovers("carrier", "sent", func(s carrier.State) int64 { return s.HandedOver }),
		handovers("carrier", "lapsed", func(s carrier.State) int64 { return s.Lapsed }),
		counter("bellhop_dead_removed_total", "Dead letters that this carrier removed because they were too old or too many.", func(s carrier.State) int64 { return s.DeadRemoved }),
		counter("bellhop_forgotten_topics_total", "Empty topics that this carrier forgot.", func(s carrier.State) int64 { return s.TopicsForgotten }),
	}
}

// moverFigures are those that a carrier has for each shard.
func moverFigures(labels prometheus.Labels) []figure[carrier.State] {
	return []figure[carrier.State]{
		fallbacks("carrier", func(s carrier.State) int64 { return s.Fallbacks }, labels),
		fallbacks("ring", func(s carrier.State) int64 { return s.Repeated }, labels),
		gauge("bellhop_is_carrier", "Whether this process is the elected carrier.", func(s carrier.State) int { return truth(s.Carrying) }, labels),
		gauge("bellhop_carrier_heard", "Whether a carrier's beat reached this process, its own or another's, within twice the lease.", func(s carrier.State) int { return truth(s.Heard != 0) }, labels),
		gauge("bellhop_redis_clock_ahead_seconds", "How far Redis's clock is ahead of this host's, as beats tell; negative: behind.", func(s carrier.State) float64 { return s.Ahead.Seconds() }, labels),
		gauge("bellhop_carrier_epoch", "Number of the last election that this process won; 0 if it won none.", func(s carrier.State) int64 { return s.Epoch }, labels),
		gauge("bellhop_carrier_kept", "Messages and broadcasts, scheduled, ready, leased and dead, as the elected carrier last counted them; 0 while standing by.", func(s carrier.State) int64 { return s.Kept }, labels),
		gauge("bellhop_schedules_stopped", "Schedules that make nothing until Redis's clock is as late again as it was when they were filled, as the elected carrier last looked; 0 while standing by.", func(s carrier.State) int { return s.Stopped }, labels),
		gauge("bellhop_carrier_lateness_seconds", "How late this carrier made the last message ready.", func(s carrier.State) float64 { return s.Lateness.Seconds() }, labels),
		gauge("bellhop_carrier_progress_timestamp_seconds", "When the loop of the carrier last came around, elected or standing by.", func(s carrier.State) float64 {
			if s.Progress.IsZero() {
				return 0
			}
			return float64(s.Progress.UnixMilli()) / 1000
		}, labels),
	}
}

// fallbacks is a count of fallbacks of a part.
func fallbacks[T any](part string, value func(T) int64, labels ...prometheus.Labels) figure[T] {
	const help = "Times that a timer found work because a nudge or a ring was lost, or, for the part ring, because a subscriber that was rung hangs; it should stay 0. A lost hand-over lapses instead: bellhop_handovers_total."
	return counter("bellhop_fallbacks_total", help, value, append(labels, prometheus.Labels{"part": part})...)
}

// handovers is a count of the hand-overs of a part that had an outcome.
func handovers[T any](part, outcome string, value func(T) int64) figure[T] {
	return counter("bellhop_handovers_total", handoversHelp, value, prometheus.Labels{"part": part, "outcome": outcome})
}

const handoversHelp = "Messages handed over with the ring: sent by the carrier or by publishes of this process; received by this process, and dropped by it since they came late, twice or unreadable; lapsed, as this carrier saw, since nobody confirmed them within a second, whoever sent them."

// receivedFigures are those of a part that takes hand-overs.
func receivedFigures(part string) []figure[subscribers.SubscriberStats] {
	return []figure[subscribers.SubscriberStats]{
		handovers(part, "received", func(s subscribers.SubscriberStats) int64 { return s.HandedOver }),
		handovers(part, "dropped", func(s subscribers.SubscriberStats) int64 { return s.Dropped }),
	}
}

// publishFigures are those of a part that publishes.
func publishFigures(part string) []figure[notify.PublisherStats] {
	count := func(outcome notify.Outcome, value func(notify.PublisherStats) int64) figure[notify.PublisherStats] {
		const help = "Publishes of this process, of messages and broadcasts, by their outcome; refused is one whose id was in use."
		return counter("bellhop_publishes_total", help, value, prometheus.Labels{"part": part, "outcome": string(outcome)})
	}
	return []figure[notify.PublisherStats]{
		count(notify.Created, func(s notify.PublisherStats) int64 { return s.Created }),
		count(notify.Kept, func(s notify.PublisherStats) int64 { return s.Kept }),
		count(notify.Replaced, func(s notify.PublisherStats) int64 { return s.Replaced }),
		count(notify.Moved, func(s notify.PublisherStats) int64 { return s.Moved }),
		count(notify.Refused, func(s notify.PublisherStats) int64 { return s.Refused }),
	}
}

func natsFigures() []figure[natsgate.Stats] {
	count := func(name, help string, value func(natsgate.Stats) int64) figure[natsgate.Stats] {
		return counter("bellhop_nats_"+name+"_total", help, value)
	}
	return []figure[natsgate.Stats]{
		gauge("bellhop_nats_up", "Whether this process is connected to NATS.", func(s natsgate.Stats) int { return truth(s.Connected) }),
		count("connects", "Connections to NATS made.", func(s natsgate.Stats) int64 { return s.Connects }),
		count("connect_failures", "Rounds over all servers of NATS without a connection.", func(s natsgate.Stats) int64 { return s.ConnectFailures }),
		count("credentials_refused", "Rounds without a connection in which a server refused the credentials.", func(s natsgate.Stats) int64 { return s.CredentialsRefused }),
		count("permissions", "Subjects that NATS does not permit.", func(s natsgate.Stats) int64 { return s.Permissions }),
		count("floods", "Times that requests were lost because they came faster than they were handled.", func(s natsgate.Stats) int64 { return s.Floods }),
		count("faults", "Other faults of the connection to NATS.", func(s natsgate.Stats) int64 { return s.Faults }),
		count("no_reply", "Requests refused because they had no reply subject.", func(s natsgate.Stats) int64 { return s.NoReply }),
		count("refused_replies", "Requests refused because their reply subject is one of NATS itself or of Bellhop.", func(s natsgate.Stats) int64 { return s.RefusedReplies }),
		count("lost_replies", "Replies and claimed messages that could not be sent.", func(s natsgate.Stats) int64 { return s.LostReplies }),
		count("claimed", "Messages sent to clients that claimed them over NATS.", func(s natsgate.Stats) int64 { return s.Claimed }),
		count("returned", "Claimed messages that were released because no client received them over NATS.", func(s natsgate.Stats) int64 { return s.Returned }),
		count("too_large", "Messages buried because they do not fit into a message of NATS.", func(s natsgate.Stats) int64 { return s.TooLarge }),
		gauge("bellhop_nats_waits", "Requests over NATS that wait for messages, or for the end of one.", func(s natsgate.Stats) int64 { return s.Waits }),
		count("hints", "Wake-ups, beats and deaths sent to NATS.", func(s natsgate.Stats) int64 { return s.Hints }),
		count("lost_hints", "Wake-ups, beats and deaths that could not be sent to NATS.", func(s natsgate.Stats) int64 { return s.LostHints }),
		count("broadcasts", "Broadcasts sent to NATS and confirmed by it.", func(s natsgate.Stats) int64 { return s.Broadcasts }),
		count("resent", "Times that a broadcast was sent again because NATS did not confirm it.", func(s natsgate.Stats) int64 { return s.Resent }),
		count("refusals", "Times that NATS refused broadcasts, or had no stream for them.", func(s natsgate.Stats) int64 { return s.Refusals }),
		count("too_large_broadcasts", "Broadcasts skipped because they do not fit into a message of NATS.", func(s natsgate.Stats) int64 { return s.TooLargeBroadcasts }),
		count("gaps", "Gaps: broadcasts were removed before they could be sent to NATS.", func(s natsgate.Stats) int64 { return s.Gaps }),
		count("delivered", "Messages delivered over NATS and acknowledged.", func(s natsgate.Stats) int64 { return s.Delivered }),
		count("snoozed", "Messages that clients over NATS put off without using up an attempt.", func(s natsgate.Stats) int64 { return s.Snoozed }),
		count("nobody", "Deliveries over NATS without a subscriber.", func(s natsgate.Stats) int64 { return s.Nobody }),
		count("no_answer", "Deliveries over NATS without an answer in time.", func(s natsgate.Stats) int64 { return s.NoAnswer }),
		count("bad_answers", "Malformed answers to deliveries over NATS.", func(s natsgate.Stats) int64 { return s.BadAnswers }),
		count("late_answers", "Answers to deliveries over NATS that came too late: the delivery had been given up.", func(s natsgate.Stats) int64 { return s.LateAnswers }),
	}
}

func endpointFigures(endpoint string) []figure[natsgate.Tally] {
	of := prometheus.Labels{"endpoint": endpoint}
	return []figure[natsgate.Tally]{
		counter("bellhop_nats_requests_total", "Requests over NATS.", func(t natsgate.Tally) int64 { return t.Requests }, of),
		counter("bellhop_nats_refused_requests_total", "Requests over NATS refused with an error 4xx.", func(t natsgate.Tally) int64 { return t.Refused }, of),
		counter("bellhop_nats_failed_requests_total", "Requests over NATS that failed with an error 5xx.", func(t natsgate.Tally) int64 { return t.Failed }, of),
	}
}

func httpFigures() []figure[httpapi.Stats] {
	return []figure[httpapi.Stats]{
		gauge("bellhop_http_polls", "Claims over HTTP that wait for a message.", func(s httpapi.Stats) int64 { return s.Polls }),
		gauge("bellhop_http_waits", "Calls over HTTP that wait for the end of a message.", func(s httpapi.Stats) int64 { return s.Waits }),
		gauge("bellhop_http_streams", "Listeners over HTTP.", func(s httpapi.Stats) int64 { return s.Streams }),
		gauge("bellhop_console_viewers", "Pages of the console that are open and change by themselves.", func(s httpapi.Stats) int64 { return s.Viewers }),
		counter("bellhop_http_streams_cut_total", "Listeners over HTTP cut off because they read too slowly; they may resume where they were.", func(s httpapi.Stats) int64 { return s.Cut }),
		counter("bellhop_http_refused_logins_total", "Requests over HTTP refused because they had no known token; the log names the addresses.", func(s httpapi.Stats) int64 { return s.Refused }),
		counter("bellhop_http_snoozed_total", "Messages that clients over HTTP put off without using up an attempt.", func(s httpapi.Stats) int64 { return s.Snoozed }),
		fallbacks("http", func(s httpapi.Stats) int64 { return s.Fallbacks }),
	}
}

func listenerFigures() []figure[subscribers.ListenerStats] {
	count := func(name, help string, value func(subscribers.ListenerStats) int64) figure[subscribers.ListenerStats] {
		return counter("bellhop_listener_"+name+"_total", help, value)
	}
	return []figure[subscribers.ListenerStats]{
		count("handled", "Broadcasts handed to listeners of this process; each attempt counts.", func(s subscribers.ListenerStats) int64 { return s.Handled }),
		count("lagged", "Times that a slow listener had to read by itself what others had read long before.", func(s subscribers.ListenerStats) int64 { return s.Lagged }),
		count("gaps", "Gaps reported to listeners: broadcasts were removed before they were read.", func(s subscribers.ListenerStats) int64 { return s.Gaps }),
		count("unreadable", "Foreign entries of logs that were skipped.", func(s subscribers.ListenerStats) int64 { return s.Unreadable }),
		count("given_up", "Broadcasts that named listeners gave up after their last attempt.", func(s subscribers.ListenerStats) int64 { return s.GivenUp }),
	}
}

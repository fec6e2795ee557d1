package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellhopd/bellhop/daemon/push"
)

// ShowPush adds the statistics of a pusher.
func (m *Metrics) ShowPush(stats func() push.Stats) {
	figures, received := pushFigures(), receivedFigures("push")
	failing := prometheus.NewDesc("bellhop_push_failing", "1 for each push whose endpoint failed several times in a row, as this process found.", []string{"push"}, nil)
	m.registry.MustRegister(source(func(to chan<- prometheus.Metric) {
		s := stats()
		show(to, figures, s)
		show(to, received, s.Handovers)
		for _, name := range s.Failing {
			to <- prometheus.MustNewConstMetric(failing, prometheus.GaugeValue, 1, name)
		}
	}))
}

func pushFigures() []figure[push.Stats] {
	return []figure[push.Stats]{
		counter("bellhop_push_done_total", "Messages pushed to URLs, and acknowledged by their endpoints.", func(s push.Stats) int64 { return s.Done }),
		counter("bellhop_push_failed_total", "Requests of pushes that failed.", func(s push.Stats) int64 { return s.Failed }),
		counter("bellhop_push_put_off_total", "Messages that endpoints put off without using up an attempt.", func(s push.Stats) int64 { return s.PutOff }),
		gauge("bellhop_push_in_flight", "Messages that pushes handed on, and that are not settled.", func(s push.Stats) int64 { return s.InFlight }),
		gauge("bellhop_push_closed", "Pushes whose endpoints want no request for some time, as their Retry-After says.", func(s push.Stats) int { return s.Closed }),
		gauge("bellhop_push_unheard", "Subjects of NATS to which messages are pushed, and on which nobody listens, as this process found.", func(s push.Stats) int { return s.Unheard }),
		gauge("bellhop_push_topics", "Topics that patterns of pushes match, and that this process works for.", func(s push.Stats) int { return s.Found }),
		counter("bellhop_push_left_out_total", "Times that a topic that a push matches was ready, and this process had no room for it.", func(s push.Stats) int64 { return s.LeftOut }),
	}
}

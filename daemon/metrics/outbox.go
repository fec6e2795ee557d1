package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellhopd/bellhop/daemon/outbox"
)

// ShowOutbox adds the statistics of an outbox, and what it holds, which each scrape asks its database for. While that
// does not answer, what it holds is left out.
func (m *Metrics) ShowOutbox(b *outbox.Outbox) {
	of := prometheus.Labels{"outbox": b.Address()}
	figures, holds := outboxFigures(of), outboxBacklogFigures(of)
	m.registry.MustRegister(source(func(to chan<- prometheus.Metric) {
		show(to, figures, b.Stats())
		ctx, cancel := context.WithTimeout(context.Background(), ScrapeTimeout)
		defer cancel()
		if l, err := b.Backlog(ctx); err == nil {
			show(to, holds, l)
		}
	}))
}

func outboxFigures(of prometheus.Labels) []figure[outbox.Stats] {
	return []figure[outbox.Stats]{
		counter("bellhop_outbox_relayed_total", "Rows that this process moved from the outbox into the store, those that were kept among them.", func(s outbox.Stats) int64 { return s.Relayed }, of),
		counter("bellhop_outbox_kept_total", "Of these: their ids were in use, and the messages that had them stayed.", func(s outbox.Stats) int64 { return s.Kept }, of),
		counter("bellhop_outbox_failures_total", "Times that the database of the outbox could not be used by this process as it relayed, and was tried again.", func(s outbox.Stats) int64 { return s.Failures }, of),
	}
}

func outboxBacklogFigures(of prometheus.Labels) []figure[outbox.Backlog] {
	return []figure[outbox.Backlog]{
		gauge("bellhop_outbox_waiting", "Rows of the outbox that are committed and not relayed yet, by any process; 10001: or more.", func(l outbox.Backlog) int { return l.Waiting }, of),
		gauge("bellhop_outbox_oldest_seconds", "How long the first of them has waited; 0: none waits.", func(l outbox.Backlog) float64 { return l.Oldest.Seconds() }, of),
		gauge("bellhop_outbox_refused", "Rows of the outbox that cannot be published, and stay; 10001: or more.", func(l outbox.Backlog) int { return l.Refused }, of),
	}
}

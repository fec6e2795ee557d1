package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify/store"
)

// ShowArchive adds the statistics of an archive, and how far it is behind, which each
// scrape asks Redis for.
func (m *Metrics) ShowArchive(a *archive.Archive) {
	figures, backlog, unarchived := archiveFigures(), backlogFigures(), unarchivedFigures()
	m.registry.MustRegister(source(func(to chan<- prometheus.Metric) {
		show(to, figures, a.Stats())
		ctx, cancel := context.WithTimeout(context.Background(), ScrapeTimeout)
		defer cancel()
		behind, err := a.Backlog(ctx)
		if away(err) == nil { // else bellhop_redis_up says so
			show(to, backlog, behind)
		}
		if err == nil { // a counter that lacks shards would seem to begin anew
			show(to, unarchived, behind)
		}
	}))
}

func archiveFigures() []figure[archive.Stats] {
	return []figure[archive.Stats]{
		gauge("bellhop_archive_up", "Whether the database took what this process archived last; 1 while another process archives.", func(s archive.Stats) int { return truth(!s.Away) }),
		counter("bellhop_archive_stored_total", "Messages that ended and that this process stored in the archive.", func(s archive.Stats) int64 { return s.Stored }),
		counter("bellhop_archive_failed_total", "Times that this process could not connect to the archive or store in it, and tried again.", func(s archive.Stats) int64 { return s.Failed }),
		counter("bellhop_archive_unreadable_total", "Rows of the archive that this process read and that are unreadable, since something else wrote them; each answer names them.", func(s archive.Stats) int64 { return s.Unreadable }),
	}
}

func backlogFigures() []figure[store.Backlog] {
	return []figure[store.Backlog]{
		gauge("bellhop_archive_backlog", "Messages that ended and wait in Redis to be archived, by any process.", func(b store.Backlog) int { return b.Entries }),
		gauge("bellhop_archive_room", "Messages that ended and that Redis keeps at most for the archive; older ones are removed.", func(b store.Backlog) int { return b.Room }),
		gauge("bellhop_archive_oldest_seconds", "How long the first of them has waited; 0: none waits.", func(b store.Backlog) float64 { return b.Waits.Seconds() }),
	}
}

func unarchivedFigures() []figure[store.Backlog] {
	return []figure[store.Backlog]{
		counter("bellhop_archive_unarchived_total", "Messages that ended and were removed from Redis before they were archived, ever, in any process.", func(b store.Backlog) int64 { return b.Removed }),
	}
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellhopd/bellhop/notify/store"
)

// showSchedules shows the sums of the schedules of all shards. The counters wait for a shard that is away: without it they would seem to begin
// anew.
func showSchedules(to chan<- prometheus.Metric, now *reading) {
	var sums store.ScheduleSums
	whole := true
	for _, s := range now.shards {
		sums, whole = sums.And(s.schedules), whole && s.up
	}
	state, ever := scheduleFigures()
	show(to, state, sums)
	if whole {
		show(to, ever, sums)
	}
}

func scheduleFigures() (state, ever []figure[store.ScheduleSums]) {
	state = []figure[store.ScheduleSums]{
		gauge("bellhop_schedules", "Schedules of all topics.", func(s store.ScheduleSums) int64 { return s.Schedules }),
		gauge("bellhop_schedules_behind_seconds", "How long the schedule that is furthest behind has waited for a carrier to make its next occurrences; 0: none waits.", func(s store.ScheduleSums) float64 { return s.Behind.Seconds() }),
	}
	ever = []figure[store.ScheduleSums]{
		counter("bellhop_occurrences_made_total", "Occurrences that schedules ever made, ahead of their times; with those that were withdrawn later.", func(s store.ScheduleSums) int64 { return s.Made }),
		counter("bellhop_occurrences_missed_total", "Occurrences that were ever missed: no carrier made or carried them within the grace of their schedule.", func(s store.ScheduleSums) int64 { return s.Missed }),
		counter("bellhop_occurrences_taken_total", "Occurrences whose id another message ever had, so that they were not made.", func(s store.ScheduleSums) int64 { return s.Taken }),
		counter("bellhop_occurrences_refused_total", "Times that a carrier ever failed to make an occurrence, since a key of its topic is foreign; it tries once a minute.", func(s store.ScheduleSums) int64 { return s.Refused }),
		counter("bellhop_schedules_unreadable_total", "Times that a carrier ever failed to read a schedule, which makes nothing then; it tries once an hour.", func(s store.ScheduleSums) int64 { return s.Unread }),
	}
	return state, ever
}

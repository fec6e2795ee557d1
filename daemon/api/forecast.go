package api

import (
	"time"

	"github.com/bellhopd/bellhop/notify/forecast"
)

// Forecast is how many scheduled messages fall due when.
type Forecast struct {
	From       time.Time `json:"from" doc:"beginning of the first bucket, in which now is, by the clock of Redis"`
	BucketMs   int64     `json:"bucket_ms" doc:"length of a bucket" example:"3600000"`
	Counts     []int64   `json:"counts" nullable:"false" doc:"messages that fall due within each bucket; in the first, from now on"`
	Broadcasts []int64   `json:"broadcasts,omitempty" doc:"broadcasts that fall due within each bucket, of all topics; missing: not all topics were asked for"`
	Overdue    int64     `json:"overdue" doc:"messages that are due already, and that the carrier did not make ready yet"`
	Later      int64     `json:"later" doc:"messages that fall due behind the last bucket"`

	Recurring      []int64   `json:"recurring,omitempty" doc:"occurrences of schedules that fall due within each bucket and are not made yet, at most 1,000 of a schedule, fewer of each if there are more than 500; the next ones are counted as messages or broadcasts already; missing: there are no schedules"`
	RecurringUntil time.Time `json:"recurring_until,omitzero" doc:"until when recurring has all; missing: it does to the end"`
	SchedulesLeft  bool      `json:"schedules_left,omitempty" doc:"true: recurring has those 10,000 schedules that fire first, and there are others"`
	Missing
}

// ForecastOf returns a forecast in its JSON form, with the shards that are missing.
func ForecastOf(f forecast.Forecast, missing Missing) Forecast {
	return Forecast{
		From: f.From.UTC(), BucketMs: Ms(f.Bucket), Counts: f.Counts, Broadcasts: f.Broadcasts, Overdue: f.Overdue, Later: f.Later,
		Recurring: f.Recurring, RecurringUntil: f.RecurringUntil, SchedulesLeft: f.SchedulesLeft, Missing: missing,
	}
}

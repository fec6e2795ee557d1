package api

import (
	"time"

	"github.com/bellhopd/bellhop/notify/history"
)

// History is what happened in steps of time.
type History struct {
	StepMs  int64    `json:"step_ms" doc:"time that a sample covers" example:"60000"`
	Samples []Sample `json:"samples" nullable:"false" doc:"the oldest first; there is none of a time of which nothing was noted"`
	Missing
}

// Sample is what happened in one step: how many in each second, and how late.
type Sample struct {
	Time    time.Time `json:"time" doc:"when the step begins"`
	NotedMs int64     `json:"noted_ms" doc:"how much of the step was noted" example:"60000"`

	Published float64 `json:"published_per_s" doc:"messages published, not broadcasts"`
	Claimed   float64 `json:"claimed_per_s" doc:"messages handed out"`
	Acked     float64 `json:"acked_per_s"`
	Died      float64 `json:"died_per_s"`

	P50Ms *float64 `json:"p50_ms,omitempty" doc:"half of those handed out were at most so late, from due to claimed, less the min_age of the claim; missing: none was. It is less than 42 % off" example:"0.4"`
	P99Ms *float64 `json:"p99_ms,omitempty" doc:"the same of 99 of 100" example:"2.5"`
}

// HistoryOf returns samples of some step in their JSON form, with the shards that are missing.
func HistoryOf(step time.Duration, samples []history.Sample, missing Missing) History {
	h := History{StepMs: Ms(step), Samples: make([]Sample, len(samples)), Missing: missing}
	for i, s := range samples {
		h.Samples[i] = Sample{
			Time: s.Time.UTC(), NotedMs: Ms(s.Noted),
			Published: s.PerSecond(s.Published), Claimed: s.PerSecond(s.Claimed), Acked: s.PerSecond(s.Acked), Died: s.PerSecond(s.Died),
		}
		if s.Late.Sum() > 0 {
			h.Samples[i].P50Ms, h.Samples[i].P99Ms = quantileMs(s, 0.5), quantileMs(s, 0.99)
		}
	}
	return h
}

// quantileMs returns a quantile of lateness in ms, to the microsecond.
func quantileMs(s history.Sample, p float64) *float64 {
	ms := float64(s.Late.Quantile(p).Microseconds()) / 1000
	return &ms
}

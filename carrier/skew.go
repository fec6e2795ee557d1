package carrier

import (
	"log/slog"
	"time"

	"github.com/bellhopd/bellhop/notify/outage"
)

// MaxSkew is how far Redis's clock may be off that of a host. What is further off is logged, and reported by the doctor.
const MaxSkew = time.Second

// steady is by how much two beats in a row may differ in how far Redis's clock is ahead. If they differ more, one was late.
const steady = 250 * time.Millisecond

// A skew logs that Redis's clock is off this host's, once.
type skew struct {
	notice *outage.Notice
	last   time.Duration // by which Redis's clock was ahead at the last beat
	told   bool          // there was one
}

func newSkew(log *slog.Logger) *skew {
	return &skew{notice: outage.New(log, slog.LevelWarn,
		"redis's clock is off this host's, and decides when an absolute due time has come; run an NTP client on both hosts", "redis's clock is no longer off this host's")}
}

// hear takes how far ahead Redis's clock was at a beat, and reports whether the beat before agrees.
func (s *skew) hear(ahead time.Duration) (agrees bool) {
	agrees = s.told && (ahead-s.last).Abs() <= steady
	s.last, s.told = ahead, true
	switch {
	case !agrees:
	case ahead.Abs() > MaxSkew:
		s.notice.Begin("ahead", ahead.Round(time.Millisecond).String())
	default:
		s.notice.End()
	}
	return agrees
}

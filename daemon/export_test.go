package daemon

import "log/slog"

// WarnOfLoss is for a test of what it does not warn of.
var WarnOfLoss = warnOfLoss

// ObserveFull returns what observes the runs of scripts for a Redis that is full.
func ObserveFull(log *slog.Logger) func(script string, err error) {
	return newFullness(log).observe
}

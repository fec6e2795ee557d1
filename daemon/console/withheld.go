package console

import (
	"log/slog"
	"regexp"
	"sync"
	"time"
)

// withheld are the errors that were logged because viewers are not shown them, and when.
type withheld struct {
	logger *slog.Logger

	mu  sync.Mutex
	all map[string]time.Time
}

const (
	withheldEvery = time.Minute // the same error is logged: pages ask each second
	mostWithheld  = 100         // errors that are known at a time
)

// ownAddress is the address of the daemon in an error of a connection: each has a port of its own.
var ownAddress = regexp.MustCompile(`\S+->`)

// log logs an error that a viewer is not shown.
func (w *withheld) log(err error) {
	if w.isNew(ownAddress.ReplaceAllString(err.Error(), ""), time.Now()) {
		w.logger.Warn("the console withheld an error from a viewer", "error", err)
	}
}

// isNew reports whether an error is to be logged.
func (w *withheld) isNew(text string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, known := w.all[text]; known && now.Sub(at) < withheldEvery {
		return false
	}
	if w.all == nil || len(w.all) >= mostWithheld {
		w.all = make(map[string]time.Time)
	}
	w.all[text] = now
	return true
}

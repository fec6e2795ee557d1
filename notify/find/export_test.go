package find

import "time"

// Unhurried has no call of f end because its time is over.
func (f *Finder) Unhurried() { f.since = func(time.Time) time.Duration { return 0 } }

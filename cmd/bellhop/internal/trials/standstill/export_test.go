package standstill

import "time"

// Turn is a turn of the loop at a time.
func (w *Watch) Turn(now time.Time) { w.turn(now) }

//go:build !linux

package carrier

import "time"

// fine is the last part of a sleep, for which Linux needs another way.
const fine = 0

func sleepFine(until time.Time) { time.Sleep(time.Until(until)) }

package carrier

import (
	"syscall"
	"time"
)

// fine is the last part of a sleep, for which Go's timers are too coarse: they fire
// up to a millisecond late, since epoll counts in milliseconds.
const fine = 1200 * time.Microsecond

// spin is the very last part, for which the kernel is too coarse: it wakes some 50
// microseconds late, and later if the processor went to sleep meanwhile.
const spin = 100 * time.Microsecond

// sleepFine sleeps until a time that is at most fine away.
func sleepFine(until time.Time) {
	if left := time.Until(until) - spin; left > 0 {
		spec := syscall.NsecToTimespec(min(left, fine).Nanoseconds())
		_ = syscall.Nanosleep(&spec, nil) // if a signal cuts it short, the loop below spins longer
	}
	for time.Now().Before(until) {
	}
}

package httpapi

import (
	"math"
	"syscall"
)

// sparedFiles are left to what is no client: connections to Redis and NATS, and files.
const sparedFiles = 256

// mostConns returns how many clients may be connected at a time, unless an
// option says so: as many as the process may open files, but for some. More
// wait until one goes. Without a limit they would take the last file, and the
// carrier could not connect to Redis again.
func mostConns() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt32
	}
	most := int(min(files.Cur, math.MaxInt32))
	return max(most-sparedFiles, most/2, 1)
}

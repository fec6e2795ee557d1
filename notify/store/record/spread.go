package record

import (
	"hash/fnv"
	"time"
)

// Spread returns how much later a member is due that is one of many of one time: whole milliseconds up to a limit, always the same for one member.
func Spread(member string, most time.Duration) time.Duration {
	if most < time.Millisecond {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(member)) // never fails
	return Ms(int64(h.Sum64() % uint64(most.Milliseconds()+1)))
}

package record

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"
	"time"
)

// digits are those of numbers in base 64. They sort as bytes like their values, and
// need no escape in a URL, a shell or a subject of NATS.
const digits = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

const (
	timeDigits   = 7                       // of a time in Unix milliseconds: they last until the year 2109
	randomDigits = 9                       // of an id
	randoms      = 1 << (6 * randomDigits) // how many random numbers there are
)

// ids makes ids that ascend, also when the clock is set back.
type ids struct {
	mu     sync.Mutex
	ms     int64 // of the last id
	random int64
}

var ownIDs ids

// NewID returns a new id: 16 digits in base 64, which sort by time. 7 are the time of
// this machine in Unix milliseconds, and 9 are 54 random bits. The first id of a
// millisecond draws these; each further one of the process is greater by 1. While the
// clock is behind the last id, ids count on from that. So ids ascend within a process,
// and sort by millisecond over all. 1,000 processes that begin in the same millisecond
// draw the same bits with a probability of 3e-11. Until 2109 no id begins with a
// hyphen, which commands would take for a flag.
//
// The scheme is that of Firebase's push ids
// (https://firebase.blog/posts/2015/02/the-2120-ways-to-ensure-unique_68), 4 digits
// shorter.
func NewID() string { return ownIDs.next(time.Now().UnixMilli()) }

// NewIDAt is NewID with the time of another clock. Such ids do not ascend within a millisecond.
func NewIDAt(t time.Time) string { return new(ids).next(t.UnixMilli()) }

// TimeOfID returns the time in an id of NewID or NewIDAt; the zero time if the text is none.
func TimeOfID(id string) time.Time {
	if len(id) != timeDigits+randomDigits {
		return time.Time{}
	}
	var ms int64
	for i := range timeDigits {
		digit := strings.IndexByte(digits, id[i])
		if digit < 0 {
			return time.Time{}
		}
		ms = ms<<6 | int64(digit)
	}
	return time.UnixMilli(ms)
}

// next returns the next id at a time in Unix milliseconds.
func (s *ids) next(now int64) string {
	s.mu.Lock()
	if s.random++; now > s.ms {
		s.ms, s.random = now, draw()
	} else if s.random == randoms {
		s.ms, s.random = s.ms+1, draw()
	}
	ms, random := s.ms, s.random
	s.mu.Unlock()
	id := make([]byte, 0, timeDigits+randomDigits)
	return string(appendDigits(appendDigits(id, ms, timeDigits), random, randomDigits))
}

// draw returns random bits of the kernel. They are needed at most once a millisecond,
// so nothing is buffered that a copy of a process or of its machine would draw, too.
func draw() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.NativeEndian.Uint64(b[:]) % randoms)
}

// appendDigits appends the last n digits of a number in base 64.
func appendDigits(to []byte, number int64, n int) []byte {
	for shift := 6 * (n - 1); shift >= 0; shift -= 6 {
		to = append(to, digits[number>>shift&63])
	}
	return to
}

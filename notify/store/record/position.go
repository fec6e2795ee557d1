package record

import (
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Position is the place of a broadcast among all sent broadcasts of a store: the
// time at which it was sent by Redis's clock, in Unix microseconds, adjusted so that
// positions are unique and only grow. A listener that continues behind the last
// position that it handled misses nothing, on any number of topics.
type Position int64

// String returns the position as the logs in Redis have it: MS-US, Unix
// milliseconds and the microseconds within.
func (p Position) String() string {
	return strconv.FormatInt(int64(p)/1000, 10) + "-" + strconv.FormatInt(int64(p)%1000, 10)
}

// Time returns the time at which the broadcast was sent.
func (p Position) Time() time.Time { return time.UnixMicro(int64(p)) }

// MarshalText is String.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePosition.
func (p *Position) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePosition(string(text))
	return err
}

// ParsePosition reads a position as String writes it. The error is an ErrInvalid.
func ParsePosition(text string) (Position, error) {
	before, behind, ok := strings.Cut(text, "-")
	ms, errMs := strconv.ParseUint(before, 10, 63)
	us, errUs := strconv.ParseUint(behind, 10, 63)
	if !ok || errMs != nil || errUs != nil || ms > MaxDueMs || us > 999 {
		return 0, fault.New("position", "position %.100q: use the position of a broadcast, such as 1732128000123-456", text)
	}
	return Position(ms*1000 + us), nil
}

// lastPosition is the last position that a Lua number holds. What is beyond is foreign.
const lastPosition = 1<<53 - 1

// PositionIn reads a position from text. A foreign text is 0.
func PositionIn(text string) Position {
	n, _ := strconv.ParseFloat(text, 64)
	return PositionAt(n)
}

// PositionAt returns the position that a score is. A foreign score is 0.
func PositionAt(score float64) Position {
	if !(score >= 0 && score <= lastPosition) {
		return 0
	}
	return Position(score)
}

// PositionOf reads the id of an entry. A foreign one may have more than 999 us
// behind the dash: these count into the next ms.
func PositionOf(id string) Position {
	before, behind, _ := strings.Cut(id, "-")
	ms, _ := strconv.ParseInt(before, 10, 64)
	us, _ := strconv.ParseInt(behind, 10, 64)
	return Position(ms*1000 + us)
}

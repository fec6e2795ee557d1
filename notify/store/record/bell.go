package record

import (
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Bell announces which logs have grown: behind Since none but those of Topics,
// and none behind Last. A bell is published, so it may be lost, or come from
// another program. Treat it as a hint to read the logs, and never as their content.
type Bell struct {
	Since, Last Position
	Topics      []string
}

// ParseBell reads a bell as the carrier publishes it: SINCE,LAST,TOPIC,TOPIC. The
// error is an ErrInvalid.
func ParseBell(text string) (b Bell, err error) {
	fields := strings.Split(text, ",")
	if len(fields) < 2 {
		return Bell{}, fault.New("bell", "bell %.100q: use two positions and topics, separated by commas", text)
	}
	if b.Since, err = ParsePosition(fields[0]); err != nil {
		return Bell{}, err
	}
	if b.Last, err = ParsePosition(fields[1]); err != nil {
		return Bell{}, err
	}
	b.Topics = fields[2:]
	return b, nil
}

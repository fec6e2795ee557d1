package subscribers

import (
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// From says where a listener begins. The zero From is FromNow for a listener
// without a name and for a new name, and the present position of a name that is known.
type From struct {
	text   string
	after  notify.Position // of a time
	marked bool            // text is a bookmark
}

// FromNow begins with the next broadcast.
func FromNow() From { return From{text: "now"} }

// FromBeginning begins with the oldest broadcast that is kept.
func FromBeginning() From { return From{text: "beginning"} }

// FromTime begins with the first broadcast that was sent at a time or later; one that is still to come is now.
func FromTime(t time.Time) From {
	return From{text: t.UTC().Format(time.RFC3339Nano), after: notify.Position(max(t.UnixMicro()-1, 0))}
}

// After begins with the first broadcast behind a bookmark: that of the last one that was
// handled. Listen refuses a bookmark of a store with another number of shards; and in a
// store of several shards, for a pattern of many topics, a position alone.
func After(b Bookmark) From { return From{text: string(b), marked: true} }

// ParseFrom reads now, beginning, a time of RFC 3339 or a bookmark. The error is a notify.ErrInvalid.
func ParseFrom(text string) (From, error) {
	switch text {
	case "now":
		return FromNow(), nil
	case "beginning":
		return FromBeginning(), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.UnixMilli() >= 0 && !t.After(record.MaxDue) {
		return FromTime(t), nil
	}
	if _, err := Bookmark(text).positions(); err == nil {
		return After(Bookmark(text)), nil
	}
	return From{}, fault.New("from", "from %.100q: use now, beginning, a time of RFC 3339 such as %s, or the bookmark of a listener", text, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
}

// String returns it as ParseFrom reads it; empty for the zero From.
func (f From) String() string { return f.text }

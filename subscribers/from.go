package subscribers

import (
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// From says where a listener begins. The zero From is FromNow for a listener
// without a name and for a new name, and the present position of a name that is known.
type From struct {
	text  string
	after notify.Position
}

// FromNow begins with the next broadcast.
func FromNow() From { return From{text: "now"} }

// FromBeginning begins with the oldest broadcast that is kept.
func FromBeginning() From { return From{text: "beginning"} }

// FromTime begins with the first broadcast that was sent at a time or later; one that is still to come is now.
func FromTime(t time.Time) From {
	return From{t.UTC().Format(time.RFC3339Nano), notify.Position(max(t.UnixMicro()-1, 0))}
}

// After begins with the first broadcast behind a position: that of the last one
// that was handled.
func After(p notify.Position) From { return From{p.String(), p} }

// ParseFrom reads now, beginning, a time of RFC 3339 or a position. The error is a notify.ErrInvalid.
func ParseFrom(text string) (From, error) {
	switch text {
	case "now":
		return FromNow(), nil
	case "beginning":
		return FromBeginning(), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.UnixMilli() >= 0 && !t.After(store.MaxDue) {
		return FromTime(t), nil
	}
	if p, err := notify.ParsePosition(text); err == nil {
		return After(p), nil
	}
	return From{}, store.Faultf("from", "from %.100q: use now, beginning, a time of RFC 3339 such as %s, or the position of a broadcast", text, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
}

// String returns it as ParseFrom reads it; empty for the zero From.
func (f From) String() string { return f.text }

package subscribers

import (
	"log/slog"
	"time"
)

// LogValue returns what a log shows of the delivery, and of a [Death]: neither its body nor its headers,
// which may be large or secret.
func (d Delivery) LogValue() slog.Value { return logged(d.Topic, d.ID, d.Due, d.Attempt, len(d.Body)) }

// LogValue returns what a log shows of the broadcast, as of a delivery.
func (b Broadcast) LogValue() slog.Value { return logged(b.Topic, b.ID, b.Due, b.Attempt, len(b.Body)) }

func logged(topic, id string, due time.Time, attempt, bytes int) slog.Value {
	return slog.GroupValue(slog.String("topic", topic), slog.String("id", id), slog.Time("due", due), slog.Int("attempt", attempt), slog.Int("bytes", bytes))
}

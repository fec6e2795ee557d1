package subscribers_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// A log shows which message it is, and nothing of what is in it.
func TestLogValues(t *testing.T) {
	t.Parallel()
	record := notify.Record{Body: []byte("secret"), Headers: map[string]string{"Key": "secret"}}
	d := subscribers.Delivery{Topic: "orders", ID: "order-4711", Attempt: 3, Record: record}
	b := subscribers.Broadcast{Topic: "orders", ID: "order-4711", Attempt: 3, Record: record}
	death := subscribers.Death{Delivery: d, Reason: "no such customer"}
	for name, value := range map[string]any{"delivery": d, "its address": &d, "broadcast": b, "address of one": &b, "death": death, "address of a death": &death} {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "m", value)
		line := log.String()
		if strings.Contains(line, "secret") || !strings.Contains(line, "m.topic=orders m.id=order-4711") || !strings.Contains(line, "m.attempt=3 m.bytes=6") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

package notify

import (
	"context"
	"strconv"
	"time"
)

// Encode returns what Redis holds of a message that was published at a time.
func (m *Message) Encode(published time.Time) (string, error) {
	tail, err := m.record().EncodeTail()
	return `{"at":` + strconv.FormatInt(published.UnixMilli(), 10) + tail, err
}

// Check reports what is wrong with a message.
func (m *Message) Check() error { return m.check(DefaultMaxBody) }

// PublishWhen publishes a message that is due as publish.lua is told it, past the checks in Go.
func (p *Publisher) PublishWhen(ctx context.Context, m Message, when string) (Publication, error) {
	out, err := p.prepare(m)
	if err != nil {
		return Publication{}, err
	}
	keys, args, _ := p.arguments([]*outgoing{out})
	args[len(args)-2] = when
	reply, err := p.store.Run(ctx, publishScript, keys, args...)
	if err != nil {
		return Publication{}, err
	}
	result := resultOf(out, reply[0].(int64), reply[1].(int64))
	return result.Publication, result.Err
}

// RestoredOf returns what publish.lua is told of a message that is restored.
func RestoredOf(m *Message) string { return restoredOf(m) }

package notify

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Encode returns what Redis holds of a message that was published at a time.
func (m *Message) Encode(published time.Time) (string, error) {
	tail, err := m.record().EncodeTail()
	return record.EncodeTimes(published, published) + tail, err
}

// Check returns a Fault for the first invalid field of a message.
func (m *Message) Check() error { return m.check(DefaultMaxBody) }

// DrawFrom makes p generate ids by a function.
func (p *Publisher) DrawFrom(newID func() string) { p.newID = newID }

// PublishWhen publishes a message with a due time that is not checked in Go.
func (p *Publisher) PublishWhen(ctx context.Context, m Message, when store.When) (Publication, error) {
	out, err := p.prepare(m)
	if err != nil {
		return Publication{}, err
	}
	message := out.publish()
	message.When = when
	placed, err := p.store.Of(m.Topic).Publish(ctx, []store.Publish{message})
	if err != nil {
		return Publication{}, err
	}
	result := resultOf(&out.Message, placed[0])
	return result.Publication, result.Err
}

// RestoredOf returns what the publish script gets of a restored message.
func RestoredOf(m *Message) string {
	restored, _, err := restoredOf(m, false)
	if err != nil {
		return err.Error()
	}
	return restored.String()
}

// EncodeTimes returns the times that a record begins with.
func EncodeTimes(published, firstDue time.Time) string {
	return record.EncodeTimes(published, firstDue)
}

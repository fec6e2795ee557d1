package notify

import (
	"context"
	"fmt"
)

// Pause has nothing of a topic handed out until Resume: claims get nothing, and
// nobody is woken. Its messages are accepted, become ready, expire and can be
// cancelled as ever; those that a worker has in hand can be settled, and
// broadcasts are sent. A topic that is paused already stays so, and one that was
// never used may be paused. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) Pause(ctx context.Context, topic string) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if err := p.store.Of(topic).Pause(ctx, topic); err != nil {
		return fmt.Errorf("pause %s: %w", topic, err)
	}
	return nil
}

// Resume ends a Pause, and wakes who waits for what is ready. A topic that is
// not paused stays so. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) Resume(ctx context.Context, topic string) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if err := p.store.Of(topic).Resume(ctx, topic); err != nil {
		return fmt.Errorf("resume %s: %w", topic, err)
	}
	return nil
}

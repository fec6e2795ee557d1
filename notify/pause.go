package notify

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store"
)

var (
	//go:embed pause.lua
	pauseSource string
	pauseScript = store.NewScript("pause", pauseSource).Promised()

	//go:embed resume.lua
	resumeSource string
	resumeScript = store.NewScript("resume", resumeSource).Promised()
)

// Pause has nothing of a topic handed out until Resume: claims get nothing, and
// nobody is woken. Its messages are accepted, become ready, expire and can be
// cancelled as ever; those that a worker has in hand can be settled, and
// broadcasts are sent. A topic that is paused already stays so, and one that was
// never used may be paused. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) Pause(ctx context.Context, topic string) error {
	return p.switchTopic(ctx, "pause", pauseScript, topic)
}

// Resume ends a Pause, and wakes who waits for what is ready. A topic that is
// not paused stays so. Errors: ErrInvalid, or that of the connection.
func (p *Publisher) Resume(ctx context.Context, topic string) error {
	return p.switchTopic(ctx, "resume", resumeScript, topic)
}

// switchTopic pauses or resumes a topic. It may be done twice, so a call that
// Redis did not carry out is repeated for a while.
func (p *Publisher) switchTopic(ctx context.Context, what string, script *store.Script, topic string) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	_, err := store.Retry(ctx, func() ([]any, error) { return p.store.Run(ctx, script, p.store.Keys().Topic(topic), topic) })
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, topic, err)
	}
	return nil
}

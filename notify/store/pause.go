package store

import "context"

var (
	pauseScript  = script("pause", promised)
	resumeScript = script("resume", promised)
)

// Pause has nothing of a topic handed out, and nobody rung for it, until Resume. A
// topic that is paused already stays so. A call that Redis did not carry out is
// repeated for about a second. The error is an ErrUnreplicated, or that of the
// connection.
func (s Shard) Pause(ctx context.Context, topic string) error {
	r, err := s.repeat(ctx, pauseScript, topic)
	if err != nil {
		return err
	}
	return r.end()
}

// Resume ends a Pause, and rings for what is ready. It repeats a call, and fails,
// as Pause does.
func (s Shard) Resume(ctx context.Context, topic string) error {
	r, err := s.repeat(ctx, resumeScript, topic)
	if err != nil {
		return err
	}
	return r.end()
}

package push

import (
	"context"
	"maps"
	"sync"

	"github.com/bellhopd/bellhop/subscribers"
)

// A crew handles the messages of the topics of one kind of pushes, while it serves, with a Subscriber. Where the topics change another
// one takes its place.
type crew struct {
	*Pusher
	handle subscribers.Handler

	mu      sync.Mutex
	topics  map[string]int     // most messages in flight of each
	serving context.Context    // of serve; nil: it is not called
	stop    context.CancelFunc // of the subscriber
	running sync.WaitGroup     // subscribers
}

// serve has the crew work until ctx ends, and returns when what is under way is settled.
func (c *crew) serve(ctx context.Context) {
	c.mu.Lock()
	c.serving = ctx
	err := c.begin()
	c.mu.Unlock()
	if err != nil {
		c.o.Logger.Error("cannot push", "error", err)
	}
	<-ctx.Done()
	c.mu.Lock()
	c.serving = nil // no other subscriber begins
	c.mu.Unlock()
	c.running.Wait()
}

// assign gives the crew its topics.
func (c *crew) assign(topics map[string]int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if maps.Equal(c.topics, topics) {
		return nil
	}
	c.topics = topics
	return c.begin()
}

// begin has a new subscriber handle the topics, and the one before finish what it has. The mutex is held.
func (c *crew) begin() error {
	if c.stop != nil {
		defer c.stop()
		c.stop = nil
	}
	if len(c.topics) == 0 || c.serving == nil {
		return nil
	}
	s, err := subscribers.NewSubscriber(c.store, subscribers.SubscriberOptions{Version: c.o.Version, Grace: c.o.Grace, Logger: c.o.Logger})
	if err != nil {
		return err
	}
	for topic, most := range c.topics {
		if err := s.Handle(topic, c.handle, subscribers.HandleOptions{Concurrency: most}); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(c.serving)
	c.stop = stop
	c.running.Go(func() {
		defer c.handovers.of(s)()
		if err := s.Run(ctx); err != nil && ctx.Err() == nil {
			c.o.Logger.Error("pushing ended", "error", err)
		}
	})
	return nil
}

package push

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify/budget"
	"github.com/bellhopd/bellhop/subscribers"
)

// A crew handles the messages of the topics of one kind of pushes, while it serves, with a Subscriber. Topics come and go while that runs.
type crew struct {
	*Pusher
	handle subscribers.Handler

	mu         sync.Mutex
	posts      map[string]*post        // by topic
	found      int                     // of these, by patterns
	serving    context.Context         // of serve; nil: it is not called
	subscriber *subscribers.Subscriber // nil: none runs
	working    context.Context         // of the subscriber
	running    sync.WaitGroup          // subscribers
}

// A share is what a topic, or a name that listens, may have in flight.
type share struct {
	most int            // messages
	of   *budget.Budget // of its endpoint
}

// A post is a topic of a crew.
type post struct {
	share
	found bool               // by a pattern: no push names it
	end   context.CancelFunc // of the work; nil: it never began
	busy  atomic.Int64       // messages that are handled
	last  atomic.Int64       // when one came or went, or the post was made, as Pusher.clock
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

// begin has a subscriber handle all topics, unless one does, or there is nothing to do. The mutex is held.
func (c *crew) begin() error {
	if c.subscriber != nil || c.serving == nil || c.serving.Err() != nil || len(c.posts) == 0 {
		return nil
	}
	s, err := subscribers.NewSubscriber(c.store, subscribers.SubscriberOptions{Version: c.o.Version, Grace: c.o.Grace, Logger: c.o.Logger})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(c.serving)
	c.subscriber, c.working = s, ctx
	for topic, p := range c.posts {
		if err := c.man(topic, p); err != nil {
			stop()
			c.subscriber = nil
			return err
		}
	}
	c.running.Go(func() {
		defer stop()
		defer c.handovers.of(s)()
		if err := s.Run(ctx); err != nil && ctx.Err() == nil {
			c.o.Logger.Error("pushing ended", "error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.subscriber == s {
			c.subscriber = nil
		}
	})
	return nil
}

// man has the subscriber work for a topic. The mutex is held.
func (c *crew) man(topic string, p *post) error {
	var until context.Context
	until, p.end = context.WithCancel(c.working)
	p.last.Store(c.clock())
	err := c.subscriber.Handle(topic, func(ctx context.Context, d *subscribers.Delivery) error {
		p.busy.Add(1)
		defer func() {
			p.last.Store(c.clock())
			p.busy.Add(-1)
		}()
		return c.handle(ctx, d)
	}, subscribers.HandleOptions{Concurrency: p.most, Budget: p.of, Until: until})
	if c.working.Err() != nil { // the next subscriber has the topic
		return nil
	}
	return err
}

// clock returns the time since the pusher was made, in ns.
func (p *Pusher) clock() int64 { return int64(time.Since(p.made)) }

// assign gives the crew the topics that pushes name, with what each may have in flight. It keeps those that patterns found for which found
// returns as much.
func (c *crew) assign(named map[string]share, found func(topic string) share) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var faults []error
	for topic, p := range c.posts {
		its, is := named[topic]
		if !is && (p.found || c.found < c.bound) {
			its = found(topic)
		}
		switch {
		case its.most == 0:
			c.drop(topic, p)
		case its != p.share:
			c.drop(topic, p)
			faults = append(faults, c.add(topic, &post{share: its, found: !is}))
		default:
			c.count(p, -1)
			p.found = !is
			c.count(p, 1)
		}
	}
	for topic, its := range named {
		if c.posts[topic] == nil {
			faults = append(faults, c.add(topic, &post{share: its}))
		}
	}
	return errors.Join(append(faults, c.begin())...)
}

// add adds a topic. The mutex is held.
func (c *crew) add(topic string, p *post) error {
	if c.posts == nil {
		c.posts = make(map[string]*post)
	}
	p.last.Store(c.clock())
	c.posts[topic] = p
	c.count(p, 1)
	if c.subscriber == nil {
		return nil
	}
	return c.man(topic, p)
}

// drop ends the work for a topic. The mutex is held.
func (c *crew) drop(topic string, p *post) {
	delete(c.posts, topic)
	c.count(p, -1)
	if p.end != nil {
		p.end()
	}
}

// count counts a topic, by 1 or -1, if a pattern found it. The mutex is held.
func (c *crew) count(p *post, by int) {
	if p.found {
		c.found += by
	}
}

// has reports whether the crew has a topic.
func (c *crew) has(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.posts[topic] != nil
}

// find adds a topic that a pattern names, if there is room. To make some, it lets that one go of those that patterns found which had
// nothing for the longest time, where the new one is ready.
func (c *crew) find(topic string, its share, ready bool) (room bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.posts[topic] != nil {
		return true, nil
	}
	if c.found >= c.bound {
		idlest, p := c.idlest()
		if !ready || p == nil {
			return false, nil
		}
		c.drop(idlest, p)
	}
	return true, errors.Join(c.add(topic, &post{share: its, found: true}), c.begin())
}

// idlest returns the topic, of those that patterns found, that has had nothing for the longest time; nil if all are busy. The mutex is
// held.
func (c *crew) idlest() (topic string, p *post) {
	for other, o := range c.posts {
		if o.found && o.busy.Load() == 0 && (p == nil || o.last.Load() < p.last.Load()) {
			topic, p = other, o
		}
	}
	return topic, p
}

// letGo ends the work for the topics that patterns found and that had nothing for some time: then they can be forgotten.
func (c *crew) letGo(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, p := range c.posts {
		if p.found && p.busy.Load() == 0 && c.clock()-p.last.Load() > int64(idle) {
			c.drop(topic, p)
		}
	}
}

// topics returns the topics that the crew has.
func (c *crew) topics() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.posts))
}

// held returns how many topics patterns found.
func (c *crew) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found
}

package dev

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/daemon"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

const tourTopic = "tour"

var tourDelays = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second}

// tour schedules a few messages and prints each delivery. It returns when all have
// arrived, or when ctx ends.
func tour(ctx context.Context, c daemon.Config, o Options) error {
	store, err := notify.Open(c.Notify())
	if err != nil {
		return err
	}
	defer store.Close()
	sub, err := subscribers.NewSubscriber(store, c.Subscriber(o.Logger))
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	v := &visit{out: o.Out, done: done, missing: make(map[string]bool)}
	if err := sub.Handle(tourTopic, v.arrived, subscribers.HandleOptions{}); err != nil {
		return err
	}
	pub, err := notify.NewPublisher(store, c.Publisher())
	if err != nil {
		return err
	}
	if err := v.publish(ctx, pub); err != nil {
		return err
	}
	if err := sub.Run(ctx); err != nil {
		return err
	}
	fmt.Fprintln(o.Out)
	return nil
}

// visit is one run of the tour.
type visit struct {
	out  io.Writer
	done func()

	mu      sync.Mutex
	missing map[string]bool // ids that have not arrived
}

func (v *visit) publish(ctx context.Context, pub *notify.Publisher) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, "A tour: %d messages on the topic %q, due one after the other.\n", len(tourDelays), tourTopic)
	for i, delay := range tourDelays {
		p, err := pub.Publish(ctx, notify.Message{
			Topic: tourTopic, Delay: delay, Body: fmt.Appendf(nil, "message %d, with a delay of %v", i+1, delay),
		})
		if err != nil {
			return fmt.Errorf("tour: %w", err)
		}
		v.missing[p.ID] = true
		fmt.Fprintf(v.out, "  published  %s  due %s\n", p.ID, p.Due.Format("15:04:05.000"))
	}
	return nil
}

// arrived handles a message. It ignores messages of an earlier, interrupted tour.
func (v *visit) arrived(_ context.Context, d *subscribers.Delivery) error {
	late := d.Late()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.missing[d.ID] {
		return nil
	}
	delete(v.missing, d.ID)
	fmt.Fprintf(v.out, "  delivered  %s  %.1f ms late: %s\n", d.ID, float64(late.Microseconds())/1000, d.Body)
	if len(v.missing) == 0 {
		v.done()
	}
	return nil
}

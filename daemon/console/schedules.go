package console

import (
	"context"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	scheduleReads = 100   // schedules that are read at a time
	mostSchedules = 2_000 // of a topic, or of a shard, that are read for the page
)

var schedulesPage = page{
	path: Root + "schedules", title: "Schedules", nav: "schedules", name: "schedules", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.schedules(ctx, v) },
}

// schedulesView is what the page of schedules shows.
type schedulesView struct {
	*visit
	Topic string // of which they are; empty: of all that the viewer sees
	Now   time.Time
	schedulesPart
}

// Put returns the address of the form that adds a schedule.
func (s *schedulesView) Put() string { return putSchedulePath(s.Topic, "") }

// schedules returns what the page of schedules shows.
func (c *Console) schedules(ctx context.Context, v *visit) (any, error) {
	view := &schedulesView{visit: v, Topic: strings.TrimSpace(v.query("topic")), Now: c.now(ctx)}
	if err := v.check("listAllSchedules"); err != nil {
		return nil, err
	}
	in, err := v.scope("")
	if err != nil {
		return view, err
	}
	key, read := in.key, func(ctx context.Context) (schedulesPart, error) { return c.schedulesIn(ctx, in) }
	if view.Topic != "" {
		if err := v.check("listSchedules", "topic", view.Topic); err != nil {
			return view, err
		}
		key, read = "topic "+view.Topic, func(ctx context.Context) (schedulesPart, error) { return c.schedulesOf(ctx, view.Topic) }
	}
	view.schedulesPart, err = c.caches.schedules.Get(ctx, key, cache.Keep{Age: relisted}, read)
	return view, err
}

// schedulesIn returns the schedules of topics in a scope: of each shard those at which the carrier looks first. The error may be a MissingError.
func (c *Console) schedulesIn(ctx context.Context, in scope) (schedulesPart, error) {
	parts, err := store.Gather(ctx, c.store, func(ctx context.Context, shard store.Shard) (part schedulesPart, err error) {
		after := store.Mark{}
		for read := 0; read < mostSchedules && len(part.Rows) <= scheduleRows; read += scheduleReads {
			page, err := shard.AllSchedules(ctx, scheduleReads, after)
			if err != nil {
				return part, err
			}
			for i := range page.Schedules {
				if one := &page.Schedules[i].Listed; in.has(one.Schedule.Topic) {
					part.Rows = append(part.Rows, rowOf(one, page.Now))
				}
			}
			after = page.Next
			if part.More = after != (store.Mark{}); !part.More {
				break
			}
		}
		return part, nil
	})
	var all schedulesPart
	for _, part := range parts {
		all.Rows, all.More = append(all.Rows, part.Rows...), all.More || part.More
	}
	return all.sorted(), err
}

// schedulesOf returns the schedules of a topic.
func (c *Console) schedulesOf(ctx context.Context, topic string) (all schedulesPart, err error) {
	now := c.now(ctx)
	known := make(map[string]bool)
	for cursor := ""; ; {
		page, next, err := c.store.Of(topic).BareSchedules(ctx, topic, cursor)
		if err != nil {
			return all, err
		}
		for i := range page {
			if one := &page[i]; !known[one.Schedule.Name] { // a page may have what another had
				known[one.Schedule.Name] = true
				all.Rows = append(all.Rows, rowOf(one, now))
			}
		}
		cursor = next
		if all.More = cursor != ""; !all.More || len(all.Rows) >= mostSchedules {
			return all.sorted(), nil
		}
	}
}

package calls

import (
	"context"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/servers/memory"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Clock is what a clock tells that is moved by hand.
type Clock struct {
	Now       time.Time  `json:"now" doc:"the time by the clock of Redis" example:"2030-01-02T00:30:00Z"`
	Scheduled int64      `json:"scheduled" doc:"messages and broadcasts that wait for their times" example:"1"`
	Next      *time.Time `json:"next,omitempty" doc:"when the next thing is due, such as a message, or the end of a lease; missing: nothing is" example:"2030-01-02T02:30:00Z"`
}

// Advanced is what an advance brought.
type Advanced struct {
	Clock
	Steps     int   `json:"steps" doc:"due times at which it stopped" example:"3"`
	Published int64 `json:"published" doc:"messages that were published meanwhile, by schedules, too" example:"0"`
	Delivered int64 `json:"delivered" doc:"messages that were acknowledged meanwhile" example:"2"`
	Dead      int64 `json:"dead" doc:"messages that died meanwhile" example:"0"`
}

func clockOf(t memory.Told) Clock {
	c := Clock{Now: t.Now, Scheduled: t.Scheduled}
	if !t.Next.IsZero() {
		c.Next = &t.Next
	}
	return c
}

// clock returns the clock of a daemon that has one, to a client that may use all topics.
func (s *Service) clock(r *Request) (*memory.Clock, error) {
	if err := r.AllowAll(); err != nil {
		return nil, err
	}
	if s.Clock == nil {
		return nil, api.ErrNoClock
	}
	return s.Clock, nil
}

const pathClock = "/v1/clock"

var _ = define(Call{
	Name: "clock", Method: "GET", Path: pathClock, Tag: TagOperate, Status: http.StatusOK, Reply: Clock{}, NATS: Plain,
	Rights: []Right{MayAdmin}, Errors: []int{404}, Summary: "Get the time by a clock that is moved by hand",
	Description: "Only `bellhop dev --clock manual` has one. The token must permit all topics.",
}, func(ctx context.Context, s *Service, r *Request, _ *nothing) (any, error) {
	clock, err := s.clock(r)
	if err != nil {
		return nil, err
	}
	t, err := clock.Tell(ctx)
	return reply(clockOf(t), err)
})

// longestAdvance is ten years.
const longestAdvance = 10 * 366 * 24 * time.Hour

type advanceInput struct {
	Advance time.Duration `query:"advance" shortest:"1ms" longest:"87840h" example:"30m" doc:"how far; or give to, or next"`
	To      time.Time     `query:"to" without:"advance" example:"2030-01-02T00:30:00Z" doc:"up to when: a time to come, at most ten years ahead"`
	Next    bool          `query:"next" doc:"true: to the next due time, if there is one"`
	Wait    time.Duration `query:"wait" shortest:"0s" longest:"5m" default:"10s" doc:"how long, in real time, it waits at each due time until handlers are done"`
	Force   bool          `query:"force" doc:"true: it goes on then, and the leases of what is in hand end as in life"`
}

// goal returns up to when a clock is moved; zero: to the next due time.
func (in *advanceInput) goal(now time.Time) (time.Time, error) {
	latest := now.Add(longestAdvance)
	if memory.LastTime.Before(latest) {
		latest = memory.LastTime
	}
	goal := in.To
	switch {
	case in.Next && (in.Advance != 0 || !in.To.IsZero()):
		return goal, fault.New("next", "next: it is given beside advance or to; give one of them")
	case in.Next:
		return time.Time{}, nil
	case in.Advance != 0:
		goal = now.Add(in.Advance)
	case in.To.IsZero():
		return goal, fault.New("advance", "advance: it is missing; say how far, such as advance=30m, or give to, or next=true")
	case !in.To.After(now):
		return goal, fault.New("to", "to %s: it is %s already; give a later time", in.To.Format(time.RFC3339Nano), now.Format(time.RFC3339Nano))
	}
	if goal.After(latest) {
		return goal, fault.New("to", "to %s: it is too far ahead; give a time up to %s", goal.Format(time.RFC3339Nano), latest.Format(time.RFC3339Nano))
	}
	return goal, nil
}

var _ = define(Call{
	Name: "advance", Method: "POST", Path: pathClock, Tag: TagOperate, Status: http.StatusOK, Reply: Advanced{}, NATS: Plain,
	Rights: []Right{MayAdmin}, Errors: []int{404, 409}, Lasts: true, Takes: time.Hour,
	Summary: "Move a clock by hand, from due time to due time",
	Description: "Only `bellhop dev --clock manual` has one. At each due time it waits until what is due was moved, nothing is leased, and nothing is ready that a worker takes; what a handler does behind its acknowledgement is not seen. " +
		"Where something is in hand for longer than wait, the answer is 409, of the type urn:bellhop:not-quiet, and time stays where it is. The token must permit all topics.",
}, func(ctx context.Context, s *Service, r *Request, in *advanceInput) (any, error) {
	clock, err := s.clock(r)
	if err != nil {
		return nil, err
	}
	goal, err := in.goal(clock.Now())
	if err != nil {
		return nil, err
	}
	a, err := clock.Advance(ctx, memory.Advance{To: goal, Wait: in.Wait, Force: in.Force})
	return reply(Advanced{clockOf(a.Told), a.Steps, a.Published, a.Acked, a.Died}, err)
})

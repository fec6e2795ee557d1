package model_test

import (
	"github.com/bellhopd/bellhop/notify"
)

// A kind is what a call does.
type kind int

const (
	publishing kind = iota
	cancelling
	cancellingNext
	looking
	claiming
	claimingNow // and acknowledging
	acking
	nacking
	burying
	snoozing
	releasing
	extending
)

// A call is one call for one id. Times without a unit in their names are in ms.
type call struct {
	Kind     kind
	Key      int64 // of the call: body of what it publishes, name of the lease that it claims
	Topic    int
	ID       int
	Begin    int64 // us
	End      int64 // us
	Answered bool  // else its process was killed

	// What it asks for.
	Mode      notify.IfExists
	Broadcast bool
	After     bool
	Drop      bool
	Limit     int   // of attempts
	Delay     int64 // of an extension, the lease
	MaxWait   int64
	Unique    int64
	Lease     int64 // of a claim; what settles has the key of that claim

	// Its answer.
	Answer    string // outcome, error or new state
	State     string
	Due       int64
	Previous  int64
	Body      int64
	Next      int64 // body
	Attempt   int   // of a claim; used up, where it looks
	Published int64
	First     int64
}

// now returns the first and the last ms in which the call may have happened.
func (c *call) now() span { return span{c.Begin / 1000, c.End / 1000} }

// A span is from one ms to another.
type span [2]int64

func (s span) has(ms int64) bool { return s[0] <= ms && ms <= s[1] }

// A message is what was published; the zero value is none.
type message struct {
	body      int64
	at        span // of its first publish
	due       int64
	limit     int
	unique    int64
	broadcast bool
	drop      bool
}

// A place is where the message of an id is.
type place int

const (
	none place = iota
	waiting
	leased
	dead
	done
)

// A state is the model of one id. A time of 0 is not known.
type state struct {
	place
	message
	since int64 // waiting: when it is due
	used  int   // attempts
	lease int64 // key of its claim
	until int64 // us: the lease ends no earlier
	over  span  // done: when the id is free
	next  message
}

// lapsed returns the states that s may have come to by itself until the call: itself,
// and those after the end of a lease, the sending of a broadcast, and the freeing of an
// id.
func (s state) lapsed(c *call) []state {
	now := c.now()
	switch {
	case s.place == leased && s.until <= c.End:
		return append(s.failed(span{s.until / 1000, now[1]}, 0).lapsed(c), s)
	case s.place == waiting && s.broadcast && s.since <= now[1]:
		return append(s.ended(span{max(s.since, 0), now[1]}).lapsed(c), s)
	case s.place == done && s.over[1] <= now[0]:
		return []state{{}}
	case s.place == done && s.over[0] <= now[1]:
		return []state{{}, s}
	}
	return []state{s}
}

// ended returns s after its message was acknowledged, dropped or sent at a time.
func (s state) ended(at span) state {
	switch {
	case s.next.body != 0:
		return waits(s.next)
	case s.unique > 0:
		return state{place: done, over: span{at[0] + s.unique, at[1] + 1 + s.unique}}
	}
	return state{}
}

func waits(m message) state { return state{place: waiting, message: m, since: m.due} }

// failed returns s after an attempt failed at a time, and is due again.
func (s state) failed(at span, due int64) state {
	if s.used++; s.used >= s.limit {
		if s.drop {
			return s.ended(at)
		}
		return s.died()
	}
	return s.again(due)
}

// again returns s when its message waits again.
func (s state) again(due int64) state {
	s.place, s.since, s.lease, s.until = waiting, due, 0, 0
	return s
}

func (s state) died() state {
	if s.next.body != 0 {
		return waits(s.next)
	}
	return state{place: dead, message: s.message, used: s.used}
}

// after returns s after a call, and whether the call's answer is right for it.
func (s state) after(c *call) (state, bool) {
	now := c.now()
	switch c.Kind {
	case publishing:
		return s.published(c)
	case cancelling:
		switch s.place {
		case none:
			return s, c.says("none")
		case leased:
			return s, c.says("leased")
		}
		return state{}, c.says("ok") && c.isIn(s)
	case cancellingNext:
		there := s.next.body != 0
		s.next = message{}
		return s, c.says(map[bool]string{true: "ok", false: "none"}[there])
	case looking:
		return s, s.seen(c)
	case claiming, claimingNow:
		if s.place != waiting || s.broadcast || s.since > now[1] || c.Answered && !s.delivered(c) {
			return s, false
		} else if c.Kind == claimingNow {
			return s.ended(now), true
		}
		s.place, s.lease, s.until = leased, c.Key, c.Begin+1000*c.Lease-10 // the last digit is not of the time
		return s, true
	}
	return s.settled(c)
}

// says reports whether the answer is one, or the call was not answered.
func (c *call) says(answer string) bool { return !c.Answered || c.Answer == answer }

// isIn reports whether the state in the answer is s.
func (c *call) isIn(s state) bool {
	if !c.Answered {
		return true
	}
	switch s.place {
	case waiting:
		return c.State == "scheduled" || c.State == "ready" && !s.broadcast && s.since <= c.now()[1]
	case leased:
		return c.State == "leased"
	case dead:
		return c.State == "dead"
	}
	return s.place == done && c.State == "done"
}

// is reports whether a time is one that the model may not know.
func is(ms, known int64) bool { return known == 0 || ms == known }

func (s state) seen(c *call) bool {
	if s.place == none || !c.Answered {
		return c.says("none")
	}
	return c.says("ok") && c.isIn(s) && c.Body == s.body && c.Next == s.next.body && c.Attempt == s.used && (s.place != waiting || is(c.Due, s.since)) &&
		(s.place == done || s.at.has(c.Published))
}

func (s state) delivered(c *call) bool {
	return c.Body == s.body && c.Attempt == s.used+1 && is(c.Due, s.since) && is(c.First, s.due) && s.at.has(c.Published)
}

func (s state) settled(c *call) (state, bool) {
	if s.place != leased || s.lease != c.Lease {
		return s, c.says("lost")
	}
	now := c.now()
	switch c.Kind {
	case acking:
		return s.ended(now), c.says("ok")
	case releasing:
		return s.again(0), c.says("ok")
	case extending:
		s.until = c.Begin + 1000*c.Delay - 10
		return s, c.says("ok")
	case snoozing:
		return s.again(c.Due), c.says("scheduled") && c.isDue(now, c.Delay)
	case burying:
		s.used++
		return s.died(), c.says("dead")
	}
	to := s.failed(now, c.Due)
	switch {
	case s.used+1 < s.limit:
		return to, c.says("scheduled") && c.isDue(now, c.Delay)
	case s.drop:
		return to, c.says("dropped")
	}
	return to, c.says("dead")
}

// isDue reports whether the answer's due time is a delay from now.
func (c *call) isDue(now span, delay int64) bool {
	return !c.Answered || span{now[0] + delay, now[1] + min(delay, 1) + delay}.has(c.Due)
}

// published returns s after a publish: the table of notify.Publisher.Publish.
func (s state) published(c *call) (state, bool) {
	m := message{
		body: c.Key, at: c.now(), due: c.Due, limit: c.Limit, unique: c.Unique, broadcast: c.Broadcast, drop: c.Drop,
	}
	switch {
	case s.place == none:
		to := waits(m)
		return to, c.says("created") && c.Previous == 0 && c.isDue(m.at, c.Delay) && c.isIn(to)
	case s.place == done && c.Mode == notify.Keep:
		return s, c.says("kept") && c.Due == 0 && c.Previous == 0 && c.isIn(s)
	case s.place == leased && c.After:
		return s.followed(c, m)
	case c.Mode == notify.Refuse || s.place == done:
		return s, c.says("exists")
	case s.place == leased:
		return s, c.says("leased")
	case c.Mode == notify.Replace && s.place == dead:
		to := waits(m)
		return to, c.says("replaced") && c.Previous == 0 && c.isDue(m.at, c.Delay) && c.isIn(to)
	case s.place == dead:
		return s, c.says("dead")
	case c.Mode != notify.Replace && s.broadcast != c.Broadcast:
		return s, c.says("exists")
	case c.Mode == notify.Keep:
		return s, c.says("kept") && c.Due == c.Previous && (!c.Answered || is(c.Due, s.since)) && c.isIn(s)
	}
	outcome, right := "replaced", c.isDue(m.at, c.Delay)
	if c.Mode == notify.Debounce {
		stays := c.Due == c.Previous && c.Due <= c.now()[1] && (c.MaxWait > 0 && s.at[0]+c.MaxWait <= c.now()[1])
		outcome, right, m.at = "moved", stays || c.isPutOff(s.at), s.at
	}
	to := waits(m)
	return to, !c.Answered || c.says(outcome) && right && is(c.Previous, s.since) && c.isIn(to)
}

// isPutOff reports whether the answer's due time is that of a debounced message which
// was first published at a time.
func (c *call) isPutOff(at span) bool {
	if !c.Answered || c.MaxWait == 0 {
		return c.isDue(c.now(), c.Delay)
	}
	now := c.now()
	return span{
		max(min(now[0]+c.Delay, at[0]+c.MaxWait), now[0]), max(min(now[1]+1+c.Delay, at[1]+c.MaxWait), now[1]),
	}.has(c.Due)
}

// followed returns s after a message was published that follows it.
func (s state) followed(c *call, m message) (state, bool) {
	outcome, right := "created", c.isDue(m.at, c.Delay)
	if s.next.body != 0 {
		switch c.Mode {
		case notify.Refuse:
			return s, c.says("exists")
		case notify.Keep:
			return s, c.says("kept") && (!c.Answered || c.Due == c.Previous && is(c.Due, s.next.due)) && c.isIn(s)
		case notify.Replace:
			outcome = "replaced"
		case notify.Debounce:
			outcome, right, m.at = "moved", c.isPutOff(s.next.at), s.next.at
		}
	}
	right = right && c.says(outcome) && c.isIn(s) && (!c.Answered || (s.next.body == 0) == (c.Previous == 0) && is(c.Previous, s.next.due))
	s.next = m
	return s, right
}

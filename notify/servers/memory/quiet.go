package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// back is the part of the wait within which a worker that claimed from a topic is to claim again, when what it had in hand has ended.
const back = 5

// A settling is the wait until the store is quiet at one time. What its last look found keeps it from that.
type settling struct {
	*walk
	bare map[string]time.Time // topics in which something is ready while nobody waits, and since when

	topics    []string           // that may have something ready
	listeners []string           // the named ones
	due       bool               // something is, and was not moved
	leases    map[string]float64 // members that are leased, and when that ends, as a score
	held      []string           // named listeners that have broadcasts in hand, in words
	ready     []string           // topics in which something is ready that a worker takes
}

// A view is what a look reads, at one moment.
type view struct {
	due              []*redis.IntCmd // of the places
	leased           *redis.ZSliceCmd
	topics, names    *redis.StringSliceCmd
	held             []*redis.IntCmd // of the listeners
	ready, waiting   []*redis.IntCmd // of the topics, as what follows
	paused, throttle []*redis.FloatCmd
}

// look reads what may keep the store from being quiet.
func (s *settling) look(ctx context.Context) (v view, err error) {
	k, now := s.keys, s.Now()
	_, err = s.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, place := range append(s.places(), place{k.Schedules(), time.Millisecond}) {
			v.due = append(v.due, p.ZCount(ctx, place.key, "-inf", place.score(now)))
		}
		v.leased = p.ZRangeWithScores(ctx, k.Leased(), 0, -1)
		v.topics, v.names = p.ZRange(ctx, k.ReadyTopics(), 0, -1), p.HKeys(ctx, k.Listeners())
		for _, name := range s.listeners {
			v.held = append(v.held, p.ZCount(ctx, k.Held(name), fmt.Sprintf("(%d", now.UnixMilli()), "+inf"))
		}
		for _, topic := range s.topics {
			v.ready, v.waiting = append(v.ready, p.ZCard(ctx, k.Ready(topic))), append(v.waiting, p.ZCard(ctx, k.Waiting(topic)))
			v.paused = append(v.paused, p.ZScore(ctx, k.PausedTopics(), topic))
			v.throttle = append(v.throttle, p.ZScore(ctx, k.Alarms(), schedules+topic))
		}
		return nil
	})
	if errors.Is(err, redis.Nil) { // a topic is not paused
		err = nil
	}
	return v, err
}

// isQuiet looks whether the store is quiet. Where there are other topics or listeners than at the last look, it looks again.
func (s *settling) isQuiet(ctx context.Context) (bool, error) {
	v, err := s.look(ctx)
	for err == nil && !(slices.Equal(s.topics, v.topics.Val()) && slices.Equal(s.listeners, v.names.Val())) {
		s.topics, s.listeners = v.topics.Val(), v.names.Val()
		v, err = s.look(ctx)
	}
	if err != nil {
		return false, err
	}
	s.due = slices.ContainsFunc(v.due, func(n *redis.IntCmd) bool { return n.Val() > 0 })
	s.noteLeases(v.leased.Val())
	s.held, s.ready = nil, nil
	for i, name := range s.listeners {
		if one := "the listener " + name; v.held[i].Val() > 0 && !s.dropped[one] {
			s.held = append(s.held, one)
		}
	}
	for i, topic := range s.topics {
		is, err := s.isTaken(ctx, topic, v, i)
		if err != nil {
			return false, err
		}
		if is {
			s.ready = append(s.ready, topic)
		}
	}
	return !s.due && len(s.leases) == 0 && len(s.held) == 0 && len(s.ready) == 0, nil
}

// noteLeases notes what is leased and waited for.
func (s *settling) noteLeases(leased []redis.Z) {
	s.leases = make(map[string]float64)
	for _, one := range leased {
		member := one.Member.(string)
		topic, _, _ := strings.Cut(member, ":")
		delete(s.left, topic)
		if _, is := s.released[member]; is {
			s.released[member] = one.Score // it may have been extended
		} else {
			s.leases[member] = one.Score
		}
	}
}

// isTaken reports whether a worker takes what is ready in a topic: it waits, or is to claim again. Nobody does while the topic is paused,
// or its rate lets no more go.
func (s *settling) isTaken(ctx context.Context, topic string, v view, i int) (bool, error) {
	switch {
	case v.ready[i].Val() == 0 || v.paused[i].Err() == nil || v.throttle[i].Err() == nil || s.dropped[topic]:
		return false, nil
	case v.waiting[i].Val() > 0:
		delete(s.left, topic)
		return true, nil
	}
	return s.comesBack(ctx, topic)
}

// comesBack reports whether a worker may claim again that claimed from a topic before, and has nothing in hand of it.
func (s *settling) comesBack(ctx context.Context, topic string) (bool, error) {
	since, known := s.bare[topic]
	switch {
	case s.left[topic]:
		return false, nil
	case known:
		s.left[topic] = time.Since(since) > s.Wait/back
		return !s.left[topic], nil
	}
	claims, err := s.claims(ctx)
	if err != nil || !slices.ContainsFunc(claims, func(c claim) bool { return c.topic == topic }) {
		return false, err
	}
	s.bare[topic] = time.Now()
	return true, nil
}

// A claim is what is known of a call that claimed.
type claim struct{ receipt, topic, worker string }

// claims returns those that the store notes.
func (s *settling) claims(ctx context.Context) (all []claim, err error) {
	entries, err := s.redis.ZRange(ctx, s.keys.Claims(), 0, -1).Result()
	for _, entry := range entries {
		if fields := strings.Fields(entry); len(fields) == 4 {
			all = append(all, claim{fields[0], fields[2], fields[3]})
		}
	}
	return all, err
}

// mostNamed is how much of what is in hand an error names.
const mostNamed = 10

// notQuiet returns an ErrNotQuiet that says what is in hand, and by whom.
func (s *settling) notQuiet(ctx context.Context) error {
	claims, err := s.claims(ctx)
	if err != nil {
		return err
	}
	var what []string
	for _, member := range slices.Sorted(maps.Keys(s.leases)) {
		what = append(what, member+" is leased"+by(claims, member, int64(s.leases[member])))
	}
	for _, one := range s.held {
		what = append(what, one+" has broadcasts in hand")
	}
	for _, topic := range s.ready {
		what = append(what, "no worker of "+topic+" claims what is ready")
	}
	if s.due {
		what = append(what, "what is due is not moved, since no carrier runs")
	}
	if more := len(what) - mostNamed; more > 0 {
		what = append(what[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w at %s after %v: %s; let that end, give a longer wait, or force=true, which goes on without it",
		ErrNotQuiet, shown(s.Now()), s.Wait, strings.Join(what, ", "))
}

// by says who has a member that is leased until a time, as far as that is known: workers that claim at one time have one receipt.
func by(claims []claim, member string, lease int64) string {
	topic, _, _ := strings.Cut(member, ":")
	receipt := strconv.FormatInt(lease-lease%10, 10) // without the digit that differs among the messages of a claim
	var workers []string
	for _, c := range claims {
		if c.receipt == receipt && c.topic == topic {
			workers = append(workers, c.worker)
		}
	}
	if len(workers) == 0 {
		return ""
	}
	return " by " + strings.Join(workers, " or ")
}

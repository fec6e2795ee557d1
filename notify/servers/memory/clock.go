package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bellhopd/bellhop/notify/store/script"
)

// LastTime is the latest time that a clock shows. What a store keeps of subscribers that wait holds until 2065.
var LastTime = time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)

// A Clock is that of a server with a store of one shard. It stands still but for its advances. Keys with a time to live
// stay, such as the lease of the carrier, which lives in real time: what they hold says until when it is good. It is safe
// for concurrent use.
type Clock struct {
	server *Server
	redis  *redis.Client
	keys   script.Keys
	ended  context.Context // ends with Close
	end    context.CancelFunc

	moving sync.Mutex      // held during an advance; guards what follows
	left   map[string]bool // topics whose workers did not come back

	mu        sync.Mutex
	now, goal time.Time // goal: of the advance that is under way, or the last one
}

// Set sets the clock of the server, which stands still from then on.
func (s *Server) Set(now time.Time) { s.redis.SetTime(now) }

// StandStill has the clock of the server stand at a time, for a store that is founded and has those keys. Close the clock before
// the server stops. The error is that of the connection.
func (s *Server) StandStill(ctx context.Context, keys script.Keys, at time.Time) (*Clock, error) {
	s.redis.ClockTTL(false)
	c := &Clock{
		server: s, keys: keys, left: make(map[string]bool),
		redis: redis.NewClient(&redis.Options{
			Dialer: s.Dial, Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
	}
	c.ended, c.end = context.WithCancel(context.Background())
	c.set(at)
	if err := c.hold(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("redis in memory: %w", err)
	}
	return c, nil
}

// Close ends an advance that is under way, and closes the connection of the clock, which stays as it is. A nil Clock has none.
func (c *Clock) Close() {
	if c == nil {
		return
	}
	c.end()
	c.moving.Lock()
	defer c.moving.Unlock()
	_ = c.redis.Close()
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *Clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now.UTC().Truncate(time.Microsecond)
	if c.now.UnixMicro()%1e15 == 0 { // which the server writes as 2e+15, and its Lua cannot read, as at the beginning of 1970
		c.now = c.now.Add(time.Microsecond)
	}
	c.server.Set(c.now)
}

// hold says in the store that its clock stands still, unless that was flushed and is not founded again.
func (c *Clock) hold(ctx context.Context) error {
	if founded, err := c.redis.Exists(ctx, c.keys.Format()).Result(); err != nil || founded == 0 {
		return err
	}
	return c.redis.HSet(ctx, c.keys.Topics(), script.StandsStill, 1).Err()
}

// A Told is what a clock tells.
type Told struct {
	Now       time.Time
	Next      time.Time // when the next thing is due; zero: nothing is
	Scheduled int64     // messages and broadcasts that wait for their times

	Published int64 `redis:"*:published"` // messages, since the store was founded, as those that follow
	Acked     int64 `redis:"*:acked"`
	Died      int64 `redis:"*:died"`
}

// Tell returns the time, and what is due later. The error is that of the connection.
func (c *Clock) Tell(ctx context.Context) (t Told, err error) {
	t.Now = c.Now()
	if t.Next, err = c.next(ctx, t.Now, true); err != nil {
		return t, err
	}
	topics, err := c.redis.ZRange(ctx, c.keys.ScheduledTopics(), 0, -1).Result()
	if err != nil {
		return t, err
	}
	cards := []*redis.IntCmd{}
	var counts *redis.SliceCmd
	_, err = c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		counts = p.HMGet(ctx, c.keys.Topics(), "*:published", "*:acked", "*:died")
		cards = append(cards, p.ZCard(ctx, c.keys.Broadcasts()))
		for _, topic := range topics {
			cards = append(cards, p.ZCard(ctx, c.keys.Scheduled(topic)))
		}
		return nil
	})
	for _, card := range cards {
		t.Scheduled += card.Val()
	}
	return t, errors.Join(err, counts.Scan(&t))
}

// A place is a sorted set of which the carrier moves what is due.
type place struct {
	key  string
	unit time.Duration // of its scores
}

// score returns a time as a score.
func (p place) score(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMicro())/float64(p.unit/time.Microsecond), 'f', 3, 64)
}

// time returns the time of a score, at which it is due.
func (p place) time(score float64) time.Time {
	return time.UnixMicro(int64(math.Ceil(score * float64(p.unit/time.Microsecond)))).UTC()
}

func (c *Clock) places() []place {
	return []place{
		{c.keys.ScheduledTopics(), time.Millisecond},
		{c.keys.Leased(), time.Microsecond},
		{c.keys.Expiries(), time.Millisecond},
		{c.keys.Broadcasts(), time.Millisecond},
		{c.keys.Alarms(), time.Millisecond},
	}
}

// schedules is the entry of all schedules among the alarms: when the carrier looks whether to make more of them.
const schedules = "/"

// next returns the first time after one at which the carrier has something to do; zero: at none. To others it does not tell when the
// carrier makes occurrences of schedules ahead.
func (c *Clock) next(ctx context.Context, now time.Time, toOthers bool) (first time.Time, err error) {
	places := c.places()
	all, err := c.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, place := range places {
			p.ZRangeByScoreWithScores(ctx, place.key, &redis.ZRangeBy{Min: "(" + place.score(now), Max: "(+inf", Count: 2})
		}
		return nil
	})
	if err != nil {
		return first, fmt.Errorf("redis in memory: %w", err)
	}
	for i, one := range all {
		for _, entry := range one.(*redis.ZSliceCmd).Val() {
			at := places[i].time(entry.Score)
			if (first.IsZero() || at.Before(first)) && !(toOthers && entry.Member == schedules) {
				first = at
			}
		}
	}
	return first, nil
}

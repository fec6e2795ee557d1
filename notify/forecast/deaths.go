package forecast

import (
	"context"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Deaths are how many of the dead letters of some topics died when. What was requeued or
// purged since is in none.
type Deaths struct {
	From    time.Time // beginning of the first bucket, by Redis's clock: a whole minute, hour or day of UTC
	Bucket  time.Duration
	Counts  []int64 // letters that died within each bucket; now is in the last
	Earlier int64   // letters that died before the first bucket
}

// DeathsOf counts the dead letters of some topics in buckets of a minute, an hour or a Day,
// of which the last is that of now. It costs as much as a forecast of these topics. Errors: see [Of].
func DeathsOf(ctx context.Context, s *notify.Store, topics []string, bucket time.Duration, buckets int) (Deaths, error) {
	o := Options{Bucket: bucket, Count: buckets}
	if len(topics) == 0 {
		return Deaths{}, fault.New("topics", "topics: none is given; name those whose dead letters are meant")
	}
	for _, topic := range topics {
		p, err := notify.ParsePattern(topic)
		if _, one := p.Topic(); err == nil && !one {
			err = fault.New("topics", "topic %.200q: it is a pattern; name each topic", topic)
		}
		if err != nil {
			return Deaths{}, err
		}
		o.Topics = append(o.Topics, p)
	}
	o, err := o.checked()
	if err != nil {
		return Deaths{}, err
	}
	c := &count{Options: o, dead: true, sum: Forecast{Bucket: o.Bucket, Counts: make([]int64, o.Count)}}
	if err = c.shards(ctx, s); err != nil {
		err = fmt.Errorf("count deaths: %w", err)
	}
	f := c.sum
	if f.From.IsZero() {
		return Deaths{}, err
	}
	f.Counts[o.Count-1] += f.Later // a clock was set back
	return Deaths{From: f.From, Bucket: f.Bucket, Counts: f.Counts, Earlier: f.Overdue}, err
}

package console

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/daemon/console/river"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
)

// A plot is a river, and the links to its spans.
type plot struct {
	*river.River
	Spans []choice
}

// plotOf returns a river without bars of what the address of a page asks for, and how far it goes.
func plotOf(v *visit, what string, now time.Time) (*plot, river.Span) {
	span := river.SpanOf(v.query("span"))
	p := &plot{River: river.New(what, span, now)}
	for _, one := range river.Spans {
		p.Spans = append(p.Spans, choice{one.Text, v.Link("span", one.Name), one.Name == span.Name})
	}
	return p, span
}

// river returns the river of some topics: of all if there are no patterns. It is nil while
// that is counted. The error may be a MissingError.
func (c *Console) river(ctx context.Context, v *visit, what string, now time.Time, topics []notify.Pattern, past pastOf) (*plot, error) {
	p, span := plotOf(v, what, now)
	f, err := c.comes.of(ctx, forecast.Options{Bucket: span.Step, Count: span.Buckets, Topics: topics}, c.waits(ctx, topics))
	if f.From.IsZero() {
		return nil, err
	}
	if err = store.Missing(err, past(ctx, p.River, f.From, span)); err != nil && !store.IsPartial(err) {
		return nil, err
	}
	p.AddDue(f)
	return p, err
}

const (
	paintWithin = 100 * time.Millisecond // for which a page waits for a forecast
	keptWithin  = 10 * time.Millisecond  // for which it waits where only one that is kept can be there in time
	manyTopics  = 500                    // counting more takes longer than a page waits
)

// waits returns for how long a page waits for a forecast of some topics.
func (c *Console) waits(ctx context.Context, topics []notify.Pattern) time.Duration {
	if len(topics) == 1 {
		if _, one := topics[0].Topic(); one {
			return paintWithin
		}
	}
	if survey, _ := c.snapshots.Survey(ctx); survey.Topics > manyTopics {
		return keptWithin
	}
	return paintWithin
}

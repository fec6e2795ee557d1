package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
)

// foreseen is what falls due. A forecast of very many topics takes longer than a page may: until
// it is there, the page shows the one before.
type foreseen struct {
	console *Console

	mu   sync.Mutex
	last map[string]foretold // by the question
}

// A foretold is a forecast, and when it was made.
type foretold struct {
	forecast.Forecast
	at time.Time
}

const (
	paintWithin  = 100 * time.Millisecond             // for which a page waits
	keptWithin   = 10 * time.Millisecond              // for which it waits where only one that is kept can be there in time
	manyTopics   = 500                                // counting more takes longer than a page waits
	countWithin  = 10 * time.Second                   // a forecast may take
	showFor      = forecast.LongestKept + time.Minute // an old one is shown while it is counted again
	mostForeseen = 200                                // questions that are kept
)

// of returns a forecast; the one before, or an empty one, if it is not there within a time. Errors: see [forecast.Cache.Of].
func (c *foreseen) of(ctx context.Context, o forecast.Options, within time.Duration) (forecast.Forecast, error) {
	question := fmt.Sprint(o)
	type answer struct {
		forecast.Forecast
		err error
	}
	answers := make(chan answer, 1)
	counting, cancel := context.WithTimeout(context.WithoutCancel(ctx), countWithin) // for later pages, too
	c.console.background.Go(func() {
		defer cancel()
		defer context.AfterFunc(c.console.o.Closing, cancel)()
		f, err := c.console.o.Forecasts.Of(counting, o)
		if !f.From.IsZero() { // else no shard answered
			c.keep(question, f)
		}
		answers <- answer{f, err}
	})
	select {
	case a := <-answers:
		return a.Forecast, a.err
	case <-ctx.Done():
		return forecast.Forecast{}, ctx.Err()
	case <-time.After(within):
		return c.before(question), nil
	}
}

// before returns the forecast before, empty if there is none, or only one that is too old.
func (c *foreseen) before(question string) forecast.Forecast {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.last[question]; time.Since(f.at) < showFor {
		return f.Forecast
	}
	return forecast.Forecast{}
}

func (c *foreseen) keep(question string, f forecast.Forecast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || len(c.last) >= mostForeseen {
		c.last = make(map[string]foretold)
	}
	c.last[question] = foretold{f, time.Now()}
}

// waits returns for how long a page waits for a forecast of some topics.
func (c *Console) waits(ctx context.Context, topics []notify.Pattern) time.Duration {
	if len(topics) == 1 {
		if _, one := topics[0].Topic(); one {
			return paintWithin
		}
	}
	if survey, _ := c.snapshots.survey(ctx); survey.Topics > manyTopics {
		return keptWithin
	}
	return paintWithin
}

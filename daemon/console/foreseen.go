package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/forecast"
)

// foreseen is what falls due. A forecast of very many topics takes longer than a page may: until
// it is there, the page shows the one before.
type foreseen struct {
	forecasts  *forecast.Cache
	closing    context.Context
	background *sync.WaitGroup

	mu   sync.Mutex
	last map[string]foretold // by the question
}

// A foretold is a forecast, and when it was made.
type foretold struct {
	forecast.Forecast
	at    time.Time
	whole bool // no shard is missing
}

const (
	countEvery   = 15 * time.Second                   // while somebody looks
	countWithin  = 10 * time.Second                   // a forecast may take
	showFor      = forecast.LongestKept + time.Minute // an old one is shown while it is counted again
	mostForeseen = 200                                // questions that are kept
)

// of returns a forecast; the one before, or an empty one, if it is not there within a time. Errors: see [forecast.Cache.Of].
func (c *foreseen) of(ctx context.Context, o forecast.Options, within time.Duration) (forecast.Forecast, error) {
	question := fmt.Sprint(o)
	if f, is := c.fresh(question); is {
		return f, nil
	}
	type answer struct {
		forecast.Forecast
		err error
	}
	answers := make(chan answer, 1)
	counting, cancel := context.WithTimeout(context.WithoutCancel(ctx), countWithin) // for later pages, too
	c.background.Go(func() {
		defer cancel()
		defer context.AfterFunc(c.closing, cancel)()
		f, err := c.forecasts.Of(counting, o)
		if !f.From.IsZero() { // else no shard answered
			c.keep(question, f, err == nil)
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

// fresh returns the forecast that was made last, if that needs no other one yet.
func (c *foreseen) fresh(question string) (f forecast.Forecast, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.last[question]
	return last.Forecast, last.whole && time.Since(last.at) < countEvery
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

func (c *foreseen) keep(question string, f forecast.Forecast, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || len(c.last) >= mostForeseen {
		c.last = make(map[string]foretold)
	}
	c.last[question] = foretold{f, time.Now(), whole}
}

package console

import (
	"cmp"
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store"
)

// tallest is the height of the bar of the most messages, in pixels.
const tallest = 64

// A coming is what falls due of a topic when.
type coming struct {
	Bars                  []bar
	Total, Later, Overdue int64
	Unit, Span            string // of a bar, and of all
	Minute, Hour, Day     string // addresses of the page with other bars
}

// A bar is what falls due within one minute, hour or day.
type bar struct {
	Count     int64
	Y, Height int64 // pixels
	Label     string
}

// spans are the bars of a forecast, by the parameter bucket.
var spans = map[string]struct {
	bucket     time.Duration
	count      int
	unit, span string
	label      string // layout of time.Format
}{
	"1m": {time.Minute, 60, "minute", "60 minutes", "15:04"},
	"1h": {time.Hour, 24, "hour", "24 hours", "15:00"},
	"1d": {forecast.Day, 30, "day", "30 days", "01-02"},
}

// coming returns what falls due of a topic, which is kept for all viewers.
func (c *Console) coming(ctx context.Context, v *visit, topic string) (*coming, error) {
	of, known := spans[cmp.Or(v.query("bucket"), "1h")]
	if !known {
		return nil, store.Faultf("bucket", "bucket %.100q: use 1m, 1h or 1d", v.query("bucket"))
	}
	p, err := notify.ParsePattern(topic)
	if err != nil {
		return nil, err
	}
	f, err := c.o.Forecasts.Of(ctx, forecast.Options{Topics: []notify.Pattern{p}, Bucket: of.bucket, Count: of.count})
	if err != nil {
		return nil, err
	}
	view := &coming{
		Later: f.Later, Overdue: f.Overdue, Unit: of.unit, Span: of.span,
		Minute: v.Link("bucket", "1m"), Hour: v.Link("bucket", "1h"), Day: v.Link("bucket", "1d"),
	}
	most := int64(1)
	for _, n := range f.Counts {
		view.Total += n
		most = max(most, n)
	}
	for i, n := range f.Counts {
		height := (n*tallest + most - 1) / most
		view.Bars = append(view.Bars, bar{n, tallest - height, height, f.From.Add(time.Duration(i) * f.Bucket).UTC().Format(of.label)})
	}
	return view, nil
}

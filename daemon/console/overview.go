package console

import (
	"context"

	"github.com/bellhopd/bellhop/notify"
)

var overviewPage = page{
	path: Root + "{$}", title: "Overview", nav: "overview", name: "overview", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) {
		survey, err := c.snapshots.survey(ctx)
		if err != nil {
			return nil, err
		}
		return overview{Survey: survey}, nil
	},
}

// An overview is what the first page shows.
type overview struct {
	notify.Survey
}

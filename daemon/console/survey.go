package console

import (
	"context"

	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/notify"
)

// notables is how many topics each list of a survey has at most.
const notables = 200

// A surveyKept is what a store holds in all.
type surveyKept struct {
	inspector *notify.Inspector
	whole     cache.Value[notify.Survey]
	pulse     pulse
}

// survey returns what the store holds in all, and which topics stand out.
func (k *surveyKept) survey(ctx context.Context) (notify.Survey, error) {
	return k.whole.Get(ctx, cache.Keep{Age: rhythm}, func(ctx context.Context) (notify.Survey, error) {
		survey, err := k.inspector.Survey(ctx, notables)
		if err == nil {
			k.pulse.add(survey)
		}
		return survey, err
	})
}

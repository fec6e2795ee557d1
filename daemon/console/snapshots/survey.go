package snapshots

import (
	"context"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify"
)

// Notables is how many topics each list of a survey has at most.
const Notables = 200

// A surveyKept is what a store holds in all.
type surveyKept struct {
	inspector *notify.Inspector
	whole     cache.Value[notify.Survey]
	pulse
}

// Survey returns what the store holds in all, and which topics stand out.
func (k *surveyKept) Survey(ctx context.Context) (notify.Survey, error) {
	return k.whole.Get(ctx, cache.Keep{Age: storeEvery}, func(ctx context.Context) (notify.Survey, error) {
		survey, err := k.inspector.Survey(ctx, Notables)
		if err == nil {
			k.pulse.add(survey)
		}
		return survey, err
	})
}

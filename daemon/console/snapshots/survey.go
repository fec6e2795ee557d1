package snapshots

import (
	"context"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Notables is how many topics each list of a survey has at most.
const Notables = 200

// A surveyKept is what a store holds in all, and who carries its shards.
type surveyKept struct {
	store     *notify.Store
	inspector *notify.Inspector
	whole     cache.Value[whole]
	pulse
}

// A whole is what one call of each shard answers.
type whole struct {
	notify.Survey
	terms   []Term
	missing error // why some of these are not known
}

// Survey returns what the store holds in all, and which topics stand out.
func (k *surveyKept) Survey(ctx context.Context) (notify.Survey, error) {
	w, err := k.read(ctx)
	return w.Survey, err
}

// Officers returns the term of office of each shard, in the order of shards. That of a shard
// that does not answer has Away, beside a MissingError.
func (k *surveyKept) Officers(ctx context.Context) ([]Term, error) {
	w, err := k.read(ctx)
	if w.terms == nil && err != nil {
		return nil, err
	}
	return w.terms, w.missing
}

func (k *surveyKept) read(ctx context.Context) (whole, error) {
	return k.whole.Get(ctx, cache.Keep{Age: StoreEvery}, func(ctx context.Context) (w whole, err error) {
		if shards, err := k.store.Shards(ctx); err == nil {
			ctx = store.AheadOfSurvey(ctx, shards, Notables)
		}
		if w.Survey, err = k.inspector.Survey(ctx, Notables); err == nil {
			k.pulse.add(w.Survey)
		}
		w.terms, w.missing = termsOf(ctx, k.store)
		return w, err
	})
}

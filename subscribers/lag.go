package subscribers

import (
	"cmp"
	"context"
	"slices"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// lagLogs is in how many logs it is looked how far a name is behind: those in which it is furthest.
const lagLogs = 50

// behindIn returns where a registration stands in the logs that have grown behind
// it. The error is a pattern that is foreign.
func behindIn(logs []store.LogEnd, r store.Registration, places map[string]notify.Position) (behind []store.LogPlace, err error) {
	p, err := notify.ParsePattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		at := store.LogPlace{Topic: log.Topic, Place: r.Start, From: max(r.Start, r.Floor)}
		if place, ok := places[log.Topic]; ok {
			at.Place, at.From = place, place
		}
		if p.Match(log.Topic) && log.Last > at.Place {
			behind = append(behind, at)
		}
	}
	return behind, nil
}

// lag fills in since when a name is behind, and what that costs it.
func (l *Listener) lag(ctx context.Context, n *Name, behind []store.LogPlace) error {
	if len(behind) == 0 {
		return nil
	}
	slices.SortFunc(behind, func(a, b store.LogPlace) int { return cmp.Compare(a.Place, b.Place) })
	lags, err := l.store.Only().Lag(ctx, behind[:min(len(behind), lagLogs)])
	for _, log := range lags {
		if at := log.First; at > 0 && (n.Oldest.IsZero() || at.Time().Before(n.Oldest)) {
			n.Oldest = at.Time()
		}
		n.Missed, n.AtRisk = n.Missed || log.Missed, n.AtRisk || log.AtRisk
	}
	return err
}

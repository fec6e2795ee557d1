package subscribers

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// lagLogs is in how many logs it is looked how far a name is behind: those in which it is furthest.
const lagLogs = 50

// stands returns where a registration stands in the logs that have grown
// behind it. The error is a pattern that is foreign.
func (r registration) stands(places map[string]string, logs []redis.Z) (stands []store.LogPlace, err error) {
	p, err := notify.ParsePattern(r.pattern)
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		topic, _ := log.Member.(string)
		at := store.LogPlace{Topic: topic, Place: r.start, From: max(r.start, r.floor)}
		if text, ok := places[topic]; ok {
			at.Place = position(text)
			at.From = at.Place
		}
		if p.Match(topic) && notify.Position(log.Score) > at.Place {
			stands = append(stands, at)
		}
	}
	return stands, nil
}

// lag fills in since when a name is behind, and what that costs it.
func (l *Listener) lag(ctx context.Context, n *Name, stands []store.LogPlace) error {
	if len(stands) == 0 {
		return nil
	}
	slices.SortFunc(stands, func(a, b store.LogPlace) int { return cmp.Compare(a.Place, b.Place) })
	lags, err := l.hub.shard().Lag(ctx, stands[:min(len(stands), lagLogs)])
	for _, log := range lags {
		if at := log.First; at > 0 && (n.Oldest.IsZero() || at.Time().Before(n.Oldest)) {
			n.Oldest = at.Time()
		}
		n.Missed, n.AtRisk = n.Missed || log.Missed, n.AtRisk || log.AtRisk
	}
	return err
}

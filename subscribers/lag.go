package subscribers

import (
	"cmp"
	"context"
	_ "embed"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed lag.lua
	lagSource string
	lagScript = notify.NewScript("lag", logsPrelude+lagSource)
)

// lagLogs is in how many logs it is looked how far a name is behind: those in which it is furthest.
const lagLogs = 50

// A stand is where a name stands in a log that has grown behind it.
type stand struct {
	topic string
	place notify.Position // of the last broadcast that was handed out
	from  notify.Position // behind it the name misses what was trimmed
}

// stands returns where a registration stands in the logs that have grown
// behind it. The error is a pattern that is foreign.
func (r registration) stands(places map[string]string, logs []redis.Z) (stands []stand, err error) {
	p, err := notify.ParsePattern(r.pattern)
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		topic, _ := log.Member.(string)
		s := stand{topic, r.start, max(r.start, r.floor)}
		if text, ok := places[topic]; ok {
			s.place = position(text)
			s.from = s.place
		}
		if p.Match(topic) && notify.Position(log.Score) > s.place {
			stands = append(stands, s)
		}
	}
	return stands, nil
}

// lag fills in since when a name is behind, and what that costs it.
func (l *Listener) lag(ctx context.Context, n *Name, stands []stand) error {
	if len(stands) == 0 {
		return nil
	}
	slices.SortFunc(stands, func(a, b stand) int { return cmp.Compare(a.place, b.place) })
	stands = stands[:min(len(stands), lagLogs)]
	keys, args := []string{l.store.Keys().Logs()}, []any{}
	for _, s := range stands {
		keys = append(keys, l.store.Keys().Log(s.topic))
		args = append(args, s.topic, int64(s.place), int64(s.from))
	}
	reply, err := l.store.Run(ctx, lagScript, keys, args...)
	if err != nil {
		return err
	}
	for _, one := range reply {
		n.heed(one.([]any))
	}
	return nil
}

// heed takes note of what lag.lua says of a log.
func (n *Name) heed(log []any) {
	if at := position(log[0]); at > 0 && (n.Oldest.IsZero() || at.Time().Before(n.Oldest)) {
		n.Oldest = at.Time()
	}
	n.Missed = n.Missed || log[1] == int64(1)
	n.AtRisk = n.AtRisk || log[2] == int64(1)
}

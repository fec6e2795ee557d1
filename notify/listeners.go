package notify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// A ListenerInfo is what a store holds of a named listener.
type ListenerInfo struct {
	Name    string    `json:"name"`
	Pattern string    `json:"pattern"`
	From    string    `json:"from"`           // where it began, as ParseFrom of package subscribers reads it
	Since   time.Time `json:"since,omitzero"` // the time of From; zero for the beginning
	Held    int64     `json:"held"`           // leased broadcasts
	Behind  int       `json:"behind"`         // topics with broadcasts that were not handed out yet
	Active  bool      `json:"active"`         // a process listens under the name

	Oldest time.Time `json:"oldest,omitzero"`   // when the oldest broadcast was sent that it still has to get and the logs keep
	Missed bool      `json:"missed,omitempty"`  // the logs no longer keep some of them: it will get a gap
	AtRisk bool      `json:"at_risk,omitempty"` // the oldest is in the oldest tenth of its log, which is removed next
}

// Listeners returns the named listeners of a store, by name. The error is that of the connection.
func (i *Inspector) Listeners(ctx context.Context) ([]ListenerInfo, error) {
	all, err := i.store.Home().Listeners(ctx)
	if err != nil {
		return nil, fmt.Errorf("list listeners: %w", err)
	}
	logs, err := i.store.Only().LogEnds(ctx)
	if err != nil {
		return nil, fmt.Errorf("list listeners: %w", err)
	}
	names := make([]ListenerInfo, 0, len(all))
	for _, r := range all {
		one := ListenerInfo{Name: r.Name, Pattern: r.Pattern, From: r.From}
		if r.Start > 0 {
			one.Since = r.Start.Time().UTC()
		}
		if err := i.progress(ctx, &one, r.Registration, logs); err != nil {
			return nil, fmt.Errorf("list listeners: %s: %w", r.Name, err)
		}
		names = append(names, one)
	}
	slices.SortFunc(names, func(a, b ListenerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}

// progress fills in how far a listener is, given where the logs end.
func (i *Inspector) progress(ctx context.Context, n *ListenerInfo, r store.Registration, logs []store.LogEnd) error {
	at, err := i.store.Home().Progress(ctx, n.Name)
	if err != nil {
		return err
	}
	n.Held, n.Active = at.Held, at.Active
	behind, err := behindIn(logs, r, at.Places)
	if err != nil {
		return err
	}
	n.Behind = len(behind)
	return i.lag(ctx, n, behind)
}

// RemoveListener forgets a named listener: its positions and its leased broadcasts.
// Listeners that run under the name end with ErrNoListener. Errors: ErrInvalid,
// ErrNoListener, or that of the connection.
func (i *Inspector) RemoveListener(ctx context.Context, name string) error {
	if err := store.CheckListener(name); err != nil {
		return err
	}
	there, err := i.store.Unregister(ctx, name)
	if err == nil && !there {
		err = ErrNoListener
	}
	if err != nil {
		return fmt.Errorf("remove the listener %s: %w", name, err)
	}
	return nil
}

// lagLogs is how many logs are read to see how far a listener is behind: those where
// it is furthest behind.
const lagLogs = 50

// behindIn returns the positions of a listener in the logs that have newer broadcasts.
// The error is a Fault for a foreign pattern.
func behindIn(logs []store.LogEnd, r store.Registration, places map[string]Position) (behind []store.LogPlace, err error) {
	p, err := ParsePattern(r.Pattern)
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

// lag fills in since when a listener is behind, and what it missed or may miss.
func (i *Inspector) lag(ctx context.Context, n *ListenerInfo, behind []store.LogPlace) error {
	if len(behind) == 0 {
		return nil
	}
	slices.SortFunc(behind, func(a, b store.LogPlace) int { return cmp.Compare(a.Place, b.Place) })
	lags, err := i.store.Only().Lag(ctx, behind[:min(len(behind), lagLogs)])
	for _, log := range lags {
		if at := log.First; at > 0 && (n.Oldest.IsZero() || at.Time().Before(n.Oldest)) {
			n.Oldest = at.Time()
		}
		n.Missed, n.AtRisk = n.Missed || log.Missed, n.AtRisk || log.AtRisk
	}
	return err
}

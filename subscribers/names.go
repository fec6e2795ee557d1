package subscribers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
)

// ErrNoListener is the error of a named listener that is not there, or not any more.
var ErrNoListener = errors.New("no such listener")

// A Name is a named listener as Redis knows it.
type Name struct {
	Name    string    `json:"name"`
	Pattern string    `json:"pattern"`
	From    string    `json:"from"`           // where it began, as ParseFrom reads it
	Since   time.Time `json:"since,omitzero"` // which time that was; zero for the beginning
	Held    int64     `json:"held"`           // broadcasts in hand, their lease lasts
	Behind  int       `json:"behind"`         // topics with broadcasts that were not handed out yet
	Active  bool      `json:"active"`         // somebody listens under it

	Oldest time.Time `json:"oldest,omitzero"`   // when the oldest of these broadcasts was sent that the logs keep
	Missed bool      `json:"missed,omitempty"`  // the logs kept some of them no longer: it will be told of a gap
	AtRisk bool      `json:"at_risk,omitempty"` // the oldest is in the oldest tenth of its log, which is removed next
}

// Names returns the named listeners of a store, by name. The error is that of the connection.
func (l *Listener) Names(ctx context.Context) ([]Name, error) {
	all, err := l.store.Home().Listeners(ctx)
	if err != nil {
		return nil, fmt.Errorf("list listeners: %w", err)
	}
	logs, err := l.store.Only().LogEnds(ctx)
	if err != nil {
		return nil, fmt.Errorf("list listeners: %w", err)
	}
	names := make([]Name, 0, len(all))
	for _, r := range all {
		one := Name{Name: r.Name, Pattern: r.Pattern, From: r.From}
		if r.Start > 0 {
			one.Since = r.Start.Time().UTC()
		}
		if err := l.progress(ctx, &one, r.Registration, logs); err != nil {
			return nil, fmt.Errorf("list listeners: %s: %w", r.Name, err)
		}
		names = append(names, one)
	}
	slices.SortFunc(names, func(a, b Name) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}

// progress fills in how far a name is, of the topics with logs and where these end.
func (l *Listener) progress(ctx context.Context, n *Name, r store.Registration, logs []store.LogEnd) error {
	at, err := l.store.Home().Progress(ctx, n.Name)
	if err != nil {
		return err
	}
	n.Held, n.Active = at.Held, at.Active
	behind, err := behindIn(logs, r, at.Places)
	if err != nil {
		return err
	}
	n.Behind = len(behind)
	return l.lag(ctx, n, behind)
}

// Remove forgets a named listener: its place, and what it has in hand. Who
// listens under it ends with an ErrNoListener. Errors: notify.ErrInvalid,
// ErrNoListener, or that of the connection.
func (l *Listener) Remove(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	there, err := l.store.Home().Unregister(ctx, name)
	if err == nil && !there {
		err = ErrNoListener
	}
	if err != nil {
		return fmt.Errorf("remove the listener %s: %w", name, err)
	}
	return nil
}

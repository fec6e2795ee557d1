package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A ListenerInfo is what a store holds of a named listener.
type ListenerInfo struct {
	Name    string    `json:"name" example:"billing"`
	Pattern string    `json:"pattern" example:"prices.*" doc:"topics whose broadcasts it gets"`
	From    string    `json:"from" example:"beginning" doc:"where it began: now, beginning, a time or a position"` // as ParseFrom of package subscribers reads it
	Since   time.Time `json:"since,omitzero" doc:"when that was; missing: the beginning"`
	Held    int64     `json:"held" doc:"broadcasts that its processes have leased"`
	Behind  int       `json:"behind" doc:"topics with broadcasts that were not handed out yet"`
	Active  bool      `json:"active" doc:"a process listens under the name"`
	By      []string  `json:"by,omitempty" doc:"names of the workers that do; one that just came may be missing"`

	HeldBy []store.Owner `json:"held_by,omitempty" doc:"the workers that have leased broadcasts, by name; of very many broadcasts, the 500 in each shard whose leases end last are looked at"`

	Oldest time.Time `json:"oldest,omitzero" doc:"when the oldest broadcast was sent that it still has to get and the logs keep"`
	HasGap bool      `json:"gap,omitempty" doc:"the logs no longer keep some of them: it will get a gap"`
	AtRisk bool      `json:"at_risk,omitempty" doc:"the oldest is in the oldest tenth of its log, which is removed next"`
}

// Listeners returns the named listeners of a store, by name, as the first shard has them:
// those that all of pick accept, which are called with each in that order. Counts are those
// of all shards. Where others than the first do not answer, Listeners returns what the rest
// has, and a [MissingError]. Otherwise the error is that of the connection.
func (i *Inspector) Listeners(ctx context.Context, pick ...func(name, pattern string) bool) ([]ListenerInfo, error) {
	names, err := i.listeners(ctx, pick)
	if err != nil {
		err = fmt.Errorf("list listeners: %w", err)
	}
	return names, err
}

// listeners is Listeners; its error does not say what was done.
func (i *Inspector) listeners(ctx context.Context, pick []func(name, pattern string) bool) ([]ListenerInfo, error) {
	home := i.store.Home()
	registered, err := home.Listeners(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(registered, func(a, b store.Listener) int { return cmp.Compare(a.Name, b.Name) })
	registered = slices.DeleteFunc(registered, func(l store.Listener) bool {
		return slices.ContainsFunc(pick, func(accepts func(name, pattern string) bool) bool { return !accepts(l.Name, l.Pattern) })
	})
	if len(registered) == 0 {
		return []ListenerInfo{}, nil
	}
	picked := make(map[string]bool, len(registered))
	for _, l := range registered {
		picked[l.Name] = true
	}
	shards, err := store.Gather(ctx, i.store, func(ctx context.Context, s store.Shard) (map[string]ListenerInfo, error) {
		if s.Number() == home.Number() {
			return i.measured(ctx, s, registered)
		}
		all, err := s.Listeners(ctx)
		if err != nil {
			return nil, err
		}
		return i.measured(ctx, s, slices.DeleteFunc(all, func(l store.Listener) bool { return !picked[l.Name] }))
	})
	var missing *MissingError
	if errors.As(err, &missing) && slices.Contains(missing.Shards, home.Number()) {
		err = missing.Err // of the first shard: there is no list
	}
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	names := slices.SortedFunc(maps.Values(shards[0]), func(a, b ListenerInfo) int { return cmp.Compare(a.Name, b.Name) })
	by, errBy := i.listening(ctx)
	if errBy != nil {
		return nil, errBy
	}
	for n := range names {
		names[n].By = by[names[n].Name]
		for _, others := range shards[1:] {
			names[n].add(others[names[n].Name])
		}
	}
	return names, err
}

// listening returns the names of the workers that listen under each name, sorted.
func (i *Inspector) listening(ctx context.Context) (map[string][]string, error) {
	workers, err := i.Workers(ctx)
	by := make(map[string][]string)
	for _, w := range workers {
		for _, name := range w.Names {
			if !slices.Contains(by[name], w.Name) {
				by[name] = append(by[name], w.Name)
			}
		}
	}
	return by, err
}

// add adds what another shard has of a listener.
func (n *ListenerInfo) add(o ListenerInfo) {
	n.Held, n.Behind = n.Held+o.Held, n.Behind+o.Behind
	n.HeldBy = addOwners(n.HeldBy, o.HeldBy)
	n.Active, n.HasGap, n.AtRisk = n.Active || o.Active, n.HasGap || o.HasGap, n.AtRisk || o.AtRisk
	if n.Oldest.IsZero() || !o.Oldest.IsZero() && o.Oldest.Before(n.Oldest) {
		n.Oldest = o.Oldest
	}
}

// addOwners adds what others of a listener's broadcasts workers have in another shard.
func addOwners(all, others []store.Owner) []store.Owner {
	for _, o := range others {
		at, there := slices.BinarySearchFunc(all, o.Worker, func(one store.Owner, worker string) int { return cmp.Compare(one.Worker, worker) })
		if !there {
			all = slices.Insert(all, at, o)
			continue
		}
		all[at].Held += o.Held
		if o.Sent.Before(all[at].Sent) {
			all[at].Topic, all[at].Sent = o.Topic, o.Sent
		}
	}
	return all
}

// measured returns what a shard holds of some of its named listeners, by name.
func (i *Inspector) measured(ctx context.Context, s store.Shard, some []store.Listener) (map[string]ListenerInfo, error) {
	logs, err := s.LogEnds(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[string]ListenerInfo, len(some))
	for _, r := range some {
		one := ListenerInfo{Name: r.Name, Pattern: r.Pattern, From: r.From, Since: sinceOf(r.Registration)}
		if err := one.measure(ctx, s, r.Registration, logs); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		names[r.Name] = one
	}
	return names, nil
}

// sinceOf returns the time from which a name was registered; zero for the beginning. The
// first of several shards may have no logs that reach that far: then its words say when.
func sinceOf(r store.Registration) time.Time {
	at := r.Start
	if r.Began > 0 {
		position, errPosition := record.ParsePosition(r.From)
		moment, errMoment := time.Parse(time.RFC3339Nano, r.From)
		switch {
		case r.From == "now":
			at = r.Began
		case errPosition == nil:
			at = position
		case errMoment == nil:
			at = Position(moment.UnixMicro())
		}
	}
	if at == 0 {
		return time.Time{}
	}
	return at.Time().UTC()
}

// measure fills in how far a listener is in a shard, given where its logs end.
func (n *ListenerInfo) measure(ctx context.Context, s store.Shard, r store.Registration, logs []store.LogEnd) error {
	at, err := s.Progress(ctx, n.Name)
	if err != nil {
		return err
	}
	n.Held, n.HeldBy, n.Active = at.Held, at.Owners, at.Active
	behind, err := store.BehindIn(logs, r, at.Places)
	if err != nil {
		return err
	}
	n.Behind = len(behind)
	return n.lag(ctx, s, behind)
}

// RemoveListener forgets a named listener: its positions and its leased broadcasts.
// Listeners that run under the name end with ErrNoListener. Errors: ErrInvalid,
// ErrNoListener, or that of the connection: then some shards may still have the name, and
// it is to be removed again.
func (i *Inspector) RemoveListener(ctx context.Context, name string) error {
	if err := record.CheckListener(name); err != nil {
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

// lag fills in since when a listener is behind, and what it missed or may miss.
func (n *ListenerInfo) lag(ctx context.Context, s store.Shard, behind []store.LogPlace) error {
	if len(behind) == 0 {
		return nil
	}
	lags, err := s.Lag(ctx, behind[:min(len(behind), store.MostLags)])
	for _, log := range lags {
		if at := log.First; at > 0 && (n.Oldest.IsZero() || at.Time().Before(n.Oldest)) {
			n.Oldest = at.Time()
		}
		n.HasGap, n.AtRisk = n.HasGap || log.HasGap, n.AtRisk || log.AtRisk
	}
	return err
}

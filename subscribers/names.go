package subscribers

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed unregister.lua
	unregisterSource string
	unregisterScript = notify.NewScript("unregister", unregisterSource).Promised()
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
	if err := l.store.CheckFormat(ctx); err != nil {
		return nil, fmt.Errorf("list listeners: %w", err)
	}
	keys, client := l.store.Keys(), l.store.Client()
	all, err := client.HGetAll(ctx, keys.Listeners()).Result()
	if err != nil {
		return nil, fmt.Errorf("list listeners: redis at %s: %w", l.store.Where(), err)
	}
	logs, err := client.ZRangeWithScores(ctx, keys.Logs(), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list listeners: redis at %s: %w", l.store.Where(), err)
	}
	names := make([]Name, 0, len(all))
	for name, text := range all {
		one := Name{Name: name}
		r, err := parseRegistration(text)
		if err == nil {
			one.Pattern, one.From = r.pattern, r.from
			if r.start > 0 {
				one.Since = r.start.Time().UTC()
			}
			err = l.progress(ctx, &one, r, logs)
		}
		if err != nil {
			return nil, fmt.Errorf("list listeners: %s: %w", name, err)
		}
		names = append(names, one)
	}
	slices.SortFunc(names, func(a, b Name) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}

// progress fills in how far a name is, of the topics with logs and where these end.
func (l *Listener) progress(ctx context.Context, n *Name, r registration, logs []redis.Z) error {
	keys, client := l.store.Keys(), l.store.Client()
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	if n.Held, err = client.ZCount(ctx, keys.Held(n.Name), "("+strconv.FormatInt(now.UnixMilli(), 10), "+inf").Result(); err != nil {
		return err
	}
	places, err := client.HGetAll(ctx, keys.Places(n.Name)).Result()
	if err != nil {
		return err
	}
	stands, err := r.stands(places, logs)
	if err != nil {
		return err
	}
	n.Behind = len(stands)
	if err := l.lag(ctx, n, stands); err != nil {
		return err
	}
	channel := keys.Name(n.Name)
	listening, err := l.store.Listening(ctx, channel)
	n.Active = listening[channel] > 0
	return err
}

// Remove forgets a named listener: its place, and what it has in hand. Who
// listens under it ends with an ErrNoListener. Errors: notify.ErrInvalid,
// ErrNoListener, or that of the connection.
func (l *Listener) Remove(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	keys := l.store.Keys()
	reply, err := l.store.Run(ctx, unregisterScript,
		[]string{keys.Listeners(), keys.Handed(), keys.Places(name), keys.Held(name), keys.Tries(name)}, name, keys.Name(name))
	if err == nil && reply[0] == int64(0) {
		err = ErrNoListener
	}
	if err != nil {
		return fmt.Errorf("remove the listener %s: %w", name, err)
	}
	return nil
}

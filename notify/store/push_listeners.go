package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// pushListening returns the name of the push that listens under a name to a pattern; empty: no push does.
func pushListening(listener, pattern string) string {
	name, _ := strings.CutPrefix(listener[:max(strings.LastIndexByte(listener, '.'), 0)], "push.")
	if p := (&Push{Name: name, Topics: []string{pattern}}); p.Listener() == listener {
		return name
	}
	return ""
}

// ForgetPushListeners removes what pushes listened under that are gone, or have another pattern by now, from the shards that may still have
// it: one that was away when the push was changed, or in which a daemon registered it late. From the first one it goes with the push. If that
// one lost all its data, the others keep what was registered before: a push that is put again goes on there. The error is that of the
// connection; the shards that answer forget it.
func (s *Store) ForgetPushListeners(ctx context.Context) error {
	shards, err := s.Shards(ctx)
	if err != nil || len(shards) == 1 {
		return err
	}
	listeners, failed := GatherFrom(ctx, shards[1:], pushListeners)
	if !slices.ContainsFunc(listeners, func(some []Listener) bool { return len(some) > 0 }) {
		return failed
	}
	pushes, _, foreign, err := shards[0].pushes(ctx) // behind the listeners, which are of pushes that were there before
	if err != nil || foreign > 0 {                   // which a newer version wrote, maybe
		return err
	}
	home, err := shards[0].Grown(ctx, 0, 1)
	if err != nil {
		return err
	}
	founded, left := record.TimeOfID(home.StoreID), make(map[string]bool)
	for _, one := range slices.Concat(listeners...) {
		left[one.Name] = left[one.Name] || !one.Began.Time().Before(founded)
	}
	for _, p := range pushes {
		if p.Broadcasts {
			delete(left, p.Listener())
		}
	}
	for name, gone := range left {
		if gone {
			failed = errors.Join(failed, s.unregisterElsewhere(ctx, name))
		}
	}
	return failed
}

// pushListeners returns what pushes listen under in a shard, or listened.
func pushListeners(ctx context.Context, s Shard) (all []Listener, err error) {
	texts, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (map[string]string, error) {
		return r.HGetAll(ctx, k.Listeners()).Result()
	})
	for name, text := range texts {
		if r, err := parseRegistration(text); err == nil && pushListening(name, r.Pattern) != "" {
			all = append(all, Listener{name, r})
		}
	}
	return all, err
}

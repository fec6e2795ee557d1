package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// pushListener is what the names begin with under which pushes listen: no other listener may have one.
const pushListener = "push."

// pushListening returns the name of the push that listens under a name; empty: no push does.
func pushListening(listener string) string {
	name, _ := strings.CutPrefix(listener, pushListener)
	if name == listener {
		return ""
	}
	return name
}

// heard returns the pattern of the broadcasts that a push sends; empty if it sends none.
func (p *Push) heard() string {
	if p == nil || !p.Broadcasts {
		return ""
	}
	return p.Topics[0]
}

// listensAs reports whether a push listens to something else after a change, and from which position: 0, from now on. It notes in after what
// is dropped by that. Errors: a MissingError where a shard does not say up to where the push was handed out all, or that of the connection.
func (s *Store) listensAs(ctx context.Context, before, after *Push) (changes bool, from record.Position, err error) {
	switch {
	case before.heard() == after.heard():
		return false, 0, nil
	case before.heard() == "" || after == nil:
		return true, 0, nil
	}
	from, behind, err := s.standing(ctx, before)
	if err != nil {
		return false, 0, fmt.Errorf("find what the push %s has still to send: %w", before.Name, err)
	}
	pattern, _ := record.ParsePattern(after.heard()) // it was checked; that of none matches nothing
	after.Dropped = slices.DeleteFunc(behind, pattern.Match)
	return true, from, nil
}

// standing returns the position up to which a push of broadcasts was handed out all, 0 if its name was removed, and the topics of which it
// was not handed out the rest.
func (s *Store) standing(ctx context.Context, p *Push) (at record.Position, behind []string, err error) {
	home, err := pushListeners(ctx, s.Home())
	i := slices.IndexFunc(home, func(l Listener) bool { return l.Name == p.Listener() })
	if err != nil || i < 0 {
		return 0, nil, err
	}
	parts, err := Gather(ctx, s, func(ctx context.Context, shard Shard) (standing, error) { return shard.standing(ctx, home[i]) })
	for _, part := range parts {
		if at == 0 || part.at < at {
			at = part.at
		}
		behind = append(behind, part.behind...)
	}
	slices.Sort(behind)
	return at, behind, err
}

// A standing is up to where a named listener was handed out all of a shard, and the topics of which it was not handed out the rest.
type standing struct {
	at     record.Position
	behind []string
}

// standing returns where a listener, as the first shard has it, stands in a shard.
func (s Shard) standing(ctx context.Context, l Listener) (standing, error) {
	if s != s.store.Home() {
		l.Start = l.Began
	}
	grown, err := s.Grown(ctx, 0, 1, "none")
	if err != nil {
		return standing{}, err
	}
	logs, err := s.LogEnds(ctx)
	if err != nil {
		return standing{}, err
	}
	places, err := s.places(ctx, l.Name)
	if err != nil {
		return standing{}, err
	}
	behind, err := BehindIn(logs, l.Registration, places)
	if err != nil || len(behind) == 0 {
		return standing{at: grown.Now - 1}, err // behind that is what is sent from now on
	}
	lags, err := s.Lag(ctx, behind[:min(len(behind), MostLags)])
	stands := standing{at: grown.Now - 1}
	for i, log := range behind {
		stands.behind = append(stands.behind, log.Topic)
		switch {
		case i < len(lags) && lags[i].First > 0 && !lags[i].HasGap:
			stands.at = min(stands.at, lags[i].First-1)
		default:
			stands.at = min(stands.at, log.Place)
		}
	}
	return stands, err
}

// listenElsewhere has a push that listens to something else now do so in the other shards, or no more. One that is away has it from a
// daemon, or is told again to forget it.
func (s *Store) listenElsewhere(ctx context.Context, name string, p *Push) error {
	if p.heard() == "" {
		return s.unregisterElsewhere(ctx, (&Push{Name: name}).Listener())
	}
	shards, err := s.Shards(ctx)
	if err != nil || len(shards) == 1 {
		return err
	}
	home, _, err := s.Home().Register(ctx, p.Listener(), Registration{Pattern: p.heard(), From: "now"})
	if errors.Is(err, ErrNoListener) { // it was changed again
		return nil
	}
	home.Start = home.Began
	reach.AtOnce(len(shards)-1, func(i int) { _, _, _ = shards[i+1].Register(ctx, p.Listener(), home) })
	return err
}

// ForgetPushListeners removes what pushes listened under that are gone, or push messages by now, from the shards that may still have
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
		if r, err := parseRegistration(text); err == nil && pushListening(name) != "" {
			all = append(all, Listener{name, r})
		}
	}
	return all, err
}

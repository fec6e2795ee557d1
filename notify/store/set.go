package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	settingsScript = script.New("settings")
	setScript      = script.New("set", script.Promised)
	adoptScript    = script.New("adopt", script.Promised)
	revisedScript  = script.New("adopt") // with nothing to take over
)

// Settings returns the settings that hold for a topic. Errors: an ErrSettings, or
// that of the connection.
func (s Shard) Settings(ctx context.Context, topic string) (TopicSettings, error) {
	r, err := s.Run(ctx, settingsScript, topic)
	if err != nil {
		return TopicSettings{}, err
	}
	return settingsIn(r)
}

// Set changes settings of a topic, and returns those that hold then. If missing is
// set it does not change settings that the topic has already, nor the backoff if its
// bounds would contradict these. If more messages may be claimed then, Set rings waiting
// subscribers. Set repeats a call that Redis did not carry out for about a second.
// Errors: a Fault, and nothing was changed; an ErrUnreplicated; or that of the
// connection.
func (s Shard) Set(ctx context.Context, topic string, c SettingsChange, missing bool) (TopicSettings, error) {
	if err := errors.Join(c.Check(), c.checkBranches(topic)); err != nil {
		return TopicSettings{}, err
	}
	if c.Branches != nil || c.BranchTTL != nil {
		if err := s.Needs(ctx, FormatOfGroups, "a branch"); err != nil {
			return TopicSettings{}, err
		}
	}
	return s.change(ctx, append([]any{topic, missing}, c.written()...))
}

// LongestPause is the longest time until the end of a pause.
const LongestPause = 366 * 24 * time.Hour

// PauseUntil pauses a topic as [notify.Inspector.Pause] does, until a time by Redis's clock, which
// it returns: then the topic is resumed, by the carrier. A pause that lasts already gets that end; to
// pause the topic without one, or to resume it, removes it. Errors: ErrInvalid, among others for an
// end in the past or more than [LongestPause] off; an ErrUnreplicated; or that of the connection.
func PauseUntil(ctx context.Context, s *Store, topic string, until When) (time.Time, error) {
	if err := record.CheckTopic(topic); err != nil {
		return time.Time{}, err
	}
	end := strconv.FormatInt(int64(until), 10)
	if until <= 0 {
		end = "+" + strconv.FormatInt(-int64(until), 10)
	}
	got, err := s.Of(topic).change(ctx, []any{topic, false, "paused", 1, pauseEnd.Name, end})
	if err != nil {
		return time.Time{}, fmt.Errorf("pause %s: %w", topic, err)
	}
	return got.PausedUntil, nil
}

// wrongEnd is the Fault of a pause whose end is not to come, or too far off, at a time by Redis's clock.
func wrongEnd(now time.Time) error {
	return fault.New("until", "until: it is in the past, or more than %v ahead; use a time in between: by Redis's clock it is %s",
		fault.Short(LongestPause), now.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// timeIn returns a time in ms in UTC; the zero time for 0.
func timeIn(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// change calls the script that changes settings.
func (s Shard) change(ctx context.Context, args []any) (TopicSettings, error) {
	r, err := s.Repeat(ctx, setScript, args...)
	if err != nil {
		return TopicSettings{}, err
	}
	if r.Flag() {
		holds, err := settingsIn(r)
		if errors.Is(err, ErrSettings) { // of the store, whose settings do not hold then; the change is made
			err = nil
		}
		return holds, err
	}
	first, second := r.Integer(), r.Integer()
	if err := r.End(); err != nil {
		return TopicSettings{}, err
	}
	switch {
	case first < 0:
		return TopicSettings{}, branchFault(args[0], first, second)
	case first == 0 && second == 0:
		return TopicSettings{}, fault.New("burst", "burst: the topic has no rate; set rate, too, or burst to its default")
	case first == 0:
		return TopicSettings{}, wrongEnd(time.UnixMilli(second))
	}
	return TopicSettings{}, checkBackoff(record.Ms(first), record.Ms(second))
}

// SettingsOfAll returns the settings for topics that have none of their own. The
// error is that of [Shard.Settings].
func (s *Store) SettingsOfAll(ctx context.Context) (TopicSettings, error) {
	return s.Home().Settings(ctx, record.AllTopics)
}

// SetForAll is [Shard.Set] for topics that have no settings of their own. They
// cannot be paused together. The home shard has these settings, and each other one a
// copy, which its scripts read: see [Shard.AdoptSettings]. Where home has the change and
// other shards cannot be reached, SetForAll returns the settings with a [MissingError].
func (s *Store) SetForAll(ctx context.Context, c SettingsChange, missing bool) (TopicSettings, error) {
	if err := c.CheckForAll(); err != nil {
		return TopicSettings{}, err
	}
	holds, err := s.Home().Set(ctx, record.AllTopics, c, missing)
	if err != nil {
		return TopicSettings{}, err
	}
	_, err = Gather(ctx, s, func(ctx context.Context, shard Shard) (struct{}, error) {
		return struct{}{}, shard.AdoptSettings(ctx)
	})
	if err != nil {
		err = fmt.Errorf("they are set, and shards that are missing take them over with their next carriers: %w", err)
	}
	return holds, err
}

// revised are settings for all topics, as scripts write them.
type revised struct {
	settings string // empty: none
	at       int64  // when they were changed, in us by the home shard's clock; 0: never
}

// AdoptSettings has the shard take over the settings for all topics. Of several changes
// the last one holds, in whatever order they arrive: each has a time by the clock of the
// home shard, and a shard takes over what is newer than it has, or as new. If home has lost a change
// in a failover, it takes that over from the shard. AdoptSettings makes one call to either, and for the
// home shard none. Errors: an ErrUnreplicated, or that of the connection.
func (s Shard) AdoptSettings(ctx context.Context) error {
	if err := s.store.Learn(ctx); err != nil || s.Number() == 0 {
		return err
	}
	home := s.store.Home()
	latest, err := home.adopt(ctx, revisedScript, revised{})
	if err != nil {
		return err
	}
	held, err := s.adopt(ctx, adoptScript, latest)
	if err == nil && held.at > latest.at {
		_, err = home.adopt(ctx, adoptScript, held)
	}
	return err
}

// adopt takes over settings that are newer than those of the shard, and returns those
// that it has then.
func (s Shard) adopt(ctx context.Context, by *script.Transition, newer revised) (revised, error) {
	r, err := s.Repeat(ctx, by, newer.settings, newer.at)
	if err != nil {
		return revised{}, err
	}
	holds := revised{settings: r.Text(), at: r.Decimal()}
	return holds, r.End()
}

// settingsIn reads the settings of a topic and of the store. Even with an ErrSettings
// it returns those that hold.
func settingsIn(r *script.Reply) (t TopicSettings, err error) {
	ofTopic, ofStore := r.Text(), r.Text()
	own, errOwn := valuesOf(ofTopic)
	common, errCommon := valuesOf(ofStore)
	if ofTopic == ofStore { // the settings of all topics: one error is enough
		errCommon = nil
	}
	if err := r.End(); err != nil {
		return t, err
	}
	delete(common, "paused") // only single topics are paused
	for _, one := range settings {
		value, set := own[one.Name]
		if set {
			t.Own = append(t.Own, one.Name)
		} else if value, set = common[one.Name]; !set && !one.isText {
			value = strconv.FormatInt(one.fallback, 10)
		}
		one.set(reflect.ValueOf(&t.Settings).Elem().FieldByIndex(one.Index), value)
	}
	t.Burst = cmp.Or(t.Burst, burstOf(t.Rate))
	if t.Paused {
		ms, _ := strconv.ParseInt(own[pauseEnd.Name], 10, 64)
		t.PausedUntil = timeIn(ms)
	}
	return t, errors.Join(errOwn, errCommon)
}

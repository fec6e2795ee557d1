package notify

import (
	"context"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Settings are the settings of a topic: limits, times, and whether it is paused. A
// value that a message or a claim sets itself goes before them.
type Settings = store.Settings

// A SettingsChange changes settings: nil leaves a setting as it is.
//
//	change := notify.SettingsChange{Attempts: new(5), Lease: new(time.Minute), Default: []string{"rate"}}
type SettingsChange = store.SettingsChange

// TopicSettings are the settings of a topic, and the names of those that the topic has
// itself.
type TopicSettings = store.TopicSettings

// AllTopics names the store's settings in Settings and Set: those of all topics that
// have none of their own.
const AllTopics = record.AllTopics

// Settings returns the settings of a topic, or of AllTopics. The topic may be unused.
// Errors: ErrInvalid, that of settings that cannot be read, or that of the connection.
func (i *Inspector) Settings(ctx context.Context, topic string) (TopicSettings, error) {
	if err := record.CheckTopicOrAll(topic); err != nil {
		return TopicSettings{}, err
	}
	got, err := i.settings(ctx, topic)
	if err != nil {
		return TopicSettings{}, fmt.Errorf("settings of %s: %w", topic, err)
	}
	return got, nil
}

func (i *Inspector) settings(ctx context.Context, topic string) (TopicSettings, error) {
	if topic == AllTopics {
		return i.store.SettingsOfAll(ctx)
	}
	return i.store.Of(topic).Settings(ctx, topic)
}

// Set changes settings of a topic, or of AllTopics, and returns all its settings. They
// stay when all else of the topic is forgotten. Errors: a joined Fault for each setting
// that is out of range (nothing was changed), ErrUnreplicated, or that of the
// connection; for AllTopics also a [MissingError] beside the settings: they are changed,
// and the shards that it names take them over later.
func (i *Inspector) Set(ctx context.Context, topic string, c SettingsChange) (TopicSettings, error) {
	if err := record.CheckTopicOrAll(topic); err != nil {
		return TopicSettings{}, err
	}
	got, err := i.set(ctx, topic, c)
	if err != nil {
		err = fmt.Errorf("set %s: %w", topic, err)
	}
	return got, err
}

func (i *Inspector) set(ctx context.Context, topic string, c SettingsChange) (TopicSettings, error) {
	if topic == AllTopics {
		return i.store.SetForAll(ctx, c, false)
	}
	return i.store.Of(topic).Set(ctx, topic, c, false)
}

// Pause stops handing out messages of a topic until Resume: claims get nothing, and no
// subscriber is rung. Messages are still accepted, become ready, expire and can be
// cancelled; leased ones can be settled, and broadcasts are sent. To pause a topic
// again changes nothing, but that an end is removed which [store.PauseUntil] gave the
// pause; and the topic may be unused. Errors: ErrInvalid, ErrUnreplicated, or that of
// the connection.
func (i *Inspector) Pause(ctx context.Context, topic string) error {
	return i.setPaused(ctx, "pause", topic, true)
}

// Resume ends a Pause and rings waiting subscribers for what is ready. Without a pause
// it changes nothing. Errors: ErrInvalid, ErrUnreplicated, or that of the connection.
func (i *Inspector) Resume(ctx context.Context, topic string) error {
	return i.setPaused(ctx, "resume", topic, false)
}

func (i *Inspector) setPaused(ctx context.Context, verb, topic string, paused bool) error {
	if err := record.CheckTopic(topic); err != nil {
		return err
	}
	if _, err := i.store.Of(topic).Set(ctx, topic, SettingsChange{Paused: &paused}, false); err != nil {
		return fmt.Errorf("%s %s: %w", verb, topic, err)
	}
	return nil
}

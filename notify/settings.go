package notify

import (
	"context"
	"fmt"

	"github.com/bellhopd/bellhop/notify/store"
)

// Settings are what holds for the messages of a topic: limits, times, and
// whether it is paused. What a message or a claim asks for itself goes before
// that; what is set for no topic holds for all.
type Settings = store.Settings

// A SettingsChange sets settings: nil leaves one as it is, and a pointer to zero
// has the default hold again.
//
//	change := notify.SettingsChange{Attempts: new(5), Lease: new(time.Minute)}
type SettingsChange = store.SettingsChange

// TopicSettings are the settings of a topic, and the names of those that are set
// for it.
type TopicSettings = store.TopicSettings

// DefaultSettings hold where nothing else is set.
var DefaultSettings = store.DefaultSettings

// AllTopics stands for all topics that have no settings of their own, where
// settings are looked at and set.
const AllTopics = store.AllTopics

// Settings returns what holds for a topic, or for AllTopics. A topic need not
// have been used. Errors: ErrInvalid, ErrSettings, or that of the connection.
func (i *Inspector) Settings(ctx context.Context, topic string) (TopicSettings, error) {
	if err := store.CheckTopicOrAll(topic); err != nil {
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

// Set changes settings of a topic, or of AllTopics, and returns what holds then.
// They stay when the topic is forgotten otherwise. Errors: a joined Fault for each
// one that is out of range, with which nothing is changed, or that of the connection.
func (i *Inspector) Set(ctx context.Context, topic string, c SettingsChange) (TopicSettings, error) {
	if err := store.CheckTopicOrAll(topic); err != nil {
		return TopicSettings{}, err
	}
	got, err := i.set(ctx, topic, c)
	if err != nil {
		return TopicSettings{}, fmt.Errorf("set %s: %w", topic, err)
	}
	return got, nil
}

func (i *Inspector) set(ctx context.Context, topic string, c SettingsChange) (TopicSettings, error) {
	if topic == AllTopics {
		return i.store.SetForAll(ctx, c, false)
	}
	return i.store.Of(topic).Set(ctx, topic, c, false)
}

// Pause has nothing of a topic handed out until Resume: claims get nothing, and
// nobody is woken. Its messages are accepted, become ready, expire and can be
// cancelled as ever; those that a worker has in hand can be settled, and
// broadcasts are sent. A topic that is paused already stays so, and one that was
// never used may be paused. Errors: ErrInvalid, or that of the connection.
func (i *Inspector) Pause(ctx context.Context, topic string) error {
	return i.setPaused(ctx, "pause", topic, true)
}

// Resume ends a Pause, and wakes who waits for what is ready. A topic that is
// not paused stays so. Errors: ErrInvalid, or that of the connection.
func (i *Inspector) Resume(ctx context.Context, topic string) error {
	return i.setPaused(ctx, "resume", topic, false)
}

func (i *Inspector) setPaused(ctx context.Context, verb, topic string, paused bool) error {
	if err := store.CheckTopic(topic); err != nil {
		return err
	}
	if _, err := i.store.Of(topic).Set(ctx, topic, SettingsChange{Paused: &paused}, false); err != nil {
		return fmt.Errorf("%s %s: %w", verb, topic, err)
	}
	return nil
}

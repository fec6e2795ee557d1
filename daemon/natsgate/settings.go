package natsgate

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// settings returns the settings of a topic, or changes them first. A literal * is
// no topic here: the right to the settings of topics does not include the defaults.
func (g *Gate) settings(ctx context.Context, r request) (*nats.Msg, error) {
	if err := record.CheckTopic(r.name); err != nil {
		return nil, err
	}
	return g.settingsOf(ctx, r.name, r.data)
}

// defaults does the same for the settings of all topics that have none of their own.
func (g *Gate) defaults(ctx context.Context, r request) (*nats.Msg, error) {
	return g.settingsOf(ctx, notify.AllTopics, r.data)
}

// settingsOf changes settings as data says, if there is any, and returns them.
func (g *Gate) settingsOf(ctx context.Context, topic string, data []byte) (*nats.Msg, error) {
	if len(data) == 0 {
		return settingsMessage(topic)(g.inspector.Settings(ctx, topic))
	}
	change, err := api.DecodeSettings(topic, data)
	if err != nil {
		return nil, err
	}
	return settingsMessage(topic)(g.inspector.Set(ctx, topic, change))
}

// settingsMessage returns a function that makes the reply with the settings of a topic.
func settingsMessage(topic string) func(notify.TopicSettings, error) (*nats.Msg, error) {
	return func(s notify.TopicSettings, err error) (*nats.Msg, error) {
		if err != nil {
			return nil, err
		}
		return jsonMessage(api.SettingsOf(topic, s)), nil
	}
}

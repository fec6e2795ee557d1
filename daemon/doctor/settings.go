package doctor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// settings reports the settings of topics without settings of their own, and where
// the configuration differs.
func (e *exam) settings(ctx context.Context) {
	const check = "settings"
	holds, err := e.defaults(ctx)
	switch {
	case errors.Is(err, store.ErrSettings):
		e.report(check, Fail, "for all topics: "+err.Error(), "run bellhop doctor --repair; until then the built-in defaults apply instead")
		return
	case err != nil:
		e.report(check, Warn, err.Error(), "see the check of rights above")
		return
	}
	apart := api.SettingsApart(e.o.Defaults, holds.Settings)
	for _, one := range apart {
		e.report(check, Warn, fmt.Sprintf("%s is %s for topics without a setting of their own, but %s in the configuration", one.Name, one.Has, one.Wanted),
			fmt.Sprintf("change the configuration, or run bellhop topics set '*' %s=%s", one.Name, one.Wanted))
	}
	other := e.otherSettings(ctx, holds)
	if len(other) > 0 {
		e.report(check, Warn, numbers(other)+": the settings for all topics are not those of home", "a carrier that is elected there takes them over; or set one of them again: bellhop topics set '*' NAME=VALUE")
	}
	if len(apart)+len(other) == 0 {
		e.report(check, OK, describe(holds)+e.ownSettings(ctx), "")
	}
}

// otherSettings returns the shards whose settings for all topics are not those of home,
// which hold there until a carrier takes those over.
func (e *exam) otherSettings(ctx context.Context, home notify.TopicSettings) (other []store.Shard) {
	if founded, err := e.founded(ctx); err != nil || !founded {
		return nil
	}
	for _, shard := range e.shards[1:] {
		own, err := shard.Settings(ctx, notify.AllTopics)
		if errors.Is(err, store.ErrSettings) || err == nil && !reflect.DeepEqual(own, home) { // one that is away is reported already
			other = append(other, shard)
		}
	}
	return other
}

// defaults returns the settings of topics without settings of their own. It leaves
// an empty store empty: reading the settings would found it.
func (e *exam) defaults(ctx context.Context) (notify.TopicSettings, error) {
	if founded, err := e.founded(ctx); err != nil || !founded {
		return notify.TopicSettings{Settings: store.DefaultSettings}, err
	}
	return e.store.SettingsOfAll(ctx)
}

// describe returns in words what is set for all topics.
func describe(holds notify.TopicSettings) string {
	var set []string
	for _, f := range fields.In[notify.SettingsChange]() {
		if slices.Contains(holds.Own, f.Name) {
			set = append(set, f.Name+" "+api.Setting(f, holds.Settings))
		}
	}
	if len(set) == 0 {
		return "the built-in defaults"
	}
	return "for all topics: " + strings.Join(set, ", ")
}

// ownSettings returns in words how many topics have settings of their own. It reads
// all topics, so a quick run leaves it out.
func (e *exam) ownSettings(ctx context.Context) string {
	if e.o.Quick {
		return ""
	}
	each, err := store.Gather(ctx, e.store, func(ctx context.Context, shard store.Shard) ([]string, error) { return shard.WithSettings(ctx) })
	if err != nil { // reported by the check of the contents
		return ""
	}
	topics := slices.Concat(each...)
	topics = slices.DeleteFunc(topics, func(topic string) bool { return topic == notify.AllTopics })
	return fmt.Sprintf("; with settings of their own: %s", plural(len(topics), "topic"))
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
)

// settings tells what holds for topics that have no settings of their own, and
// where the configuration has it otherwise.
func (e *exam) settings(ctx context.Context) {
	const check = "settings"
	holds, err := e.defaults(ctx)
	switch {
	case errors.Is(err, store.ErrSettings):
		e.tell(check, Fail, "of all topics: "+err.Error(), "run bellhop doctor --repair; until then the built-in defaults hold for those")
		return
	case err != nil:
		e.tell(check, Warn, err.Error(), "see to the rights of this user, above")
		return
	}
	apart := api.SettingsApart(e.o.Defaults, holds.Settings)
	for _, one := range apart {
		e.tell(check, Warn, fmt.Sprintf("%s is %s for topics that have no setting of it, and %s by the configuration", one.Name, one.Has, one.Wanted),
			fmt.Sprintf("change one of them: bellhop topics set '*' %s=%s sets that of all topics", one.Name, one.Wanted))
	}
	if len(apart) == 0 {
		e.tell(check, OK, describe(holds)+e.ownSettings(ctx), "")
	}
}

// defaults returns what holds for topics that have no settings of their own. A
// look at them would found the store.
func (e *exam) defaults(ctx context.Context) (notify.TopicSettings, error) {
	if founded, err := e.store.Founded(ctx); err != nil || !founded {
		return notify.TopicSettings{Settings: notify.DefaultSettings}, err
	}
	return e.store.SettingsOfAll(ctx)
}

// describe says what is set for all topics.
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
	return "of all topics: " + strings.Join(set, ", ")
}

// ownSettings says how many topics have settings of their own, which takes a look
// at all topics.
func (e *exam) ownSettings(ctx context.Context) string {
	if e.o.Quick {
		return ""
	}
	topics, err := e.store.Only().WithSettings(ctx)
	if err != nil { // which the look at all keys tells
		return ""
	}
	topics = slices.DeleteFunc(topics, func(topic string) bool { return topic == notify.AllTopics })
	return fmt.Sprintf("; with settings of their own: %s", plural(len(topics), "topic"))
}

package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A settingRow is a setting of a topic.
type settingRow struct {
	fields.Field
	Value string // that holds
	From  string
	own   string // what the topic has itself; empty: nothing
}

// id returns the name of the setting in the form, beside the fields of messages.
func (s settingRow) id() string { return "set." + s.Name }

// settings returns the settings of a topic, and where each comes from, and the topic's branches.
func (c *Console) settings(ctx context.Context, topic string) (rows []settingRow, branches []string, err error) {
	if record.CheckTopic(topic) != nil {
		return nil, nil, nil
	}
	common, err := c.inspector.Settings(ctx, notify.AllTopics)
	if err != nil && !errors.Is(err, store.ErrSettings) {
		return nil, nil, err
	}
	own, err := c.inspector.Settings(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range fields.In[notify.SettingsChange]() {
		row := settingRow{Field: f, Value: api.Setting(f, own.Settings), From: "built in"}
		switch {
		case slices.Contains(own.Own, f.Name):
			row.From, row.own = "this topic", row.Value
		case slices.Contains(common.Own, f.Name):
			row.From = "all topics"
		}
		rows = append(rows, row)
	}
	return rows, own.BranchesOf(topic), nil
}

// sets reports whether a form changes settings.
func (v *visit) sets() bool { return v.r.PostForm.Get("mode") == "settings" }

// SetRefused and PublishRefused return why the form was refused that changes settings, and the one that publishes; nil: it was not.
func (t *topicView) SetRefused() *pageFault {
	if t.sets() {
		return t.Refused
	}
	return nil
}

func (t *topicView) PublishRefused() *pageFault {
	if t.sets() {
		return nil
	}
	return t.Refused
}

// Input returns the field of the form for a setting: with what the topic has itself, or with what was refused.
func (t *topicView) Input(s settingRow) input {
	value, wrong := s.own, []string(nil)
	if t.sets() {
		wrong = t.wrong
		if typed, changed := t.change(s); changed {
			value = typed
		}
	}
	in := inputOf(s.Field, s.id(), value, wrong)
	switch in.None = "default"; {
	case s.own == "" && in.Choices() != nil:
		in.None = "default: " + s.Value
	case s.own == "":
		in.None = s.Value
	}
	return in
}

// change returns what was typed for a setting, and whether it is another value than the page showed.
func (v *visit) change(s settingRow) (typed string, changed bool) {
	typed = v.typed(s.id())
	return typed, typed != v.seen().Get(s.Name)
}

// Seen returns what the topic has itself, for the form.
func (t *topicView) Seen() string {
	seen := make(url.Values)
	for _, s := range t.Settings {
		if s.own != "" {
			seen.Set(s.Name, s.own)
		}
	}
	return seen.Encode()
}

// set changes the settings of a topic that are others in the form than on the page that had it.
func (c *Console) set(ctx context.Context, v *visit, topic string) (string, int, error) {
	if err := v.check("changeSettings", "topic", topic); err != nil {
		return "", 0, err
	}
	rows, _, err := c.settings(ctx, topic)
	if err != nil {
		return "", 0, err
	}
	c.caches.details.Forget(topic) // the form is shown again with what is so now
	given, command, err := v.changes(rows)
	change, bad := api.ReadSettings(topic, given)
	if err = errors.Join(err, bad); err != nil {
		return "", 0, err
	}
	_, err = c.inspector.Set(ctx, topic, change)
	c.forget(topic)
	return "Changed settings: bellhop topics set " + topic + command, oneIf(err), err
}

// changes returns the settings that were changed in the form, and what a command says for that. The error joins a Fault for each that somebody
// else changed since the page was read.
func (v *visit) changes(rows []settingRow) (given []api.SettingText, command string, err error) {
	var meanwhile []error
	for _, s := range rows {
		typed, changed := v.change(s)
		if !changed {
			continue
		}
		if was := v.seen().Get(s.Name); was != s.own {
			meanwhile = append(meanwhile, fault.New(s.Name, "%s: it is %s now, and was %s when the page was read; send the form again to have it as you wrote it", s.Name, cmp.Or(s.own, "the default"), cmp.Or(was, "the default")))
		}
		one := api.SettingText{Name: s.Name}
		if typed != "" {
			one.Text = &typed
		}
		given, command = append(given, one), command+" "+s.Name+"="+typed
	}
	return given, command, errors.Join(meanwhile...)
}

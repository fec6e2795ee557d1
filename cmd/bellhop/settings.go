package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

func (a *app) topicsSetCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "set TOPIC NAME=VALUE...",
		Short: "Change settings of a topic, or of all",
		Long: `Change settings of a topic, and print the result. A topic can have settings before
it is used, and keeps them when nothing else is left of it. With '*' for TOPIC,
change the settings of all topics that have none of their own.

` + settingDocs() + `
Settings that are not named stay as they are. NAME= restores the default: that of
'*', or else the one in brackets. Values of a message or a claim itself take
precedence over settings. A leased message keeps the lease of its claim.`,
		Example: `  bellhop topics set order.timeout attempts=5 lease=1m
  bellhop topics set order.timeout attempts=
  bellhop topics set '*' backoff_min=2s backoff_max=1h`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return misused("topic", "TOPIC is missing")
			case 1:
				return misused("settings", "NAME=VALUE is missing: give one or more of %s", strings.Join(fields.Names[notify.SettingsChange](), ", "))
			}
			return nil
		},
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		change, err := readSettings(args[0], args[1:])
		if err != nil {
			return err
		}
		return a.printSettings(ctx, s, args[0], func() (notify.TopicSettings, error) { return s.inspector.Set(ctx, args[0], change) })
	})
}

func (a *app) topicsSettingsCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "settings [TOPIC]",
		Short: "Show the settings of a topic, or of all",
		Long: `Show the settings that apply to a topic, and where each comes from: it was set for
the topic or for the store, or it is built in. Without TOPIC, show the settings of
all topics that have none of their own, as with '*'.`,
		Example: `  bellhop topics settings order.timeout
  bellhop topics settings order.timeout --json | jq .lease_ms`,
		Args: takes("[TOPIC]"),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		topic := append(args, notify.AllTopics)[0]
		return a.printSettings(ctx, s, topic, func() (notify.TopicSettings, error) { return s.inspector.Settings(ctx, topic) })
	})
}

// settingDocs describes each setting and its built-in value.
func settingDocs() string {
	var b strings.Builder
	for _, f := range fields.In[notify.SettingsChange]() {
		about := fmt.Sprintf("%s (%s)", f.Doc, api.Setting(f, store.DefaultSettings))
		for i, line := range text.Wrap(about, 61) {
			name := f.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "  %-15s %s\n", name, line)
		}
	}
	return b.String()
}

// readSettings parses changes of the form NAME=VALUE. The error joins a
// notify.Fault for each that is invalid.
func readSettings(topic string, given []string) (notify.SettingsChange, error) {
	var all []api.SettingText
	var faults []error
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		switch {
		case !ok:
			faults = append(faults, fault.New("settings", "setting %q: write NAME=VALUE", one))
		case value == "":
			all = append(all, api.SettingText{Name: name})
		default:
			all = append(all, api.SettingText{Name: name, Text: &value})
		}
	}
	if len(all) == 0 {
		return notify.SettingsChange{}, errors.Join(faults...)
	}
	change, err := api.ReadSettings(topic, all)
	return change, errors.Join(append(faults, err)...)
}

// printSettings reads or changes the settings of a topic by do, and prints the result.
func (a *app) printSettings(ctx context.Context, s *session, topic string, do func() (notify.TopicSettings, error)) error {
	common, err := s.inspector.Settings(ctx, notify.AllTopics)
	if err != nil && !errors.Is(err, store.ErrSettings) { // which a change repairs
		return err
	}
	result, err := do()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(api.SettingsOf(topic, result))
	}
	rows := [][]string{{"NAME", "VALUE", "FROM"}}
	for _, f := range fields.In[notify.SettingsChange]() {
		from := "built in"
		switch own := slices.Contains(result.Own, f.Name); {
		case own && topic != notify.AllTopics:
			from = "topic"
		case own || topic != notify.AllTopics && slices.Contains(common.Own, f.Name):
			from = "store"
		}
		value := api.Setting(f, result.Settings)
		if f.Name == "paused" && !result.PausedUntil.IsZero() {
			value += " until " + a.stamp(result.PausedUntil)
		}
		rows = append(rows, []string{f.Name, value, from})
	}
	a.printRows(rows)
	return nil
}

// settingsLike returns the settings, with =, that begin with a text and were not given before.
func settingsLike(given []string, begun string) (names []string) {
	for _, name := range fields.Names[notify.SettingsChange]() {
		is := func(one string) bool { return strings.HasPrefix(one, name+"=") }
		if strings.HasPrefix(name, begun) && !slices.ContainsFunc(given, is) {
			names = append(names, name+"=")
		}
	}
	return names
}

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
)

// A shell asks for completions at each press of Tab. It gets at most
// maxCompletions, and none if Redis does not answer within completeWithin.
const maxCompletions = 100

var completeWithin = time.Second // tests wait for longer

// complete sets, for a command and all below it whose first argument is a topic,
// that the shell completes it from Redis.
func (a *app) complete(c *cobra.Command) {
	if usage := strings.Fields(c.Use); len(usage) > 1 && (strings.HasPrefix(usage[1], "TOPIC") || usage[1] == "[TOPIC]" || usage[1] == "[PATTERN]") {
		c.ValidArgsFunction = a.first(a.topicsLike)
	}
	for _, below := range c.Commands() {
		a.complete(below)
	}
}

// first completes the first argument, and settings after it. The shell completes a command after it.
func (a *app) first(find finder) cobra.CompletionFunc {
	found := a.found(find)
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return found(c, args, begun)
		case strings.Contains(c.Use, "CMD"):
			return nil, cobra.ShellCompDirectiveDefault
		case strings.Contains(c.Use, "NAME=VALUE"):
			return settingsLike(args[1:], begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// A finder finds names in Redis that begin with a text.
type finder func(ctx context.Context, s *session, begun string) ([]string, error)

// found completes what a finder finds.
func (a *app) found(find finder) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, stop := context.WithTimeout(c.Context(), completeWithin)
		defer stop()
		s, err := a.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // the command itself will report it
		}
		defer s.store.Close()
		names, _ := find(ctx, s, begun) // as many as can be found
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// topicsLike finds topics that begin with a text.
func (a *app) topicsLike(ctx context.Context, s *session, begun string) (names []string, err error) {
	before := ""
	if n := len(begun); n > 0 {
		before = begun[:n-1] + string(begun[n-1]-1) + "~" // comes after all topics before the first that may begin so: no topic contains ~
	}
	counts, _, err := s.inspector.TopicsAfter(ctx, before, maxCompletions)
	for _, c := range counts {
		if strings.HasPrefix(c.Topic, begun) {
			names = append(names, c.Topic)
		}
	}
	return names, err
}

// listenersLike finds named listeners that begin with a text.
func (a *app) listenersLike(ctx context.Context, s *session, begun string) ([]string, error) {
	names, err := s.store.Home().ListenerNames(ctx)
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, begun) || terminal.Quote(name) != name // not a name that Bellhop registered
	})
	slices.Sort(names)
	return names[:min(len(names), maxCompletions)], err
}

func (a *app) pushesLike(ctx context.Context, s *session, begun string) (names []string, err error) {
	all, err := s.store.Home().Pushes(ctx)
	for _, p := range all {
		if strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name)
		}
	}
	return names[:min(len(names), maxCompletions)], err
}

// states returns the names of all states.
func states() (names []string) {
	for _, s := range []notify.State{notify.Scheduled, notify.Ready, notify.Blocked, notify.Leased, notify.Dead, notify.Done} {
		names = append(names, s.String())
	}
	return names
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// branches reports topics at which workers and pushes wait for nothing: each has branches, into which all is copied, or is none of its topic's.
func (e *exam) branches(ctx context.Context, s service) {
	const check = "branches"
	topics, err := e.awaited(ctx, s)
	counts, errCount := e.inspector.Count(ctx, topics...)
	ctx = e.store.AheadOfSettings(ctx, withBranches(topics))
	if err = there(err); err == nil {
		err = there(errCount)
	}
	rows := 0
	for i := 0; i < len(counts) && err == nil; i++ {
		c := counts[i]
		of, name := record.SplitBranch(c.Topic)
		settings, fault := e.inspector.Settings(ctx, of)
		if fault != nil {
			continue // reported by the check of the settings, or of the shards
		}
		found, remedy := Misplaced(of, name, c.Waiting, settings.Settings)
		if found == "" {
			continue
		}
		if rows++; rows <= named {
			e.warn(c.Topic, check, found, remedy)
		}
	}
	if err != nil {
		e.report(check, Warn, err.Error(), "fix what Redis reports")
		return
	}
	e.reportRest(check, rows, 0, "topic", "bellhop workers", "nobody waits at a topic that has them, or at one that is none")
}

// withBranches returns the topics of which some are branches, or that are it themselves, each once.
func withBranches(topics []string) (all []string) {
	for _, topic := range topics {
		of, _ := record.SplitBranch(topic)
		all = append(all, of)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// awaited returns the topics that workers and pushes name.
func (e *exam) awaited(ctx context.Context, s service) (topics []string, err error) {
	if s.Now.IsZero() {
		return nil, nil // nothing was published yet, and a look would found the store
	}
	workers, err := e.store.Home().Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if w.Kind == "worker" {
			topics = append(topics, w.Topics...)
		}
	}
	all, err := e.allPushes(ctx)
	for _, p := range all {
		if !p.Broadcasts {
			topics = append(topics, p.Topics...)
		}
	}
	slices.Sort(topics)
	topics = slices.DeleteFunc(slices.Compact(topics), func(topic string) bool { return record.CheckTopic(topic) != nil })
	return topics, err
}

// Misplaced says what is wrong with a topic, or with the branch of it that a name is, at which n wait, and what to do about it; empty: nothing is.
func Misplaced(of, name string, n int64, settings store.Settings) (found, remedy string) {
	branches := strings.ReplaceAll(settings.Branches, ",", ", ")
	switch all := settings.BranchesOf(of); {
	case name == "" && len(all) > 0 && n > 0:
		return fmt.Sprintf("%d wait at %s, which has branches %s", n, of, branches), "bellhop work " + all[0]
	case name != "" && len(all) == 0:
		return fmt.Sprintf("%s@%s is no branch of %[1]s, which has none", of, name), "add it, or work the topic: bellhop topics set " + of + " branches=+" + name
	case name != "" && !slices.Contains(all, of+"@"+name):
		return fmt.Sprintf("%s@%s is no branch of %[1]s (%[3]s)", of, name, branches), "work one of those, or add it: bellhop topics set " + of + " branches=+" + name
	}
	return "", ""
}

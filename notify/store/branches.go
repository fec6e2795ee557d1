package store

import (
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// checkBranches returns a Fault for branches that a topic cannot have.
func (c SettingsChange) checkBranches(topic string) error {
	of, name := record.SplitBranch(topic)
	switch {
	case c.Branches == nil && c.BranchTTL == nil:
		return nil
	case name != "":
		return fault.New("branches", "branches: %s is a branch itself; set them on %s", topic, of)
	case c.Branches == nil:
		return nil
	}
	for one := range strings.SplitSeq(strings.TrimLeft(*c.Branches, "+-"), ",") {
		if branch := topic + "@" + one; len(branch) > record.MaxTopic {
			return fault.New("branches", "branches: %s has %d bytes; a topic has at most %d", branch, len(branch), record.MaxTopic)
		}
	}
	return nil
}

// BranchesOf returns the branches of a topic that has these settings, each as TOPIC@NAME.
func (s Settings) BranchesOf(topic string) (all []string) {
	for name := range strings.FieldsFuncSeq(s.Branches, func(r rune) bool { return r == ',' }) {
		all = append(all, topic+"@"+name)
	}
	return all
}

// Why branches are not changed, as shared/branches.lua says.
const (
	branchesNeedSeats = -1 - iota
	branchesAreMany
	branchesAreLimited
)

// branchFault returns the Fault of a change of a topic's branches that was refused, and of how many.
func branchFault(topic any, why, n int64) error {
	switch why {
	case branchesNeedSeats:
		return fault.New("branches", "branches: %s has ready messages with keys among %d that are not copied yet; resume it if it is paused, and try again", topic, n)
	case branchesAreMany:
		return fault.New("branches", "branches: there would be %d; a topic has at most %d", n, record.MostBranches)
	}
	return fault.New("branches", "branches: %[1]s would have a concurrency or a rate beside them; set those on each branch, such as %[1]s@NAME", topic)
}

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	groupsScript      = script.New("groups")
	groupScript       = script.New("group")
	forgetGroupScript = script.New("forget_group", script.Promised)
)

// ErrNoGroup is the error of a name that no group of the topic has.
var ErrNoGroup = errors.New("no group of the topic has this name")

// What a call about groups reads, or changes.
const (
	MaxGroups       = 500
	MaxGroupMembers = 5 // that live, and as many that are dead

	pagesOfGroups = 100  // of a list, which passes over those that are forgotten
	leaveAtOnce   = 1000 // members
)

// What forget_group.lua replies in place of how many members left.
const (
	noGroup   = -1
	waitedFor = -2
)

// GroupState says how a group is.
type GroupState string

// The states of a group.
const (
	GroupOpen      GroupState = "open"      // nothing waits for it
	GroupWaiting   GroupState = "waiting"   // its callback does
	GroupHeld      GroupState = "held"      // so it is, and all that are left are dead
	GroupDone      GroupState = "complete"  // its callback came; once none are left its name is taken for an hour
	GroupRestoring GroupState = "restoring" // an import has not reached its line yet, and its callback waits for that, too
)

// GroupStates are the states of a group, in the order in which scripts count them.
var GroupStates = []GroupState{GroupOpen, GroupWaiting, GroupHeld, GroupDone, GroupRestoring}

// A Group is what is known of the messages of a topic that name one group.
type Group struct {
	Name      string
	State     GroupState
	Left      int64 // that have not ended: dead ones count, unless the callback does not wait for them
	Dead      int64 // that are dead, or were when they were purged
	Acked     int64
	Dropped   int64
	Cancelled int64
	Callback  string    // TOPIC:ID of the message that waits for it, or did; empty: none does
	Opened    time.Time // when its first message was published, or its callback
	Complete  time.Time // zero: it is not, or its callback came by a time and some are left
}

// A GroupMember is a message that a group waits for.
type GroupMember struct {
	Topic string // of the group, or a branch of it
	Seat
	Reason string // of the death of one that is dead
}

// ListGroups returns groups of a topic, the latest first, at most limit, and the cursor of the next page, empty at the end; the empty one is the
// beginning. A page may be short before the end. Errors: ErrInvalid, or that of the connection.
func ListGroups(ctx context.Context, s *Store, topic, cursor string, limit int) (groups []Group, next string, err error) {
	if err := errors.Join(checkHome(topic), fault.Within("limit", "limit", limit, 1, MaxGroups)); err != nil {
		return nil, "", err
	}
	if _, err := strconv.ParseUint(cursor, 10, 53); err != nil && cursor != "" {
		return nil, "", fault.New("cursor", "cursor %.100q: it is none of a list of groups; use that of the page before, or none", cursor)
	}
	for range pagesOfGroups {
		r, err := s.Of(topic).Run(ctx, groupsScript, topic, cursor, limit-len(groups))
		if err != nil {
			return nil, "", fmt.Errorf("list the groups of %s: %w", topic, err)
		}
		cursor = r.Text()
		for r.More() {
			groups = append(groups, groupIn(r.List()))
		}
		if err := r.End(); err != nil {
			return nil, "", err
		}
		if cursor == "0" {
			return groups, "", nil
		}
		if len(groups) == limit {
			break
		}
	}
	return groups, cursor, nil
}

// groupIn reads what is known of a group.
func groupIn(l *script.Reply) Group {
	return Group{
		Name: l.Text(), State: GroupState(l.Text()), Left: l.Integer(), Dead: l.Integer(), Acked: l.Integer(), Dropped: l.Integer(), Cancelled: l.Integer(),
		Callback: l.Text(), Opened: sinceOf(l.Text()), Complete: sinceOf(l.Text()),
	}
}

// ShowGroup returns what is known of a group, and some of those that it waits for: up to MaxGroupMembers that live, and as many that are dead, if
// these hold it. Errors: ErrNoGroup, ErrInvalid, or that of the connection.
func ShowGroup(ctx context.Context, s *Store, topic, name string) (g Group, some []GroupMember, err error) {
	if err := checkGroup(topic, name); err != nil {
		return Group{}, nil, err
	}
	r, err := s.Of(topic).Run(ctx, groupScript, topic, name, MaxGroupMembers)
	if err != nil {
		return Group{}, nil, fmt.Errorf("show the group %s of %s: %w", name, topic, err)
	}
	if !r.More() {
		return Group{}, nil, fmt.Errorf("%s of %s: %w", name, topic, ErrNoGroup)
	}
	for g = groupIn(r.List()); r.More(); {
		l := r.List()
		some = append(some, GroupMember{l.Text(), Seat{ID: l.Text(), State: l.State(), By: l.Text(), Since: sinceOf(l.Text())}, l.Text()})
	}
	return g, some, r.End()
}

// checkHome returns a Fault for a topic that cannot have groups.
func checkHome(topic string) error {
	if of, branch := record.SplitBranch(topic); branch != "" {
		return fault.New("topic", "topic %.200s: a branch has no groups of its own, its messages are in those of %s; name that", topic, of)
	}
	return record.CheckAnyTopic(topic)
}

// checkGroup returns a Fault for what cannot be a group of a topic.
func checkGroup(topic, name string) error {
	if err := checkHome(topic); err != nil {
		return err
	}
	if _, _, err := record.SplitGroup("t:" + name); err != nil {
		return fault.New("name", "group %.200q: use 1 to 128 of A-Z a-z 0-9 . _ ~ : -, not ~ first", name)
	}
	return nil
}

// ForgetGroup forgets a group: its callback is cancelled, and its members stay as messages that are in none. One that fails in between is repeated.
// It returns how many members left, and the callback that was cancelled, empty if none was. Errors: ErrNoGroup, ErrInvalid, ErrUnreplicated, or
// that of the connection.
func ForgetGroup(ctx context.Context, s *Store, topic, name string) (left int64, cancelled string, err error) {
	if err := checkGroup(topic, name); err != nil {
		return 0, "", err
	}
	for begun := false; ; begun = true {
		n, callback, err := s.Of(topic).forgetSome(ctx, topic, name)
		left += max(n, 0)
		cancelled = cmp.Or(callback, cancelled)
		switch {
		case err == nil && n == noGroup && !begun:
			return 0, "", fmt.Errorf("%s of %s: %w", name, topic, ErrNoGroup)
		case err != nil:
			return left, cancelled, fmt.Errorf("forget the group %s of %s: %w", name, topic, err)
		case n == 0 || n == noGroup:
			return left, cancelled, nil
		}
	}
}

// forgetSome takes members out of a group, and returns how many; 0: it is forgotten. Or it cancels its callback, which it returns.
func (s Shard) forgetSome(ctx context.Context, topic, name string) (left int64, cancelled string, err error) {
	r, err := s.Repeat(ctx, forgetGroupScript, topic, name, leaveAtOnce)
	if err != nil {
		return 0, "", err
	}
	if left = r.Integer(); left != waitedFor {
		return left, "", r.End()
	}
	callback, published := r.Text(), sinceOf(r.Text())
	if err := r.End(); err != nil {
		return waitedFor, "", err
	}
	of, _, _ := record.SplitMember(callback)
	if was, err := s.CancelWaiting(ctx, of, callback, published); was != record.Scheduled {
		return waitedFor, "", err // it came meanwhile
	}
	return waitedFor, callback, err
}

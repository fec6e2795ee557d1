package calls

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	pathGroups  = PathTopic + "/groups"
	forgetsTime = time.Minute // that it may take to forget a group of a million
)

type groupsInput struct {
	OfTopic
	paged
}

var _ = define(Call{
	Name: "listGroups", Method: "GET", Path: pathGroups, Tag: TagOperate, Status: http.StatusOK, Reply: Groups{}, NATS: ByTopic, Lasts: true, Long: true,
	Rights: []Right{MayPublish, MayConsume}, Summary: "List the groups of a topic, the latest first, a page at a time",
}, func(ctx context.Context, s *Service, r *Request, in *groupsInput) (any, error) {
	groups, next, err := store.ListGroups(ctx, s.Store, in.Topic, in.Cursor, in.Limit)
	page := Groups{Groups: make([]Group, len(groups)), Cursor: next}
	for i, one := range groups {
		page.Groups[i] = groupOf(one)
	}
	return reply(page, err)
})

// ofGroup is the input of a call about a group.
type ofGroup struct {
	OfTopic
	Name string `path:"name" words:"letters, digits and . _ ~ : -, not ~ first" maxLength:"128" pattern:"^[A-Za-z0-9._:-][A-Za-z0-9._~:-]*$" example:"import-7" doc:"name of the group"`
}

var _ = define(Call{
	Name: "getGroup", Method: "GET", Path: pathGroups + "/{name}", Tag: TagOperate, Status: http.StatusOK, Reply: WaitingGroup{}, NATS: ByTopic,
	Rights: []Right{MayPublish, MayConsume}, Errors: []int{404}, Summary: "Get a group, and some of the messages that it waits for",
}, func(ctx context.Context, s *Service, r *Request, in *ofGroup) (any, error) {
	group, members, err := store.ShowGroup(ctx, s.Store, in.Topic, in.Name)
	found := WaitingGroup{Group: groupOf(group), Behind: make([]GroupMember, len(members))}
	for i, m := range members {
		found.Behind[i] = GroupMember{Topic: m.Topic, ID: m.ID, State: m.State, Worker: m.By, Claimed: api.Given(m.Since), Reason: m.Reason}
	}
	return reply(found, err)
})

var _ = define(Call{
	Name: "forgetGroup", Method: "DELETE", Path: pathGroups + "/{name}", Tag: TagOperate, Status: http.StatusOK, Reply: ForgottenGroup{}, NATS: ByTopic, Takes: forgetsTime,
	Rights: []Right{MayAdmin}, Errors: []int{404}, Summary: "Forget a group: what waits for it is cancelled, and its messages stay, in no group",
	Description: "If it fails in between, repeat it. The name is free then.",
}, func(ctx context.Context, s *Service, r *Request, in *ofGroup) (any, error) {
	left, cancelled, err := store.ForgetGroup(ctx, s.Store, in.Topic, in.Name)
	return reply(ForgottenGroup{left, cancelled}, err)
})

// Groups are groups of a topic: one page.
type Groups struct {
	Groups []Group `json:"groups" nullable:"false" doc:"may be fewer than the limit, or none, on a page that is not the last: see cursor"`
	Cursor string  `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// Group is what is known of messages of a topic that name one group.
type Group struct {
	Name      string           `json:"name" example:"import-7"`
	State     store.GroupState `json:"state" enum:"open,waiting,held,complete,restoring" doc:"open: no message waits for it; waiting: one does; held: one does, and only dead messages of the group are left, so that it waits until these are requeued, purged or cancelled; complete: that message came, and once none are left the name is taken for an hour; restoring: an import has not reached the group's line, and what waits for it waits for that, too"`
	Left      int64            `json:"left" doc:"messages of it that have not ended; dead ones count, unless on_dead=go"`
	Dead      int64            `json:"dead" doc:"messages of it that are dead, or were when they were purged"`
	Acked     int64            `json:"acked"`
	Dropped   int64            `json:"dropped"`
	Cancelled int64            `json:"cancelled" doc:"messages that were cancelled, or replaced by one of another group or of none"`
	Callback  string           `json:"callback,omitempty" example:"import.done:import-7-done" doc:"TOPIC:ID of the message that waits for it, or did; missing: none does"`
	Opened    *time.Time       `json:"opened,omitempty" doc:"when its first message was published"`
	Complete  *time.Time       `json:"complete,omitempty" doc:"since when it is complete; missing: it is not, or that message came by a time, and some are left"`
}

// groupOf returns a group in its JSON form.
func groupOf(g store.Group) Group {
	return Group{g.Name, g.State, g.Left, g.Dead, g.Acked, g.Dropped, g.Cancelled, g.Callback, api.Given(g.Opened), api.Given(g.Complete)}
}

// WaitingGroup is a group, and what it waits for.
type WaitingGroup struct {
	Group
	Behind []GroupMember `json:"behind" nullable:"false" doc:"some of the messages that are left: up to 5 that live, and up to 5 that are dead"`
}

// GroupMember is a message that a group waits for.
type GroupMember struct {
	Topic   string       `json:"topic" example:"row.import" doc:"that of the group, or a branch of it"`
	ID      string       `json:"id" example:"r-17"`
	State   notify.State `json:"state,omitzero" enum:"scheduled,ready,blocked,leased,dead" doc:"missing: it is gone, and the carrier will notice"`
	Worker  string       `json:"worker,omitempty" doc:"if leased, the name of the worker that has it; missing: unknown"`
	Claimed *time.Time   `json:"claimed,omitempty" doc:"if leased, since when; missing: unknown"`
	Reason  string       `json:"reason,omitempty" doc:"if dead, why"`
}

// ForgottenGroup is what became of a group that was forgotten.
type ForgottenGroup struct {
	Left      int64  `json:"left" doc:"messages that were in it, and are in none now"`
	Cancelled string `json:"cancelled,omitempty" doc:"TOPIC:ID of the message that waited for it, which was cancelled; missing: none did"`
}

// WaitsFor says in one sentence what a group waits for. Ago tells how long ago a message was claimed.
func (g WaitingGroup) WaitsFor(ago func(time.Time) string) string {
	var b strings.Builder
	switch {
	case g.State == store.GroupDone:
		return "is complete, and " + g.Callback + " came"
	case g.State == store.GroupRestoring:
		return "is being restored: nothing that waits for it comes before an import reaches its line"
	case g.Left == 0 && g.Callback == "":
		return "waits for nobody, and nobody waits for it"
	}
	fmt.Fprintf(&b, "waits for %d", g.Left)
	for i, m := range g.Behind {
		b.WriteString([]string{": ", ", "}[min(i, 1)] + m.words(ago))
	}
	if int64(len(g.Behind)) < g.Left {
		b.WriteString(", …")
	}
	if g.Callback == "" {
		return b.String() + "; then nothing: no message waits for it"
	}
	return b.String() + "; then " + g.Callback
}

// Name returns the id of a member; of one in a branch TOPIC@BRANCH:ID.
func (m GroupMember) Name() string {
	if _, branch := record.SplitBranch(m.Topic); branch != "" {
		return record.Member(m.Topic, m.ID)
	}
	return m.ID
}

// words says how a member is.
func (m GroupMember) words(ago func(time.Time) string) string {
	name := m.Name()
	switch {
	case m.State == 0:
		return name + " gone"
	case m.State == notify.Dead:
		return name + " dead (" + m.Reason + ")"
	case m.State != notify.Leased:
		return name + " " + m.State.String()
	}
	text := name + " leased"
	if m.Worker != "" {
		text += " by " + m.Worker
	}
	if m.Claimed != nil {
		text += " for " + ago(*m.Claimed)
	}
	return text
}

package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	exportGroupsScript = script.New("export_groups")
	restoreGroupScript = script.New("restore_group", script.Promised, script.Grows)
)

// FormatOfGroups is the format that groups, branches and the outbox need: older programs would misread what these put into the store.
const FormatOfGroups = 10

// An ExportedGroup is a group in an export, beside its messages. Lines of an export have it as JSON.
type ExportedGroup struct {
	Topic    string    `json:"topic"`
	Name     string    `json:"name"`
	Opened   time.Time `json:"opened,omitzero"`
	Complete time.Time `json:"complete,omitzero"` // since when; zero: it is not

	// How many left it by how. Dead are those that were purged: the others are among the messages.
	Acked     int64 `json:"acked,omitempty"`
	Dead      int64 `json:"dead,omitempty"`
	Dropped   int64 `json:"dropped,omitempty"`
	Cancelled int64 `json:"cancelled,omitempty"`

	Callback string `json:"callback,omitempty"` // TOPIC:ID of that which waits for it, or waited
}

// Check returns a joined Fault for each field that is wrong.
func (g *ExportedGroup) Check() error {
	faults := []error{
		cmp.Or(checkHome(g.Topic), record.CheckTopic(g.Topic)), record.CheckRestored("opened", g.Opened), record.CheckRestored("complete", g.Complete),
	}
	if _, _, err := record.SplitGroup("t:" + g.Name); err != nil {
		faults = append(faults, fault.New("name", "name %.200q: use 1 to 128 of A-Z a-z 0-9 . _ ~ : -, not ~ first", g.Name))
	}
	for i, n := range []int64{g.Acked, g.Dead, g.Dropped, g.Cancelled} {
		name := []string{"acked", "dead", "dropped", "cancelled"}[i]
		faults = append(faults, fault.Within(name, name, n, 0, int64(1)<<53))
	}
	if _, _, err := record.SplitMember(g.Callback); g.Callback != "" && err != nil {
		faults = append(faults, fault.New("callback", "callback %.300q: write TOPIC:ID of a message, or leave it out", g.Callback))
	}
	return errors.Join(faults...)
}

// encode returns the group as the script gets it.
func (g *ExportedGroup) encode() string {
	had := map[string]any{"name": g.Name}
	for name, n := range map[string]int64{"acked": g.Acked, "dead": g.Dead, "dropped": g.Dropped, "cancelled": g.Cancelled} {
		if n > 0 {
			had[name] = n
		}
	}
	for name, at := range map[string]time.Time{"opened": g.Opened, "complete": g.Complete} {
		if !at.IsZero() {
			had[name] = at.UnixMilli()
		}
	}
	if g.Callback != "" {
		had["callback"] = g.Callback
	}
	text, _ := json.Marshal(had) // never fails: it has only numbers and text
	return string(text)
}

// RestoreGroup restores a group of an export, behind all its messages: from then on it may be complete. The outcome is OutcomeKept if it is here, and
// was not being restored. Errors: a joined Fault for what is wrong, and those of Publish.
func (s Shard) RestoreGroup(ctx context.Context, g *ExportedGroup) (Outcome, error) {
	if err := g.Check(); err != nil {
		return OutcomeRefused, err
	}
	if err := s.Needs(ctx, FormatOfGroups, "a group"); err != nil {
		return OutcomeRefused, err
	}
	r, err := s.Repeat(ctx, restoreGroupScript, g.Topic, g.encode())
	if err != nil {
		return OutcomeRefused, err
	}
	outcome := OutcomeKept
	if r.Flag() {
		outcome = OutcomeCreated
	}
	return outcome, r.End()
}

// ExportGroups calls f with each group, in no order, once; of one that is foreign Name is empty. A group that is there from beginning to end is among
// them. Errors: those of Export, and of f.
func (s Shard) ExportGroups(ctx context.Context, f func(g *ExportedGroup) error) error {
	var topics []string
	err := s.exportedGroups(ctx, "", func(r *script.Reply) error {
		topics = append(topics, r.Text())
		return nil
	})
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, topic := range topics {
		if seen[topic] {
			continue
		}
		seen[topic] = true
		names := make(map[string]bool)
		err := s.exportedGroups(ctx, topic, func(r *script.Reply) error {
			g := exportedGroupIn(r, topic)
			if names[g.Name] && g.Name != "" {
				return nil
			}
			names[g.Name] = true
			return f(&g)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// exportedGroups calls f at each element of all pages of a topic, or of topics if that is empty.
func (s Shard) exportedGroups(ctx context.Context, topic string, f func(r *script.Reply) error) error {
	const size = 200
	for cursor := "0"; ; {
		r, err := s.Run(ctx, exportGroupsScript, topic, cursor, size)
		if err != nil {
			return restarted(err)
		}
		for cursor = r.Text(); r.More(); {
			if err := f(r); err != nil {
				return err
			}
		}
		if err := r.End(); err != nil || cursor == "0" {
			return err
		}
	}
}

// exportedGroupIn reads a group of a topic.
func exportedGroupIn(r *script.Reply, topic string) ExportedGroup {
	g := ExportedGroup{Topic: topic, Name: r.Text()}
	for _, at := range []*time.Time{&g.Opened, &g.Complete} {
		if ms := r.Integer(); ms > 0 {
			*at = time.UnixMilli(ms).UTC()
		}
	}
	for _, n := range []*int64{&g.Acked, &g.Dead, &g.Dropped, &g.Cancelled} {
		*n = r.Integer()
	}
	g.Callback = r.Text()
	return g
}

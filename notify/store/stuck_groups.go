package store

import (
	"context"
	"time"

	"github.com/bellhopd/bellhop/notify/store/script"
)

var stuckGroupsScript = script.New("stuck_groups")

// A StuckGroup is a group that goes on for good unless somebody does something.
type StuckGroup struct {
	Topic, Name string
	State       GroupState // held, open or restoring
	Callback    string     // TOPIC:ID of what waits for it; empty: nothing does
	Left, Dead  int64      // how many are left in all, and how many of these are dead
	Since       time.Time
}

// A StuckAfter says after what time a group that is open, or is restored, counts as stuck.
type StuckAfter struct{ Open, Restoring time.Duration }

// A StuckPage is a page of groups: how many there are by state, and those that are stuck.
type StuckPage struct {
	Now    time.Time // by Redis's clock
	Topic  string    // of the next page, with Cursor; empty: this was the last
	Cursor string
	States map[GroupState]int64
	Groups []StuckGroup
}

// StuckGroups looks at some groups of a shard, from a page on, the zero one at first. Stuck are those that are held, and those that have been open,
// with messages left, or restoring for too long. The error is that of the connection.
func (s Shard) StuckGroups(ctx context.Context, most int, after StuckAfter, from StuckPage) (StuckPage, error) {
	if from.Cursor == "" {
		from.Cursor = "0"
	}
	r, err := s.Run(ctx, stuckGroupsScript, from.Topic, from.Cursor, most, after.Open.Milliseconds(), after.Restoring.Milliseconds())
	if err != nil {
		return StuckPage{}, err
	}
	page := StuckPage{Now: time.UnixMilli(r.Integer()).UTC(), Topic: r.Text(), Cursor: r.Text(), States: make(map[GroupState]int64)}
	for _, state := range GroupStates {
		page.States[state] = r.Integer()
	}
	for r.More() {
		g := StuckGroup{Topic: r.Text(), Name: r.Text(), State: GroupState(r.Text()), Callback: r.Text(), Left: r.Integer(), Dead: r.Integer()}
		g.Since = time.UnixMilli(r.Integer()).UTC()
		page.Groups = append(page.Groups, g)
	}
	return page, r.End()
}

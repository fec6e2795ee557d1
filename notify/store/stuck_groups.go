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
	Callback    string // TOPIC:ID of what waits for it, and is held back by dead letters; empty: nothing waits for it
	Left, Dead  int64  // how many are left in all, and how many of these are dead
	Since       time.Time
}

// A StuckPage is a page of stuck groups.
type StuckPage struct {
	Now    time.Time // by Redis's clock
	Rank   int64     // of the next page, with Cursor; -1: this was the last
	Cursor string
	Groups []StuckGroup
}

// StuckGroups returns the stuck ones among some groups of a shard, from a page on: those that only dead letters hold back, and those for which nothing
// has waited for long. The error is that of the connection.
func (s Shard) StuckGroups(ctx context.Context, most int, long time.Duration, from StuckPage) (StuckPage, error) {
	if from.Cursor == "" {
		from.Cursor = "0"
	}
	r, err := s.Run(ctx, stuckGroupsScript, from.Rank, from.Cursor, most, long.Milliseconds())
	if err != nil {
		return StuckPage{}, err
	}
	page := StuckPage{Now: time.UnixMilli(r.Integer()).UTC(), Rank: r.Integer(), Cursor: r.Text()}
	for r.More() {
		g := StuckGroup{Topic: r.Text(), Name: r.Text(), Callback: r.Text(), Left: r.Integer(), Dead: r.Integer()}
		g.Since = time.UnixMilli(r.Integer()).UTC()
		page.Groups = append(page.Groups, g)
	}
	return page, r.End()
}

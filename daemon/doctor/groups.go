package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// stuckAfter is after what time a group of whose end nobody waits is a finding, and one that an import did not go on with.
var stuckAfter = store.StuckAfter{Open: 24 * time.Hour, Restoring: time.Hour}

const groupPages = 100 // of groups that are looked at in each shard

// groups reports groups whose callbacks dead letters hold back, those that have none for long, and those that an import stopped at.
func (e *exam) groups(ctx context.Context) {
	const check = "groups"
	if founded, err := e.founded(ctx); err != nil || !founded {
		e.report(check, OK, "none", "") // to look would found the store
		return
	}
	each, err := store.GatherFrom(ctx, e.shards, stuckGroups)
	if there(err) != nil {
		e.report(check, Warn, err.Error(), "fix what Redis reports")
		return
	}
	rows := 0
	for _, page := range each {
		for i := range page.Groups {
			if rows++; rows <= named {
				g := &page.Groups[i]
				f := Finding{Check: check, Name: g.Topic, ID: g.Name}
				if g.Callback != "" {
					f.Act = Requeue
				}
				found, remedy := stuck(g, page.Now)
				e.mend(f, found, remedy)
			}
		}
	}
	e.reportRest(check, rows, 0, "group", "bellhop groups TOPIC", "no dead letters hold back what waits for a group, and none is open for long")
}

// stuckGroups returns those of a shard.
func stuckGroups(ctx context.Context, shard store.Shard) (store.StuckPage, error) {
	var all, page store.StuckPage
	for range groupPages {
		var err error
		if page, err = shard.StuckGroups(ctx, pageSize, stuckAfter, page); err != nil {
			return all, err
		}
		all.Now, all.Groups = page.Now, append(all.Groups, page.Groups...)
		if page.Topic == "" {
			break
		}
	}
	return all, nil
}

// stuck says what is wrong with a group, and what to do about it.
func stuck(g *store.StuckGroup, now time.Time) (found, remedy string) {
	name := record.Member(g.Topic, g.Name)
	switch g.State {
	case store.GroupRestoring:
		return fmt.Sprintf("%s: an import stopped before its line, %s ago, and what waits for it does not come", name, rough(now.Sub(g.Since))),
			"publish the whole file again: bellhop publish --file FILE; or forget the group: bellhop groups forget " + g.Topic + " " + g.Name + " --yes"
	case store.GroupOpen:
		return fmt.Sprintf("%s: open for %s, %d left, and nothing waits for it", name, rough(now.Sub(g.Since)), g.Left),
			"publish what is to come then: bellhop publish TOPIC --after-group " + name + "; or forget it: bellhop groups forget " + g.Topic + " " + g.Name + " --yes"
	}
	topic, id, _ := strings.Cut(g.Callback, ":")
	letters := "dead letters hold"
	if g.Dead == 1 {
		letters = "dead letter holds"
	}
	return fmt.Sprintf("%s: %d %s back %s, for %s", name, g.Dead, letters, g.Callback, rough(now.Sub(g.Since))),
		fmt.Sprintf("see why, then requeue or purge: bellhop find 'topic:%s group:%s state:dead' --requeue; or have it come all the same: bellhop reschedule %s %s --now; publish with on_dead=go where dead ones are to count as ended",
			g.Topic, g.Name, topic, id)
}

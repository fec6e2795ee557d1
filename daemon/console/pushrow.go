package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	pushRows       = 200 // on the page
	shownOfAnswers = 120 // characters of the last answer in a row
)

// A pushRow is a push in the table. It has no secrets.
type pushRow struct{ api.Push }

// Link returns the address of the page of the push.
func (p pushRow) Link() string { return pushPath(p.Name) }

// Target returns where the push leads.
func (p pushRow) Target() string { return cmp.Or(p.URL, p.To) }

// State says what the push does, and Class is the class of the style of that.
func (p pushRow) State() string {
	switch {
	case p.Paused != "":
		return "paused"
	case p.Failing != nil:
		return "fails"
	case p.Closed != nil:
		return "closed"
	case p.Unsent:
		return "no daemon sends it"
	case len(p.Unheard) > 0, len(p.Stored) > 0:
		return "nobody listens"
	}
	return "works"
}

func (p pushRow) Class() string {
	switch p.State() {
	case "paused":
		return "paused"
	case "works":
		return "ok"
	}
	return "late"
}

// ofTopic says why messages of a topic of the push wait.
func (p pushRow) ofTopic() string {
	switch state := p.State(); state {
	case "fails":
		return "its push fails"
	case "no daemon sends it":
		return "no daemon sends its push"
	default:
		return "its push is " + state
	}
}

// Standing says why messages of the push wait, behind its name.
func (p pushRow) Standing(now time.Time) string {
	switch {
	case p.Paused != "":
		return "is paused, " + p.Paused
	case p.Failing != nil:
		return "has failed for " + short(now.Sub(p.Failing.Since)) + ", and is asked again " + p.next(now)
	case p.Closed != nil:
		return "wants no request for " + short(p.Closed.Until.Sub(now))
	}
	return "is sent by no daemon"
}

// FailingFor returns for how long its endpoint fails; empty: it does not.
func (p pushRow) FailingFor(now time.Time) string {
	if p.Failing == nil {
		return ""
	}
	return short(now.Sub(p.Failing.Since))
}

// next says when an endpoint that fails is asked again.
func (p pushRow) next(now time.Time) string {
	if !p.Failing.Next.After(now) {
		return "with the next message"
	}
	return soon(now, p.Failing.Next)
}

// LastAnswer returns the last answer of an endpoint that fails, or is closed.
func (p pushRow) LastAnswer() string {
	switch {
	case p.Failing != nil:
		return p.Failing.Answer
	case p.Closed != nil:
		return p.Closed.Answer
	}
	return ""
}

// Answer returns the last answer, as far as there is room for it.
func (p pushRow) Answer() string {
	if text := []rune(p.LastAnswer()); len(text) > shownOfAnswers {
		return string(text[:shownOfAnswers]) + "…"
	}
	return p.LastAnswer()
}

// mayPush reports whether a viewer may see and change a push.
func (v *Viewer) mayPush(topics []string) bool {
	return v.Can("showPush") && v.AllowPush("", topics) == nil
}

// pushesOf returns the pushes of which a viewer sees all topics: those that fail first, then by name.
func (c *Console) pushesOf(ctx context.Context, v *visit) (rows []pushRow, err error) {
	all, err := c.allPushes(ctx)
	for i := range all {
		if v.mayPush(all[i].Topics) {
			rows = append(rows, c.pushRow(&all[i]))
		}
	}
	rank := func(p pushRow) int { return slices.Index([]string{"late", "ok", "paused"}, p.Class()) }
	slices.SortStableFunc(rows, func(a, b pushRow) int { return cmp.Compare(rank(a), rank(b)) })
	return rows, err
}

// allPushes returns all pushes, by name.
func (c *Console) allPushes(ctx context.Context) ([]store.Push, error) {
	return c.caches.pushes.Get(ctx, cache.Keep{Age: relisted}, func(ctx context.Context) ([]store.Push, error) {
		all, err := c.store.Home().Pushes(ctx)
		if err == nil {
			err = c.store.Home().NoteUnsent(ctx, all)
		}
		return all, err
	})
}

// pushRow returns the row of a push, with what this daemon found of it.
func (c *Console) pushRow(p *store.Push) pushRow {
	row := pushRow{api.PushOf(*p)}
	if pusher := c.service.Pusher; pusher != nil {
		row.Unheard = pusher.Unheard(p)
	}
	return row
}

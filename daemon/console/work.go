package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/find"
	"github.com/bellhopd/bellhop/notify/store"
)

const workRows = 200 // messages on the page

var workPage = page{
	path: Root + "work", title: "In work now", nav: "work", name: "work", live: true, holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.work(ctx, v) },
}

// leasedQuery asks for what workers have.
var leasedQuery, _ = find.Parse("state:leased")

// A workView is what the page of the messages in work shows.
type workView struct {
	*visit
	Now  time.Time
	Rows []messageRow // that which a worker has had longest first
	More bool         // there are others: of very many leases those that end first are looked at
}

// work returns the messages that workers have.
func (c *Console) work(ctx context.Context, v *visit) (any, error) {
	if err := calls.Named("find").Admits(v.Client); err != nil {
		return nil, err
	}
	in, err := v.scope("")
	if err != nil {
		return nil, err
	}
	view := &workView{visit: v, Now: c.now(ctx)}
	found, err := c.caches.work.Get(ctx, in.key, cache.Keep{Age: relisted}, func(ctx context.Context) (workPart, error) {
		page, err := c.service.Finder.Find(ctx, leasedQuery, find.Options{Limit: workRows, May: v.May()})
		for i := range page.Messages {
			page.Messages[i].Body = nil // it is not shown
		}
		part := workPart{rows: rowsOf(page.Messages), more: page.Cursor != ""}
		slices.SortStableFunc(part.rows, func(a, b messageRow) int {
			return cmp.Or(cmp.Compare(unknownLast(a), unknownLast(b)), a.Since.Compare(b.Since))
		})
		return part, err
	})
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	view.Rows, view.More = found.rows, found.more
	return view, err
}

// unknownLast is more for a message of which nobody knows when it was claimed.
func unknownLast(m messageRow) int {
	if m.Since.IsZero() {
		return 1
	}
	return 0
}

// A workPart is what the page of the messages in work keeps for all viewers of the same topics.
type workPart struct {
	rows []messageRow
	more bool
}

// IsLong reports whether a worker has had a message for long.
func (w *workView) IsLong(m messageRow) bool {
	return !m.Since.IsZero() && w.Now.Sub(m.Since) >= heldAfter
}

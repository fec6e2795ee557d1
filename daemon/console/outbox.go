package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const (
	refusedRows = 50              // refused messages on a page
	changesFor  = 5 * time.Second // after which a change of all that is refused leaves the rest to the next one
)

var outboxPage = page{
	path: Root + "outbox", title: "Outbox", nav: "outbox", name: "outbox", live: true,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.outbox(ctx, v) },
}

// An outboxView is what the page of the outboxes shows.
type outboxView struct {
	*visit
	Boxes    []outboxRow
	Database string // of which the refused messages are listed; empty: of all
	Rows     []refusedRow
	Away     *pageFault // in place of refused messages that could not be read
	Next     string     // address of the next page; empty: this is the last
}

// An outboxRow is how an outbox is.
type outboxRow struct{ calls.Outbox }

// Waits and Refuses return how many messages wait, and are refused: only some are counted.
func (o outboxRow) Waits() string   { return countOf(o.Waiting) }
func (o outboxRow) Refuses() string { return countOf(o.Refused) }

// countOf returns a number of rows of an outbox as text.
func countOf(n int) string {
	if n == outbox.MostCounted {
		return "over " + grouped(int64(n-1))
	}
	return grouped(int64(n))
}

// Oldest returns for how long the first of those that wait does; empty: none waits.
func (o outboxRow) Oldest() string {
	if o.Waiting == 0 {
		return ""
	}
	return short(time.Duration(o.OldestMs) * time.Millisecond)
}

// Link returns the address of what it refused alone.
func (o outboxRow) Link() string { return outboxPath(o.Database) }

// A refusedRow is a message that cannot be published as it is.
type refusedRow struct{ calls.RefusedRow }

// Member returns what names the row in a form.
func (r refusedRow) Member() string { return fmt.Sprintf("%d:%s", r.Seq, r.Database) }

// Lists reports whether the viewer may see what is refused, which is of all topics.
func (o *outboxView) Lists() bool { return o.Can("listRefused") && o.CoversAll() }

// Later reports whether it is a page behind the first one.
func (o *outboxView) Later() bool { return o.query("cursor") != "" }

// outbox returns what the page of the outboxes shows. What is refused is no part of its stream: rows would move under the boxes that are ticked.
func (c *Console) outbox(ctx context.Context, v *visit) (any, error) {
	if err := v.check("getOutbox"); err != nil {
		return nil, err
	}
	all, err := c.caches.outboxes.Get(ctx, cache.Keep{Age: relisted}, func(ctx context.Context) (calls.Outboxes, error) {
		return ask[calls.Outboxes](ctx, c, v, "getOutbox")
	})
	if err != nil {
		return nil, err
	}
	view := &outboxView{visit: v, Database: v.query("database")}
	for _, one := range all.Outboxes {
		view.Boxes = append(view.Boxes, outboxRow{one})
	}
	if !view.Lists() || accepts(v.r, "text/event-stream") {
		return view, nil
	}
	refused, err := ask[calls.RefusedRows](ctx, c, v, "listRefused", "database", view.Database, "cursor", v.query("cursor"), "limit", fmt.Sprint(refusedRows))
	switch {
	case errors.Is(err, api.ErrOutbox):
		view.Away = c.faultFor(v.Viewer, err)
	case err != nil:
		return nil, err
	}
	for _, one := range refused.Refused {
		view.Rows = append(view.Rows, refusedRow{one})
	}
	if refused.Cursor != "" {
		view.Next = v.Link("cursor", refused.Cursor)
	}
	return view, nil
}

// outboxAct retries or purges what is refused: the form has a button retry or purge, whose value is one message, ticked, or all.
var outboxAct = act{path: Root + "acts/outbox", name: "change what an outbox refused", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	what, value, err := v.button("retry", "purge")
	if err != nil {
		return "", 0, err
	}
	call := what + "Refused"
	if err := cmp.Or(v.check(call, "all", "true"), v.AllowAll()); err != nil {
		return "", 0, err
	}
	chosen, about, err := refusedOf(v, value)
	if err != nil {
		return "", 0, err
	}
	if what == "purge" {
		if err := v.sure("Purge %s?", about); err != nil {
			return "", 0, err
		}
	}
	n, rest, err := c.changeRefused(ctx, v, call, chosen)
	c.caches.outboxes.Forget()
	c.doctor.forget()
	did := past[what] + " " + plural(n, "refused message", "refused messages")
	if rest {
		did += "; there are more: press the button again"
	}
	return did, n, err
}}

// A chosen is refused messages of one outbox, by their numbers; with none: all of it, or without a database all of all.
type chosen struct{ database, ids string }

// refusedOf returns the refused messages for which a button stands, by outbox, and what they are in words.
func refusedOf(v *visit, value string) (all []chosen, about string, err error) {
	members := []string{value}
	switch database := v.r.PostForm.Get("database"); {
	case value == "all" && database == "":
		return []chosen{{}}, "all that is refused", nil
	case value == "all":
		return []chosen{{database: database}}, "all that is refused in " + database, nil
	case value == "ticked":
		members = v.r.PostForm["m"]
	}
	if len(members) == 0 || len(members) > refusedRows {
		return nil, "", fault.New("m", "%s ticked; tick from 1 to %d", plural(len(members), "message is", "messages are"), refusedRows)
	}
	for _, member := range members {
		seq, database, _ := strings.Cut(member, ":")
		i := slices.IndexFunc(all, func(c chosen) bool { return c.database == database })
		if i < 0 {
			all = append(all, chosen{database, seq})
		} else {
			all[i].ids += "," + seq
		}
	}
	if len(members) == 1 {
		return all, "the refused row " + all[0].ids + " of " + all[0].database, nil
	}
	return all, plural(len(members), "refused message", "refused messages"), nil
}

// changeRefused changes refused messages, and returns how many, and whether some are left of all that were meant.
func (c *Console) changeRefused(ctx context.Context, v *visit, call string, all []chosen) (n int, rest bool, err error) {
	for _, one := range all {
		everything := ""
		if one.ids == "" {
			everything = "true"
		}
		for cursor, began := "", time.Now(); ; {
			done, err := ask[calls.OutboxChange](ctx, c, v, call, "database", one.database, "ids", one.ids, "all", everything, "cursor", cursor)
			n, cursor = n+done.Count, done.Cursor
			if err != nil || time.Since(began) > changesFor && cursor != "" {
				return n, cursor != "", err
			}
			if cursor == "" {
				break
			}
		}
	}
	return n, false, nil
}

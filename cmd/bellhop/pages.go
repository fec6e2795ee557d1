package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// mostListed is how many messages a call of the API lists at the most.
const mostListed = 500

// goOn says what the flag --cursor is for.
const goOn = "where to go on, as the call before printed"

// A list is messages of which a call returns a page.
type list struct {
	limit  int    // 0: no limit
	cursor string // where it begins, and then where it goes on; empty: all was read
	page   func(ctx context.Context, limit int, cursor string) (calls.Listing, error)
}

// asks has the pages come from a call of the API.
func (l *list) asks(s *session, call string, params map[string]string) {
	l.page = func(ctx context.Context, limit int, cursor string) (calls.Listing, error) {
		params["limit"], params["cursor"] = strconv.Itoa(limit), cursor
		return ask[calls.Listing](ctx, s, call, params)
	}
}

// flags gives a command the flags of a list.
func (l *list) flags(c *cobra.Command, limit, cursor string) {
	c.Flags().IntVar(&l.limit, "limit", 50, limit)
	c.Flags().StringVar(&l.cursor, "cursor", "", cursor)
}

// check rejects a limit below 1.
func (l *list) check() error {
	if l.limit < 1 {
		return fault.New("limit", "limit %d: use 1 or more", l.limit)
	}
	return nil
}

// each calls on with each page, until it has limit messages. The error of shards that are away comes after all others.
func (l *list) each(ctx context.Context, a *app, on func(calls.Listing) error) error {
	defer a.clearLooked()
	for n := 0; ; {
		most := mostListed
		if l.limit > 0 {
			most = min(l.limit-n, most)
		}
		page, err := l.page(ctx, most, l.cursor)
		if err != nil {
			return err
		}
		next, missing := page.Next()
		n, l.cursor = n+page.N, next
		if looked, searches := page.End.(calls.Looked); searches {
			a.drawLooked(looked)
		}
		if page.N > 0 {
			a.clearLooked()
		}
		if err := on(page); err != nil {
			return err
		}
		if next == "" || l.limit > 0 && n == l.limit {
			return missing.Err()
		}
	}
}

// stopped adds to the error of a call that was interrupted how to go on.
func stopped(cursor string, err error) error {
	if errors.Is(err, context.Canceled) && cursor != "" {
		return fmt.Errorf("stopped; go on with the same command and --cursor %s", cursor)
	}
	return err
}

// printList prints a list of Ms: with --json as the API replies it, else as show does, which gets all of them.
func printList[M any](ctx context.Context, a *app, l *list, show func(all []M) error) error {
	if err := l.check(); err != nil {
		return err
	}
	if a.json {
		return a.printListJSON(ctx, l)
	}
	var all []M
	err := l.each(ctx, a, func(page calls.Listing) error {
		all = append(all, page.Of.([]M)...)
		return nil
	})
	missing, err := partly(stopped(l.cursor, err))
	if err != nil && len(all) == 0 {
		return err
	}
	return cmp.Or(show(all), err, missing)
}

// printListJSON prints a list as one reply of the API with the messages of all pages, each when it is read.
func (a *app) printListJSON(ctx context.Context, l *list) error {
	const head = `{"messages":[`
	before := head
	var last *calls.Listing
	err := l.each(ctx, a, func(page calls.Listing) error {
		last = &page
		for i := range page.N {
			var one bytes.Buffer
			one.WriteString(before)
			if err := printJSONTo(&one, page.Whole(i)); err != nil {
				return err
			}
			if _, err := a.out.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n"))); err != nil {
				return fmt.Errorf("print: %w", err)
			}
			before = ","
		}
		return nil
	})
	if last == nil {
		return stopped(l.cursor, err)
	}
	end, bad := json.Marshal(calls.Listing{End: last.End})
	if before != head {
		end = bytes.TrimPrefix(end, []byte(head))
	}
	_, worse := a.out.Write(append(end, '\n'))
	return cmp.Or(stopped(l.cursor, err), bad, worse)
}

// printMore says with which cursor a list goes on.
func (a *app) printMore(l *list) {
	if l.cursor != "" {
		terminal.Printf(a.out, "\nmore: --cursor %s\n", l.cursor)
	}
}

// drawLooked draws how far a search is, on a terminal.
func (a *app) drawLooked(l calls.Looked) {
	if a.drew = text.IsTerminal(a.err); a.drew {
		fmt.Fprintf(a.err, "\r\x1b[Klooked at %s of %s", text.Thousands(strconv.FormatInt(l.Looked, 10)), text.Thousands(strconv.FormatInt(l.Of, 10)))
	}
}

// clearLooked removes that.
func (a *app) clearLooked() {
	if a.drew {
		a.drew = false
		fmt.Fprint(a.err, "\r\x1b[K")
	}
}

package console

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/find"
)

const exportedPage = 200 // messages that an export reads at a time

// export writes what a question finds as lines of JSON, which can be published again.
func (c *Console) export(w http.ResponseWriter, r *http.Request) {
	viewer, err := c.viewer(r)
	if err == nil && viewer == nil {
		c.toLogin(w, r)
		return
	}
	v := &visit{Viewer: viewer, r: r}
	var q find.Query
	var done func()
	if err == nil {
		err = calls.Named("find").Admits(v.Client)
	}
	if err == nil {
		q, done, err = c.service.Admit(v.Client, v.query("q"))
	}
	if err == nil {
		defer done()
		var free func()
		free, err = v.reserve(pageBytes, "The export did not begin", "Begin it again.")
		defer free()
	}
	if err != nil {
		c.fail(w, v, "", err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="messages.ndjson"`)
	n, err := c.exportTo(r.Context(), w, v, q)
	c.o.Logger.Info("exported what was found", "token", v.Name, "question", q.String(), "count", n)
	if err != nil {
		c.o.Logger.Warn("an export of the console is cut", "error", err)
		panic(http.ErrAbortHandler) // so that the client does not take it for whole
	}
}

// exportTo writes all that a question finds, and returns how many messages that are.
func (c *Console) exportTo(ctx context.Context, w http.ResponseWriter, v *visit, q find.Query) (n int, err error) {
	rc := http.NewResponseController(w)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.o.Closing, cancel)()
	defer context.AfterFunc(v.Valid, cancel)()
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for cursor := ""; ; {
		page, err := c.service.Finder.Find(ctx, q, find.Options{Limit: exportedPage, Cursor: cursor, May: v.May()})
		if err != nil {
			return n, err
		}
		_ = rc.SetWriteDeadline(time.Now().Add(c.o.Patience))
		for _, info := range page.Messages {
			if err := encoder.Encode(info.Line()); err != nil {
				return n, err
			}
			n++
		}
		if err := rc.Flush(); err != nil {
			return n, err
		}
		if cursor = page.Cursor; cursor == "" {
			return n, nil
		}
	}
}

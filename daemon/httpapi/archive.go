package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/daemon/httpapi/tokens"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// registerArchive registers the calls about what ended.
func (g *Gate) registerArchive(mux *http.ServeMux, doc *huma.OpenAPI) {
	const path = "/v1/archive"
	readers := []tokens.Right{tokens.MayArchive, tokens.MayBodies}
	register(g, mux, doc, operation{
		method: "GET", path: path, id: "searchArchive", long: true, tag: tagArchive, status: http.StatusOK, reply: api.ArchivePage{},
		rights: readers, errors: []int{404}, summary: "Search the archive, a page at a time, newest end first",
		description: "All filters that are given must hold. Only topics that the token permits are searched. Bodies and results come, and body is a filter, only with the right archive-bodies.",
	}, g.searchArchive)
	register(g, mux, doc, operation{
		method: "GET", path: path + "/{topic}/{id}", id: "showArchived", long: true, tag: tagArchive, status: http.StatusOK, reply: api.ArchivePage{},
		rights: readers, errors: []int{404}, summary: "Get all that the archive has of the messages of one id, newest end first",
		description: "Bodies and results come only with the right archive-bodies.",
	}, g.showArchived)
	register(g, mux, doc, operation{
		method: "POST", path: path + "/requeue", id: "requeueArchived", long: true, tag: tagArchive, lasts: true, status: http.StatusOK, reply: api.ArchiveChange{},
		rights: readers, and: []tokens.Right{tokens.MayPublish}, errors: []int{404}, summary: "Publish messages of the archive again, due now",
		description: "Each keeps its id, and is refused while that is in use; one that is still a dead letter is requeued with the right admin, and else refused. The archive keeps them. The answer has a cursor while there may be more.",
	}, g.requeueArchived)
	register(g, mux, doc, operation{
		method: "POST", path: path + "/erase", id: "eraseArchived", tag: tagArchive, lasts: true, status: http.StatusOK, reply: api.ArchiveChange{},
		rights: []tokens.Right{tokens.MayAdmin}, errors: []int{404}, summary: "Remove messages from the archive, such as those of a person who asks for it",
		description: "The answer has a cursor while there may be more: repeat the call then.",
	}, g.eraseArchived)
	register(g, mux, doc, operation{
		method: "DELETE", path: path, id: "pruneArchive", tag: tagArchive, lasts: true, status: http.StatusOK, reply: api.ArchiveChange{},
		rights: []tokens.Right{tokens.MayAdmin}, errors: []int{404}, summary: "Remove what ended before a time from the archive, of all topics",
		description: "The token must permit all topics. Whole months go at once, and do not count towards the limit. The answer has a cursor while there may be more: repeat the call then.",
	}, g.pruneArchive)
}

// archiveFilter are the parameters that select rows of the archive.
type archiveFilter struct {
	Topic  string    `query:"topic" is:"pattern" maxLength:"128" pattern:"^([A-Za-z0-9_-]+|\\*)(\\.([A-Za-z0-9_-]+|\\*))*(\\.>)?$|^>$" example:"order.*" doc:"a topic, or a pattern: * stands for any one token, and > at the end for one or more"`
	ID     string    `query:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"id of the message"`
	State  string    `query:"state" enum:"dead,dropped,acked,removed" doc:"how it ended"`
	Reason string    `query:"reason" maxLength:"1024" example:"timeout" doc:"a part of the reason"`
	Header string    `query:"header" is:"header" pattern:"^[!#$%&'*+.^_\x60|~0-9A-Za-z-]+:" example:"Tenant:acme" doc:"a header of the message, as NAME:VALUE, with its whole value"`
	Body   string    `query:"body" maxLength:"1024" example:"4711" doc:"a part of the body; needs the right archive-bodies"`
	From   time.Time `query:"from" example:"2030-01-02T00:00:00Z" doc:"ended then or later"`
	To     time.Time `query:"to" example:"2030-01-03T00:00:00Z" doc:"ended before"`
}

// none reports whether nothing is filtered.
func (f archiveFilter) none() bool { return f == archiveFilter{} }

// query returns the rows that a filter selects, of those that the token permits.
func (c *call) query(f archiveFilter) (archive.Query, error) {
	q := archive.Query{ID: f.ID, State: f.State, Reason: f.Reason, Body: f.Body, From: f.From, To: f.To}
	if f.Body != "" && !c.grant.ReadsBodies() {
		return q, fmt.Errorf("%w: body is a filter for %s only", tokens.ErrForbidden, tokens.MayBodies)
	}
	if f.Topic != "" {
		p, err := notify.ParsePattern(f.Topic)
		if err != nil {
			return q, fault.Renamed("topic", err)
		}
		if err := c.grant.AllowTopic(f.Topic); err != nil {
			return q, err
		}
		q.Topics = []notify.Pattern{p}
	} else if !c.grant.CoversAll() {
		q.Topics = c.grant.Patterns
	}
	if f.Header != "" {
		name, value, _ := strings.Cut(f.Header, ":")
		q.Headers = map[string]string{name: value}
	}
	return q, q.Check()
}

// enterArchive admits a call about the archive.
func (c *call) enterArchive() error {
	if err := c.noBody(); err != nil {
		return err
	}
	if c.gate.o.Archive == nil {
		return errNoArchive
	}
	return nil
}

type searchInput struct {
	archiveFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous page; missing: from the newest"`
}

// searchArchive lists rows of the archive, a page at a time.
func (g *Gate) searchArchive(ctx context.Context, c *call, in *searchInput) (any, error) {
	if err := c.enterArchive(); err != nil {
		return nil, err
	}
	q, err := c.query(in.archiveFilter)
	if err != nil {
		return nil, err
	}
	page, err := g.o.Archive.Search(ctx, q, in.Limit, in.Cursor, c.grant.ReadsBodies())
	return c.rows(page, err)
}

// showArchived lists the rows of the messages of one id.
func (g *Gate) showArchived(ctx context.Context, c *call, in *ofMessage) (any, error) {
	if err := c.grant.AllowTopic(in.Topic); err != nil {
		return nil, err
	}
	if err := c.enterArchive(); err != nil {
		return nil, err
	}
	rows, err := g.o.Archive.Show(ctx, in.Topic, in.ID, c.grant.ReadsBodies())
	return c.rows(archive.Page{Rows: rows}, err)
}

// rows answers with a page of rows.
func (c *call) rows(p archive.Page, err error) (any, error) {
	if err != nil {
		return nil, archiveError(err)
	}
	bytes := int64(0)
	for i := range p.Rows {
		bytes += int64(len(p.Rows[i].Body) + len(p.Rows[i].Result))
	}
	c.keepReserved(bytes)
	one := func(i int) (any, []byte) {
		row := p.Rows[i]
		return split(&row.Body, func() any { return api.ArchiveRowOf(row) })
	}
	_ = c.list(len(p.Rows), one, listEnd{p.Cursor}) // an error means that the client is gone
	return nil, nil
}

// archiveError returns the error of a call of the archive: those that have no problem of
// their own are those of its database.
func archiveError(err error) error {
	if err == nil || problemOf(err).Status < http.StatusInternalServerError {
		return err
	}
	return fmt.Errorf("%w: %w", errArchive, err)
}

// allOrFilter are the parameters of a call that changes what a filter selects.
type allOrFilter struct {
	archiveFilter
	All   string `query:"all" enum:"true" doc:"all that the filters select; needed where there is none"`
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"at most this many by this call"`
}

// changing admits a call that changes what a filter selects.
func (c *call) changing(in allOrFilter) (archive.Query, error) {
	if in.none() && in.All == "" {
		return archive.Query{}, fault.New("all", "parameter all: no filter is given; give one, such as topic, or all=true for everything")
	}
	if err := c.enterArchive(); err != nil {
		return archive.Query{}, err
	}
	_ = c.writeWithin(archiveTime + c.gate.timing.answer) // an error means that the connection is gone
	return c.query(in.archiveFilter)
}

// archiveTime is how long a change of the archive may take.
const archiveTime = time.Minute

type requeueInput struct {
	allOrFilter
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous answer; missing: from the newest"`
}

// requeueArchived publishes messages of the archive again.
func (g *Gate) requeueArchived(ctx context.Context, c *call, in *requeueInput) (any, error) {
	q, err := c.changing(in.allOrFilter)
	if err != nil {
		return nil, err
	}
	return changed(g.o.Archive.Requeue(ctx, q, in.Limit, in.Cursor, c.grant.AllowRights([]tokens.Right{tokens.MayAdmin}) == nil))
}

// eraseArchived removes messages from the archive.
func (g *Gate) eraseArchived(ctx context.Context, c *call, in *allOrFilter) (any, error) {
	q, err := c.changing(*in)
	if err != nil {
		return nil, err
	}
	return changed(g.o.Archive.Erase(ctx, q, in.Limit))
}

type pruneInput struct {
	Before time.Time `query:"before" required:"true" example:"2030-01-02T00:00:00Z" doc:"ended before this time"`
	Limit  int       `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"at most this many by this call, beside whole months"`
}

// pruneArchive removes what ended before a time.
func (g *Gate) pruneArchive(ctx context.Context, c *call, in *pruneInput) (any, error) {
	if err := c.grant.AllowTopic(">"); err != nil {
		return nil, err
	}
	if err := c.enterArchive(); err != nil {
		return nil, err
	}
	_ = c.writeWithin(archiveTime + c.gate.timing.answer) // an error means that the connection is gone
	return changed(g.o.Archive.Prune(ctx, in.Before, in.Limit))
}

// changed answers with what a call changed. Where it failed and can be gone on with, the
// next call says why.
func changed(done archive.Change, err error) (any, error) {
	if err != nil && (done.Cursor == "" || done.Done == 0) {
		return nil, archiveError(err)
	}
	return api.ArchiveChangeOf(done), nil
}

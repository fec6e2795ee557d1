package calls

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/archive"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

const (
	archivePath = "/v1/archive"
	archiveTime = time.Minute // that a call of the archive may take
	noArchive   = "the archive has personal data, and a subject cannot give the right to rows without that to their bodies"
)

var archiveReaders = []Right{MayArchive, MayBodies}

// archiveFilter are the parameters that select rows of the archive.
type archiveFilter struct {
	Topic  string `query:"topic" is:"pattern" maxLength:"128" pattern:"^([A-Za-z0-9_-]+|\\*)(\\.([A-Za-z0-9_-]+|\\*))*(\\.>)?$|^>$|^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*@[A-Za-z0-9_-]+$" example:"order.*" doc:"a topic, or a pattern: * stands for any one token, and > at the end for one or more"`
	ID     string `query:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"id of the message"`
	State  string `query:"state" enum:"dead,dropped,acked,removed" doc:"how it ended"`
	Reason string `query:"reason" maxLength:"1024" example:"timeout" doc:"a part of the reason"`
	Header string `query:"header" is:"header" pattern:"^[!#$%&'*+.^_\x60|~0-9A-Za-z-]+:" example:"Tenant:acme" doc:"a header of the message, as NAME:VALUE, with its whole value"`
	Body   string `query:"body" maxLength:"1024" example:"4711" doc:"a part of the body; needs the right archive-bodies"`

	From fields.Moment `query:"from" example:"2030-01-02T00:00:00Z" doc:"ended then or later: a time, or how long ago, such as 24h"`
	To   fields.Moment `query:"to" example:"2030-01-03T00:00:00Z" doc:"ended before: a time, or how long ago"`
}

// query returns the rows that a filter selects, of those that the client may see.
func (f archiveFilter) query(ctx context.Context, s *Service, r *Request) (archive.Query, error) {
	q := archive.Query{ID: f.ID, State: f.State, Reason: f.Reason, Body: f.Body}
	if s.Archive == nil {
		return q, api.ErrNoArchive
	}
	if f.Body != "" && !r.Has(MayBodies) {
		return q, fmt.Errorf("%w: body is a filter for %s only", api.ErrForbidden, MayBodies)
	}
	if f.Topic != "" {
		topics, err := r.topicsLike(f.Topic)
		if err != nil {
			return q, err
		}
		q.Topics = topics
	} else if !r.CoversAll() {
		q.Topics = r.Patterns
	}
	if f.Header != "" {
		name, value, _ := strings.Cut(f.Header, ":")
		q.Headers = map[string]string{name: value}
	}
	var errFrom, errTo error
	q.From, errFrom = s.timeOf(ctx, f.From)
	q.To, errTo = s.timeOf(ctx, f.To)
	return q, cmp.Or(errFrom, errTo, q.Check())
}

type searchInput struct {
	archiveFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous page; missing: from the newest"`
}

var _ = define(Call{
	Name: "searchArchive", Method: "GET", Path: archivePath, Tag: TagArchive, Status: http.StatusOK, Reply: ArchivePage{}, NoNATS: noArchive, Lasts: true, Long: true, Takes: archiveTime,
	Rights: archiveReaders, Errors: []int{404}, Summary: "Search the archive, a page at a time, newest end first",
	Description: "All filters that are given must hold. Only topics that the token permits are searched. Bodies and results come, and body is a filter, only with the right archive-bodies.",
}, func(ctx context.Context, s *Service, r *Request, in *searchInput) (any, error) {
	q, err := in.query(ctx, s, r)
	if err != nil {
		return nil, err
	}
	found, err := s.Archive.Search(ctx, q, in.Limit, in.Cursor, r.Has(MayBodies))
	return reply(Rows(found), archiveError(err))
})

var _ = define(Call{
	Name: "showArchived", Method: "GET", Path: archivePath + "/{topic}/{id}", Tag: TagArchive, Status: http.StatusOK, Reply: ArchivePage{}, NoNATS: noArchive, Lasts: true, Long: true, Takes: archiveTime,
	Rights: archiveReaders, Errors: []int{404}, Summary: "Get all that the archive has of the messages of one id, newest end first",
	Description: "Bodies and results come only with the right archive-bodies.",
}, func(ctx context.Context, s *Service, r *Request, in *OfMessage) (any, error) {
	if s.Archive == nil {
		return nil, api.ErrNoArchive
	}
	found, err := s.Archive.Show(ctx, in.Topic, in.ID, r.Has(MayBodies))
	return reply(Rows(archive.Page{Rows: found}), archiveError(err))
})

// archiveError returns the error of a call of the archive.
func archiveError(err error) error { return ofDatabase(api.ErrArchive, err) }

// ofDatabase returns the error of a call of a database: those that have no problem of their own are of a kind.
func ofDatabase(kind, err error) error {
	if err == nil || api.ProblemOf(err).Status < http.StatusInternalServerError {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// allOrFilter are the parameters of a call that changes what a filter selects.
type allOrFilter struct {
	archiveFilter
	All   bool `query:"all" example:"true" doc:"true: all that the filters select; needed where there is none"`
	Limit int  `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"at most this many by this call"`
}

// selected returns the rows that a call is to change.
func (in allOrFilter) selected(ctx context.Context, s *Service, r *Request) (archive.Query, error) {
	if in.archiveFilter == (archiveFilter{}) && !in.All {
		return archive.Query{}, fault.New("all", "all: no filter is given; give one, such as topic, or all=true for everything")
	}
	return in.query(ctx, s, r)
}

type requeueInput struct {
	allOrFilter
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous answer; missing: from the newest"`
}

var _ = define(Call{
	Name: "requeueArchived", Method: "POST", Path: archivePath + "/requeue", Tag: TagArchive, Status: http.StatusOK, Reply: ArchiveChange{}, NoNATS: noArchive, Lasts: true, Long: true, Takes: archiveTime,
	Rights: archiveReaders, And: []Right{MayPublish}, Errors: []int{404}, Summary: "Publish messages of the archive again, due now",
	Description: "Each keeps its id, and is refused while that is in use; one that is still a dead letter is requeued with the right admin, and else refused. The archive keeps them. The answer has a cursor while there may be more.",
}, func(ctx context.Context, s *Service, r *Request, in *requeueInput) (any, error) {
	q, err := in.selected(ctx, s, r)
	if err != nil {
		return nil, err
	}
	return changed(s.Archive.Requeue(ctx, q, in.Limit, in.Cursor, r.Has(MayAdmin)))
})

var _ = define(Call{
	Name: "eraseArchived", Method: "POST", Path: archivePath + "/erase", Tag: TagArchive, Status: http.StatusOK, Reply: ArchiveChange{}, NoNATS: noArchive, Lasts: true, Takes: archiveTime,
	Rights: []Right{MayAdmin}, Errors: []int{404}, Summary: "Remove messages from the archive, such as those of a person who asks for it",
	Description: "The answer has a cursor while there may be more: repeat the call then.",
}, func(ctx context.Context, s *Service, r *Request, in *allOrFilter) (any, error) {
	q, err := in.selected(ctx, s, r)
	if err != nil {
		return nil, err
	}
	return changed(s.Archive.Erase(ctx, q, in.Limit))
})

type pruneInput struct {
	Before fields.Moment `query:"before" required:"true" example:"2030-01-02T00:00:00Z" doc:"ended before this time, or so long ago, such as 8760h"`
	Limit  int           `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"at most this many by this call, beside whole months"`
}

var _ = define(Call{
	Name: "pruneArchive", Method: "DELETE", Path: archivePath, Tag: TagArchive, Status: http.StatusOK, Reply: ArchiveChange{}, NoNATS: noArchive, Lasts: true, Takes: archiveTime,
	Rights: []Right{MayAdmin}, Errors: []int{404}, Summary: "Remove what ended before a time from the archive, of all topics",
	Description: "The token must permit all topics. Whole months go at once, and do not count towards the limit. The answer has a cursor while there may be more: repeat the call then.",
}, func(ctx context.Context, s *Service, r *Request, in *pruneInput) (any, error) {
	if err := r.AllowAll(); err != nil {
		return nil, err
	}
	if s.Archive == nil {
		return nil, api.ErrNoArchive
	}
	before, err := s.timeOf(ctx, in.Before)
	if err != nil {
		return nil, err
	}
	return changed(s.Archive.Prune(ctx, before, in.Limit))
})

// changed answers with what a call changed. Where it failed and can be gone on with, the
// next call says why.
func changed(done archive.Change, err error) (any, error) {
	if err != nil && (done.Cursor == "" || done.Done == 0) {
		return nil, archiveError(err)
	}
	return ArchiveChangeOf(done), nil
}

// ArchiveRow is a message that ended, as the archive has it.
type ArchiveRow struct {
	api.Key
	State        string        `json:"state" enum:"dead,dropped,acked,removed" doc:"how it ended; removed: it was a dead letter before there was an archive, and the housekeeping removed it"`
	Ended        time.Time     `json:"ended" doc:"when, by the clock of Redis"`
	Reason       string        `json:"reason,omitempty" doc:"why it died or was dropped"`
	AttemptsUsed int           `json:"attempts_used" doc:"attempts used up, by expired leases and rejections"`
	History      []api.Attempt `json:"history,omitempty" doc:"its last attempts that failed, oldest first"`
	FirstDue     *time.Time    `json:"first_due,omitempty" doc:"due time of its first attempt"`
	Published    *time.Time    `json:"published,omitempty"`
	Size         int           `json:"size" doc:"of its body in bytes"`
	Fault        string        `json:"fault,omitempty" doc:"why its record was unreadable, and the body is all of it; or why its row in the database is"`
	Store        string        `json:"store,omitempty" doc:"id of the store that it ended in"`
	asked.Options
	api.Result
	api.Text
}

// archiveRowOf returns a row in its JSON form. A body of nil is left out.
func archiveRowOf(r archive.Row) ArchiveRow {
	return ArchiveRow{
		Key: api.Key{Topic: r.Topic, ID: r.ID}, State: r.State, Ended: r.Ended.UTC(), Reason: r.Reason,
		AttemptsUsed: r.Attempts, History: api.AttemptsOf(r.History),
		FirstDue: api.Given(r.FirstDue), Published: api.Given(r.Published),
		Size: r.Size, Fault: r.Fault, Store: r.Store, Options: asked.Of(r.Record), Result: api.ResultOf(r.Result), Text: api.TextOf(r.Body),
	}
}

// ArchivePage is one page of a search in the archive.
type ArchivePage struct {
	Messages []ArchiveRow `json:"messages" nullable:"false" doc:"newest end first"`
	Cursor   string       `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// ArchiveChange is what one call changed.
type ArchiveChange struct {
	Count   int    `json:"count" doc:"messages that were published again, or removed from the archive"`
	Refused int    `json:"refused,omitempty" doc:"messages that were not published again: their ids are in use, or their records are unreadable"`
	Cursor  string `json:"cursor,omitempty" doc:"there may be more: repeat the call, with this as cursor where it has that parameter; missing: all are done"`
}

// ArchiveChangeOf returns a change in its JSON form.
func ArchiveChangeOf(c archive.Change) ArchiveChange {
	return ArchiveChange{Count: c.Done, Refused: c.Refused, Cursor: c.Cursor}
}

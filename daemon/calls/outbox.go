package calls

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/outbox"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

const (
	outboxPath = "/v1/outbox"
	outboxTime = time.Minute // that a call of an outbox may take
)

var _ = define(Call{
	Name: "getOutbox", Method: "GET", Path: outboxPath, Tag: TagOutbox, Status: http.StatusOK, Reply: Outboxes{}, NATS: Plain, Lasts: true, Takes: outboxTime,
	Rights: []Right{MayMetrics}, Errors: []int{404}, Summary: "Count what waits in the outboxes and what was refused, and get who relays it",
}, func(ctx context.Context, s *Service, _ *Request, _ *struct{}) (any, error) {
	boxes, err := s.outboxes("")
	if err != nil {
		return nil, err
	}
	name, err := s.relayName(ctx)
	all := Outboxes{Outboxes: make([]Outbox, len(boxes))}
	reach.AtOnce(len(boxes), func(i int) { all.Outboxes[i] = outboxOf(ctx, boxes[i], name) })
	return reply(all, err)
})

// relayName returns the name of the daemon that relays, if one does. The error is that of the connection.
func (s *Service) relayName(ctx context.Context) (string, error) {
	status, err := carrier.Look(ctx, s.Store.Home())
	return status.Name, err
}

// outboxOf returns how an outbox is, which the daemon of a name relays, if one does.
func outboxOf(ctx context.Context, b *outbox.Outbox, relay string) Outbox {
	did := b.Stats()
	o := Outbox{Database: b.Address(), Relayed: did.Relayed, Kept: did.Kept, Failures: did.Failures, Pooled: did.Pooled}
	log, err := b.Backlog(ctx)
	if err != nil {
		o.Fault = err.Error()
		return o
	}
	o.Waiting, o.OldestMs, o.Refused = log.Waiting, api.Ms(log.Oldest), log.Refused
	is, since, err := b.Relay(ctx)
	switch {
	case err != nil:
		o.Fault = err.Error()
	case is:
		o.RelayedBy, o.Since = relay, api.Given(since)
	}
	return o
}

// ofOutbox is the parameter that names an outbox.
type ofOutbox struct {
	Database string `query:"database" words:"the database of an outbox, as GET /v1/outbox has it" maxLength:"2048" pattern:"^postgres(ql)?://.+$" example:"postgres://bellhop@db1/shop" doc:"database of the outbox, as GET /v1/outbox has it; missing: all"`
}

// outboxes returns that of a database, or all.
func (s *Service) outboxes(database string) ([]*outbox.Outbox, error) {
	if len(s.Outboxes) == 0 {
		return nil, api.ErrNoOutbox
	}
	if database == "" {
		return s.Outboxes, nil
	}
	i := slices.IndexFunc(s.Outboxes, func(b *outbox.Outbox) bool { return b.Address() == database })
	if i < 0 {
		return nil, fault.New("database", "database: no outbox is there; use %s", addresses(s.Outboxes))
	}
	return s.Outboxes[i : i+1], nil
}

// addresses lists the databases of outboxes.
func addresses(boxes []*outbox.Outbox) string {
	var all []string
	for _, b := range boxes {
		all = append(all, b.Address())
	}
	return strings.Join(all, " or ")
}

// A spot is where a call goes on: in one of its outboxes, counted from zero, at a number of a row.
type spot struct {
	box int
	seq int64
}

// String returns the cursor of a spot.
func (p spot) String() string { return fmt.Sprintf("%d-%d", p.box, p.seq) }

// parseSpot reads a cursor; empty: the beginning. The error is a notify.Fault.
func parseSpot(cursor string) (p spot, err error) {
	if cursor == "" {
		return p, nil
	}
	box, seq, _ := strings.Cut(cursor, "-")
	n, bad := strconv.ParseUint(box, 10, 16)
	at, worse := strconv.ParseUint(seq, 10, 63)
	if bad != nil || worse != nil {
		return p, fault.New("cursor", "cursor %.100q: it is none of a call of the outbox; use that of the answer before, or none", cursor)
	}
	return spot{int(n), int64(at)}, nil
}

type listRefusedInput struct {
	ofOutbox
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous page; missing: from the beginning"`
}

var _ = define(Call{
	Name: "listRefused", Method: "GET", Path: outboxPath + "/refused", Tag: TagOutbox, Status: http.StatusOK, Reply: RefusedRows{}, NATS: Plain, Lasts: true, Takes: outboxTime,
	Rights: []Right{MayMetrics}, Errors: []int{404}, Summary: "List what the outboxes hold that cannot be published, a page at a time, in the order of the calls",
	Description: "The token must permit all topics. Bodies are not shown.",
}, func(ctx context.Context, s *Service, r *Request, in *listRefusedInput) (any, error) {
	boxes, at, err := s.enterOutbox(r, in.Database, in.Cursor)
	if err != nil {
		return nil, err
	}
	page := RefusedRows{Refused: []RefusedRow{}}
	for ; at.box < len(boxes); at = (spot{box: at.box + 1}) {
		rows, err := boxes[at.box].Refused(ctx, at.seq, in.Limit-len(page.Refused))
		if err != nil {
			return nil, ofDatabase(api.ErrOutbox, err)
		}
		for _, row := range rows {
			page.Refused = append(page.Refused, refusedRowOf(boxes[at.box], row))
			at.seq = row.Seq
		}
		if len(page.Refused) == in.Limit {
			page.Cursor = at.String()
			break
		}
	}
	return page, nil
})

// enterOutbox returns the outboxes of a call, and where it goes on. The error is an api.ErrForbidden if the client may not use all topics.
func (s *Service) enterOutbox(r *Request, database, cursor string) ([]*outbox.Outbox, spot, error) {
	if err := r.AllowAll(); err != nil {
		return nil, spot{}, err
	}
	at, err := parseSpot(cursor)
	if err != nil {
		return nil, at, err
	}
	boxes, err := s.outboxes(database)
	return boxes, at, err
}

// onRefused are the parameters of a call that changes refused rows.
type onRefused struct {
	ofOutbox
	IDs    string `query:"ids" words:"numbers of rows, joined by commas" maxLength:"2000" pattern:"^[0-9]+(,[0-9]+)*$" example:"17,18" doc:"numbers of refused rows, seq in the list, joined by commas; of several outboxes with the database"`
	All    bool   `query:"all" example:"true" doc:"true: all that are refused now"`
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"at most this many by this call, unless ids are given"`
	Cursor string `query:"cursor" is:"cursor" maxLength:"4096" pattern:"^[A-Za-z0-9_-]+$" doc:"cursor of the previous answer; missing: from the beginning"`
}

// check returns the fault of a call without ids and without all, or with both.
func (in *onRefused) check() error {
	switch {
	case in.IDs == "" && !in.All:
		return fault.New("ids", "ids: none are given; give numbers of refused rows, or all=true for all of them")
	case in.IDs != "" && in.All:
		return fault.New("ids", "ids: they are given beside all; give one of them")
	}
	return nil
}

// seqs returns the numbers of the rows; nil: all.
func (in *onRefused) seqs() (all []int64) {
	if in.IDs == "" {
		return nil
	}
	for text := range strings.SplitSeq(in.IDs, ",") {
		n, _ := strconv.ParseInt(text, 10, 64) // one that is too large becomes the largest, which no row has
		all = append(all, n)
	}
	return all
}

// change changes rows of one outbox by their numbers, or up to Limit of all.
func (in *onRefused) change(ctx context.Context, s *Service, r *Request, f func(*outbox.Outbox, outbox.Choice) (int, error)) (any, error) {
	boxes, at, err := s.enterOutbox(r, in.Database, in.Cursor)
	if err != nil {
		return nil, err
	}
	if seqs := in.seqs(); seqs != nil {
		if len(boxes) > 1 {
			return nil, fault.New("database", "database: it is missing, and there are several outboxes; give that of the rows, %s", addresses(boxes))
		}
		n, err := f(boxes[0], outbox.Choice{Seqs: seqs})
		return reply(OutboxChange{Count: n}, ofDatabase(api.ErrOutbox, err))
	}
	var done OutboxChange
	for ; at.box < len(boxes); at = (spot{box: at.box + 1}) {
		n, err := at.change(ctx, boxes[at.box], in.Limit-done.Count, f)
		done.Count += n
		switch {
		case err != nil && done.Count == 0:
			return nil, ofDatabase(api.ErrOutbox, err)
		case err != nil || done.Count == in.Limit: // the next call says why it failed
			done.Cursor = at.String()
			return done, nil
		}
	}
	return done, nil
}

// change changes rows of one outbox: only those that were there at the first call, so that one of many ends though some come back.
func (p *spot) change(ctx context.Context, b *outbox.Outbox, limit int, f func(*outbox.Outbox, outbox.Choice) (int, error)) (n int, err error) {
	if p.seq == 0 {
		if p.seq, err = b.Last(ctx); err != nil {
			return 0, err
		}
	}
	return f(b, outbox.Choice{UpTo: p.seq, Limit: limit})
}

var _ = define(Call{
	Name: "retryRefused", Method: "POST", Path: outboxPath + "/retry", Tag: TagOutbox, Status: http.StatusOK, Reply: OutboxChange{}, NATS: Plain, Takes: outboxTime,
	Rights: []Right{MayAdmin}, Errors: []int{404}, Summary: "Have refused messages of the outboxes relayed again, behind all others",
	Description: "The token must permit all topics. With ids nothing is changed if one of them is not refused. The answer has a cursor while there may be more.",
}, func(ctx context.Context, s *Service, r *Request, in *onRefused) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	return in.change(ctx, s, r, func(b *outbox.Outbox, c outbox.Choice) (int, error) { return b.Retry(ctx, c) })
})

type purgeRefusedInput struct {
	onRefused
	Waiting bool          `query:"waiting" example:"true" doc:"true: what waits and was called before a time, in place of what is refused"`
	Before  fields.Moment `query:"before" example:"2030-01-02T00:00:00Z" doc:"with waiting: called before this time by the clock of the database, or so long ago, such as 24h"`
}

// check returns the fault of a call that names nothing, or too much.
func (in *purgeRefusedInput) check() error {
	switch {
	case in.Waiting && (in.IDs != "" || in.All):
		return fault.New("waiting", "waiting: it is given beside ids or all; give one of them")
	case in.Waiting && in.Before.IsZero():
		return fault.New("before", "before: it is missing; give the time until which what waits is removed, such as 2030-01-02T00:00:00Z")
	case in.Waiting:
		return nil
	case !in.Before.IsZero():
		return fault.New("before", "before: it is for waiting=true; leave it out")
	}
	return in.onRefused.check()
}

var _ = define(Call{
	Name: "purgeRefused", Method: "POST", Path: outboxPath + "/purge", Tag: TagOutbox, Status: http.StatusOK, Reply: OutboxChange{}, NATS: Plain, Takes: outboxTime,
	Rights: []Right{MayAdmin}, Errors: []int{404}, Summary: "Remove refused messages from the outboxes, or those that wait since before a time",
	Description: "The token must permit all topics. With ids nothing is changed if one of them is not refused. waiting=true is for a database that was restored from a backup, before a daemon relays what it published once already; what is being relayed may be published all the same. The answer has a cursor while there may be more.",
}, func(ctx context.Context, s *Service, r *Request, in *purgeRefusedInput) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	return in.change(ctx, s, r, func(b *outbox.Outbox, c outbox.Choice) (int, error) {
		if !in.Waiting {
			return b.Purge(ctx, c)
		}
		before, err := in.Before.Time(func() (time.Time, error) { return b.Now(ctx) })
		if err != nil {
			return 0, err
		}
		return b.PurgeWaiting(ctx, before, c.Limit)
	})
})

// Outboxes are those of the daemon.
type Outboxes struct {
	Outboxes []Outbox `json:"outboxes" nullable:"false"`
}

// Outbox is how an outbox is.
type Outbox struct {
	Database  string     `json:"database" doc:"URL of its database, without passwords"`
	Fault     string     `json:"fault,omitempty" doc:"why the database does not say how it is"`
	Waiting   int        `json:"waiting" doc:"messages that are committed and not relayed yet, counted up to 10001"`
	OldestMs  int64      `json:"oldest_ms" doc:"for how long the first of them waits, by the clock of the database"`
	Refused   int        `json:"refused" doc:"messages that cannot be published as they are, counted up to 10001"`
	RelayedBy string     `json:"relayed_by,omitempty" doc:"name of the daemon that relays it; missing: none does"`
	Since     *time.Time `json:"since,omitempty" doc:"when it began; missing: the role of this daemon is not told"`
	Relayed   int64      `json:"relayed" doc:"messages that this daemon relayed since it began"`
	Kept      int64      `json:"kept" doc:"of these, those whose ids were in use, so that the messages that had them stayed"`
	Failures  int64      `json:"failures" doc:"failures of the relay in this daemon since it began"`
	Pooled    bool       `json:"pooled" doc:"this daemon relays it through a pool of connections, and has to look again and again"`
}

// RefusedRows is a page of what cannot be published.
type RefusedRows struct {
	Refused []RefusedRow `json:"refused" nullable:"false" doc:"in the order of the calls, by database"`
	Cursor  string       `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// RefusedRow is a message that an outbox holds and that cannot be published as it is.
type RefusedRow struct {
	Database string    `json:"database" doc:"URL of the database, without passwords"`
	Seq      int64     `json:"seq" doc:"number of the row; another one once it is retried"`
	Topic    string    `json:"topic"`
	ID       string    `json:"id"`
	Called   time.Time `json:"called" doc:"when it was published, by the clock of the database"`
	Reason   string    `json:"reason" doc:"why it is refused"`
}

// refusedRowOf returns a row in its JSON form.
func refusedRowOf(b *outbox.Outbox, r outbox.RefusedRow) RefusedRow {
	return RefusedRow{b.Address(), r.Seq, r.Topic, r.ID, r.Called.UTC(), r.Reason}
}

// OutboxChange is what one call changed.
type OutboxChange struct {
	Count  int    `json:"count" doc:"messages that wait again, or were removed"`
	Cursor string `json:"cursor,omitempty" doc:"there may be more: repeat the call with this as cursor; missing: all are done"`
}

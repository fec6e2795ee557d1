package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	openArchiveScript  = script.New("open_archive", script.Promised)
	closeArchiveScript = script.New("close_archive", script.Promised)
	endingsScript      = script.New("endings")
	archivedScript     = script.New("archived")
	backlogScript      = script.New("backlog")
)

// The states of an Ending.
const (
	EndedDead    = "dead"    // it is a dead letter, or its successor follows
	EndedDropped = "dropped" // it failed, expired or was late, and its publisher asked for that
	EndedAcked   = "acked"   // its topic has the setting archive_acked
	EndedRemoved = "removed" // it died before there was an archive, and now it is no dead letter any more
)

// An Ending is a message that ended, on its way to an archive.
type Ending struct {
	Entry    string // its id in the stream of endings, which grows
	Member   string
	State    string           // one of those above
	Ended    time.Time        // of one that was removed: when it died
	Reason   string           // why it died or was dropped
	Attempts int              // used up
	History  []record.Attempt // of the last attempts that failed, oldest first
	Result   []byte           // of one that was acknowledged; nil: none
	Raw      string           // the whole record, if Fault is set
	record.Record
	Fault error // an ErrRecord if the record is unreadable or missing
}

// A Backlog is how far an archive is behind.
type Backlog struct {
	Entries int       // in the stream of endings
	Oldest  time.Time // when the first of them was added; zero: there is none
	Removed int64     // entries that the housekeeping removed before they were archived, ever
	Open    bool      // an archive is registered
	Since   time.Time // since when
	Room    int       // entries that the stream of endings holds

	Waits time.Duration // for how long the first of all shards does, by Redis's clock
}

// OpenArchive registers an archive: from now on what ends goes into the stream of endings, which
// holds up to room entries. It may be repeated, as with another room. It repeats a call
// that Redis did not carry out for about a second. Errors: an ErrUnreplicated, or that of
// the connection.
func (s Shard) OpenArchive(ctx context.Context, room int) error {
	r, err := s.Repeat(ctx, openArchiveScript, room)
	if err != nil {
		return err
	}
	_ = r.Integer()
	return r.End()
}

// CloseArchive takes the registration back, and removes the stream of endings. It returns how many
// entries that had. Errors: an ErrUnreplicated, or that of the connection.
func (s Shard) CloseArchive(ctx context.Context) (removed int, err error) {
	r, err := s.Run(ctx, closeArchiveScript)
	if err != nil {
		return 0, err
	}
	removed = int(r.Integer())
	return removed, r.End()
}

// CloseArchive takes the registration of an archive back in all shards, and removes what
// waits for it. It returns how many entries that were. Errors: an ErrUnreplicated, or that
// of the connection; or a MissingError, and the call is to be repeated.
func (s *Store) CloseArchive(ctx context.Context) (removed int, err error) {
	parts, err := Gather(ctx, s, func(ctx context.Context, shard Shard) (int, error) { return shard.CloseArchive(ctx) })
	for _, n := range parts {
		removed += n
	}
	return removed, err
}

// Backlog returns how far the archive is behind in all shards: it is open if it is in one.
// The error is that of the connection; or a MissingError beside the backlog of the others.
func (s *Store) Backlog(ctx context.Context) (sum Backlog, err error) {
	parts, err := Gather(ctx, s, func(ctx context.Context, shard Shard) (Backlog, error) { return shard.Backlog(ctx) })
	for _, b := range parts {
		sum.Entries += b.Entries
		sum.Removed += b.Removed
		sum.Room += b.Room
		sum.Open = sum.Open || b.Open
		sum.Oldest, sum.Since = earlier(sum.Oldest, b.Oldest), earlier(sum.Since, b.Since)
	}
	if !sum.Oldest.IsZero() {
		now, _ := s.Now(ctx) // Redis has just answered
		sum.Waits = max(now.Sub(sum.Oldest), 0)
	}
	return sum, err
}

// earlier returns the earlier of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Endings returns up to limit entries of the stream of endings, oldest first, and fewer if they
// have more than some megabytes. The error is that of the connection.
func (s Shard) Endings(ctx context.Context, limit int) ([]Ending, error) {
	r, err := s.Run(ctx, endingsScript, limit)
	if err != nil {
		return nil, err
	}
	all := make([]Ending, 0, r.Left())
	for r.More() {
		all = append(all, endingIn(r.List()))
	}
	return all, r.End()
}

// endingIn reads an entry of the stream of endings. What is foreign in it counts as missing.
func endingIn(r *script.Reply) Ending {
	e := Ending{Entry: r.Text()}
	there := false
	for r.More() {
		switch name, value := r.Text(), r.Text(); name {
		case "member":
			e.Member = value
		case "state":
			e.State = value
		case "ended":
			e.Ended = record.TimeOf(value)
		case "reason":
			e.Reason = value
		case "attempts":
			e.Attempts, e.History = record.DecodeAttempts(value)
		case "result":
			e.Result = []byte(value)
		case "record":
			e.Raw, there = value, true
		}
	}
	if r.End() != nil {
		return Ending{}
	}
	if !there {
		e.Fault = fmt.Errorf("%w: it is missing", record.ErrRecord)
	} else if e.Record, e.Fault = record.Decode(e.Raw); e.Fault == nil {
		e.Raw = ""
	}
	return e
}

// Archived removes the entries of the stream of endings up to one. It may be repeated. The error is
// that of the connection.
func (s Shard) Archived(ctx context.Context, upto string) error {
	for more := true; more; {
		r, err := s.Run(ctx, archivedScript, upto)
		if err != nil {
			return err
		}
		more = r.Flag()
		if err := r.End(); err != nil {
			return err
		}
	}
	return nil
}

// Backlog returns how far the archive is behind. The error is that of the connection.
func (s Shard) Backlog(ctx context.Context) (Backlog, error) {
	r, err := s.Run(ctx, backlogScript)
	if err != nil {
		return Backlog{}, err
	}
	b := Backlog{Entries: int(r.Integer())}
	first, _, _ := strings.Cut(r.Text(), "-")
	if first != "" {
		b.Oldest = record.TimeOf(first)
	}
	b.Removed = r.Decimal()
	since := r.Integer()
	if b.Open = since > 0; b.Open {
		b.Since = time.UnixMilli(since)
	}
	b.Room = int(r.Integer())
	return b, r.End()
}

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	inspectScript = script.New("inspect")
	listScript    = script.New("list")
	exportScript  = script.New("export")
)

// Inspected is all that is known about a message.
type Inspected struct {
	Member   string
	State    record.State     // 0: it has no place
	At       time.Time        // its due time, the end of its lease, the time of its death, or until when the id is taken; zero if that is foreign
	Attempts int              // used up
	Expires  time.Time        // zero: never
	Reason   string           // of its death
	History  []record.Attempt // of the last attempts that failed, oldest first
	By       string           // name of the worker that has a leased message, or that acknowledged one that is kept; empty: unknown
	Since    time.Time        // when that claimed it; zero: unknown
	Behind   []string         // of a blocked message the ids of those of its key that have a seat, or that died and keep the others back
	Left     *int64           // how many are left of the group that a scheduled message waits for; nil: it waits for none
	Ended    time.Time        // when a message that is kept was acknowledged; zero: it is not kept
	Result   []byte           // of a message that is kept; nil: none
	Progress *Progress        // of the work on a leased message; nil: unknown
	Size     int              // bytes of its record
	Noted

	record.Record
	Fault error // an ErrRecord if the record is unreadable, and Body is the whole record then
}

// Inspect returns what is known about messages of a topic, in the order of members.
// Large records take more than one call. The error is that of the connection.
func (s Shard) Inspect(ctx context.Context, topic string, members []string) ([]Inspected, error) {
	return s.inspectBy(ctx, inspectScript, members, topic)
}

// inspectBy inspects members by a script that gets some arguments before them.
func (s Shard) inspectBy(ctx context.Context, by *script.Transition, members []string, first ...any) ([]Inspected, error) {
	all := make([]Inspected, 0, len(members))
	for len(all) < len(members) {
		args := append(make([]any, 0, len(first)+len(members)-len(all)), first...)
		for _, member := range members[len(all):] {
			args = append(args, member)
		}
		r, err := s.Run(ctx, by, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, inspectedIn(r, r.List())) // at least one
		for r.More() && len(all) < len(members) {
			all = append(all, inspectedIn(r, r.List()))
		}
		if err := r.End(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inspectedIn reads what is known about a message from a list of r.
func inspectedIn(r *script.Reply, l *script.Reply) Inspected {
	look := Inspected{Member: l.Text(), State: l.State()}
	at, _ := l.TextOrNone()
	if look.At = record.TimeOf(at); look.State == record.Leased {
		look.At = record.TimeOfMicros(at)
	}
	used, _ := l.TextOrNone()
	look.Attempts, look.History = record.DecodeAttempts(used)
	expires, _ := l.TextOrNone()
	look.Expires = record.TimeOf(expires)
	look.Reason, _ = l.TextOrNone()
	raw, there := l.TextOrNone()
	noted := l.Text()
	switch {
	case look.State == record.Blocked:
		look.Behind = strings.Fields(l.Text())
	case look.State == record.Scheduled && l.More():
		look.Left = new(l.Integer())
	case l.More():
		look.By, look.Since = l.Text(), sinceOf(l.Text())
	}
	if l.End() != nil {
		return Inspected{}
	}
	look.Size, look.Noted = len(raw)+len(noted), notedIn(noted)
	look.Progress = progressIn(look.told, look)
	if look.State == record.Done {
		if there {
			look.withDone(raw)
		}
		return look
	}
	if !there {
		look.Fault = fmt.Errorf("%w: it is missing", record.ErrRecord)
	} else if look.Record, look.Fault = record.Decode(raw); look.Fault != nil {
		look.Body = []byte(raw) // so that an export loses nothing
	}
	if look.Broadcast && look.State == record.Scheduled && look.TTL > 0 {
		look.Expires = look.At.Add(look.TTL) // it is in no index: the carrier reads it of the record
	}
	return look
}

// A Mark is the end of a page of a list: a member and its time, a score as Redis
// writes it. The zero Mark is the beginning, and the end.
type Mark struct{ Time, Member string }

// List returns up to limit members of a place in order of time, or with latest in the
// reverse order, from behind a mark, and the mark for the next page. A page may be short, even empty, before the end:
// PlaceLeased and PlaceBroadcasts hold all topics. The error is that of the
// connection.
func (s Shard) List(ctx context.Context, topic string, place script.Place, latest bool, limit int, after Mark) (members []string, next Mark, err error) {
	r, err := s.RunOn(ctx, listScript, func(k script.Keys) string { return k.Place(place, topic) }, topic, limit, after.Time, after.Member, latest)
	if err != nil {
		return nil, Mark{}, err
	}
	next = Mark{Time: r.Text(), Member: r.Text()}
	return r.Texts(), next, r.End()
}

// An ExportPage is a page of all messages of a shard.
type ExportPage struct {
	Next     string    // cursor of the next page, "0" at the end
	Now      time.Time // by Redis's clock
	All      int       // number of messages in the shard
	Messages []Inspected
	Alone    []string // members whose records did not fit: Inspect each
	Foreign  int      // number of records whose name is not a member of ours
}

// Export returns a page of about n messages, in no order, from a cursor; "0" is the
// beginning. A message that exists from the first page to the last is on at least
// one of them, however often it moves meanwhile. Errors: that of the connection, or
// that Redis was restarted, or replaced by a replica, since the page before.
func (s Shard) Export(ctx context.Context, cursor string, n int) (ExportPage, error) {
	r, err := s.Run(ctx, exportScript, cursor, n)
	if err != nil {
		return ExportPage{}, restarted(err)
	}
	page := ExportPage{Next: r.Text(), Now: time.UnixMilli(r.Integer()), All: int(r.Integer())}
	for r.More() {
		switch l := r.List(); l.Left() {
		case 1:
			page.Alone = append(page.Alone, l.Text())
		case 2:
			_, state := l.Text(), l.State()
			if page.Foreign++; state != 0 {
				l.Fail("no state", state)
			}
		default:
			page.Messages = append(page.Messages, inspectedIn(r, l))
		}
	}
	return page, r.End()
}

// errRestarted is the error of an export whose next page would be of another order than the page before.
var errRestarted = errors.New("redis was restarted, or another one took over, between two pages, and orders messages in another way; export again")

// restarted returns errRestarted if a page was refused for that, and any other error as it is.
func restarted(err error) error {
	if redis.HasErrorPrefix(err, "RESTARTED") {
		return errRestarted
	}
	return err
}

// sinceOf returns since when a worker has a message, zero if that is unknown.
func sinceOf(ms string) time.Time {
	if ms == "0" {
		return time.Time{}
	}
	return record.TimeOf(ms)
}

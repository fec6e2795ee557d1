package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

var (
	inspectScript = script("inspect")
	listScript    = script("list")
	exportScript  = script("export")
)

// A Look is what is known of a message.
type Look struct {
	Member   string
	State    State     // 0: it stands nowhere
	At       time.Time // when it is due, its lease ends, or it died; zero: that is foreign
	Attempts int       // used up
	Expires  time.Time // zero: never
	Reason   string    // of its death
	Size     int       // bytes of its record

	Record
	Fault error // why the record cannot be read, an ErrRecord, and Body is all of it then; nil: it can
}

// Inspect looks at messages of a topic, and returns what is known of each, in
// their order. Where their records are large it takes more than one call. The
// error is that of the connection.
func (s Shard) Inspect(ctx context.Context, topic string, members []string) ([]Look, error) {
	all := make([]Look, 0, len(members))
	for len(all) < len(members) {
		args := append(make([]any, 0, 1+len(members)-len(all)), topic)
		for _, member := range members[len(all):] {
			args = append(args, member)
		}
		r, err := s.run(ctx, inspectScript, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, r.look(r.list())) // of one at least
		for r.more() && len(all) < len(members) {
			all = append(all, r.look(r.list()))
		}
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// look reads what is known of a message in a list of r.
func (r *reply) look(l *reply) Look {
	look := Look{Member: l.text(), State: l.state()}
	at, _ := l.maybe()
	if look.At = timeOf(at); look.State == Leased {
		look.At = timeOfMicros(at)
	}
	used, _ := l.maybe()
	look.Attempts, _ = strconv.Atoi(used) // 0 where that is foreign
	expires, _ := l.maybe()
	look.Expires = timeOf(expires)
	look.Reason, _ = l.maybe()
	raw, there := l.maybe()
	if l.end() != nil {
		return Look{}
	}
	look.Size = len(raw)
	if !there {
		look.Fault = fmt.Errorf("%w: it is missing", ErrRecord)
	} else if look.Record, look.Fault = DecodeRecord(raw); look.Fault != nil {
		look.Body = []byte(raw) // so that an export loses nothing
	}
	return look
}

// A Mark is where a page of a list ended: behind a member at a time, a score as
// Redis writes it. The zero Mark is the beginning, and the end.
type Mark struct{ Time, Member string }

// List returns up to limit members of a place by time, those behind a mark, and
// where to go on. There may be fewer, even none, before the end: PlaceLeased and
// PlaceBroadcasts hold all topics. The error is that of the connection.
func (s Shard) List(ctx context.Context, topic string, place Place, limit int, after Mark) (members []string, next Mark, err error) {
	row, of := place.row(), topic
	if row.of == "" {
		of = ""
	}
	r, err := s.runOn(ctx, listScript, s.store.keys.name(row, of), topic, limit, after.Time, after.Member)
	if err != nil {
		return nil, Mark{}, err
	}
	next = Mark{Time: r.text(), Member: r.text()}
	return r.texts(), next, r.end()
}

// An ExportPage is a part of all messages of a shard.
type ExportPage struct {
	Next    string    // the cursor of the next page, "0" at the end
	Now     time.Time // by Redis's clock
	All     int       // how many messages there are
	Looks   []Look
	Alone   []string // members for which there was no room: Inspect each
	Foreign int      // records whose name is none of ours
}

// Export looks at about n messages, in no order, from a cursor on: "0" is the
// beginning. A message that is there from the first page to the last is in one of
// them at least, however often it moves meanwhile. The error is that of the
// connection.
func (s Shard) Export(ctx context.Context, cursor string, n int) (ExportPage, error) {
	r, err := s.run(ctx, exportScript, cursor, n)
	if err != nil {
		return ExportPage{}, err
	}
	page := ExportPage{Next: r.text(), Now: time.UnixMilli(r.integer()), All: int(r.integer())}
	for r.more() {
		switch l := r.list(); l.left() {
		case 1:
			page.Alone = append(page.Alone, l.text())
		case 2:
			_, state := l.text(), l.state()
			if page.Foreign++; state != 0 {
				l.fail("no state", state)
			}
		default:
			page.Looks = append(page.Looks, r.look(l))
		}
	}
	return page, r.end()
}

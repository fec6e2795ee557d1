package store

import (
	"context"
	"strconv"
	"time"
)

var (
	findScript  = script("find")
	tallyScript = script("tally")
)

// What is sought in places. The zero value is every message that has a record.
type Sought struct {
	ID           string   // whole; empty: any
	Parts        []string // of ids, with any text between them: the first at the beginning, the last at the end; nil: any
	Head         []string // parts of what stands before the body in a record
	Reason, Body string   // parts of them; a reason only of the dead
	From, To     int64    // due times in Unix ms, both included: of a scheduled or ready message its own, of others that of the first attempt; 0: any
}

// bounds returns the due times as arguments of a script.
func (s *Sought) bounds() (from, to string) {
	if s.From != 0 {
		from = strconv.FormatInt(s.From, 10)
	}
	if s.To != 0 {
		to = strconv.FormatInt(s.To, 10)
	}
	return from, to
}

// A Slice is what one call of Find looks at.
type Slice struct {
	Place  Place
	Topics []string // in whose places it looks; of a place of all topics, unless the whole ID is sought, what members begin with
	After  Mark     // the last one seen in the place of the first topic
	Work   int      // about how many members it looks at, fewer if many match or are large
	Most   int      // matches
}

// Found is what a call of Find found.
type Found struct {
	Through  int            // places gone through, from the first on
	Mark     Mark           // where to go on in the next one; zero: at its beginning
	Now      time.Time      // by Redis's clock
	Looked   int64          // how many members it looked at
	LookedOf map[string]int // the same by topic, for a place of all topics
	Matches  []Inspected
}

// OfAllTopics reports whether the members of all topics are in one such place.
func (p Place) OfAllTopics() bool { return p.row().of == "" }

// Find looks at some members of places, and returns those that match. Foreign members, and those
// without a record, match nothing. The parts of Head are compared with the JSON of a record. The error is
// that of the connection.
func (s Shard) Find(ctx context.Context, sought *Sought, in Slice) (Found, error) {
	from, to := sought.bounds()
	args := make([]any, 0, 12+len(sought.Parts)+len(sought.Head)+len(in.Topics))
	args = append(args, in.Place.row().name, in.Work, in.Most, in.After.Time, in.After.Member, from, to,
		sought.Reason, sought.Body, sought.ID, len(sought.Parts), len(sought.Head))
	for _, texts := range [][]string{sought.Parts, sought.Head, in.Topics} {
		args = append(args, anys(texts)...)
	}
	r, err := s.run(ctx, findScript, args...)
	if err != nil {
		return Found{}, err
	}
	f := Found{Through: int(r.integer()), Mark: Mark{r.text(), r.text()}, Now: time.UnixMilli(r.integer()), Looked: r.integer()}
	f.LookedOf = make(map[string]int)
	for l := r.list(); l.more(); {
		f.LookedOf[l.text()] = int(l.integer())
	}
	for r.more() {
		f.Matches = append(f.Matches, r.inspected(r.list()))
	}
	return f, r.end()
}

// Tally returns how many members some places of topics have, those that are due within the
// bounds where they wait or are ready, and the time by Redis's clock. The error is that of the connection.
func (s Shard) Tally(ctx context.Context, sought *Sought, places []Place, topics []string) (n int64, now time.Time, err error) {
	from, to := sought.bounds()
	args := append(make([]any, 0, 3+len(places)+len(topics)), from, to, len(places))
	for _, place := range places {
		args = append(args, place.row().name)
	}
	r, err := s.run(ctx, tallyScript, append(args, anys(topics)...)...)
	if err != nil {
		return 0, time.Time{}, err
	}
	now, n = time.UnixMilli(r.integer()), r.decimal()
	return n, now, r.end()
}

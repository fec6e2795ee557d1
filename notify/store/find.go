package store

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	findScript     = script.New("find")
	lookUpScript   = script.New("look_up")
	occupiedScript = script.New("occupied")
)

// What is sought in places. The zero value is every message that has a record.
type Sought struct {
	Parts        []string // of ids, with any text between them: the first at the beginning, the last at the end; nil: any
	Head         []string // parts of what stands before the body in a record
	Reason, Body string   // parts of them; a reason only of the dead
	From, To     int64    // due times in Unix ms, both included: of a scheduled, ready or blocked message its own, of others that of the first attempt; 0: any
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

// A Slice is what one call of Find looks at. LookUp uses Topics, Work and Most alone.
type Slice struct {
	Place  script.Place
	Topics []string // in whose places it looks; of a place of all topics what members begin with
	After  Mark     // the last one seen in the place of the first topic
	Work   int      // about how many members it looks at, fewer if many match or are large
	Most   int      // matches
	Brief  bool     // of dead letters, where nothing is sought in records: a match has member, state, time and reason alone, and costs little
}

// Found is what a call of Find or LookUp found.
type Found struct {
	Through  int            // places, or topics, gone through, from the first on
	Mark     Mark           // where to go on in the next one; zero: at its beginning
	Now      time.Time      // by Redis's clock
	Looked   int64          // how many members it looked at
	LookedOf map[string]int // the same by topic, for a place of all topics
	Matches  []Inspected
}

// Find looks at some members of places, and returns those that match. Foreign members match nothing; those without a record do
// if they are dead and nothing is sought in records. The parts of Head are compared with the JSON of a record. The error is
// that of the connection.
func (s Shard) Find(ctx context.Context, sought *Sought, in Slice) (Found, error) {
	from, to := sought.bounds()
	args := make([]any, 0, 12+len(sought.Parts)+len(sought.Head)+len(in.Topics))
	args = append(args, in.Place.Name(), in.Work, in.Most, in.After.Time, in.After.Member, from, to,
		sought.Reason, sought.Body, in.Brief, len(sought.Parts), len(sought.Head))
	for _, texts := range [][]string{sought.Parts, sought.Head, in.Topics} {
		args = append(args, anys(texts)...)
	}
	r, err := s.Run(ctx, findScript, args...)
	if err != nil {
		return Found{}, err
	}
	f := Found{Through: r.UpTo(max(len(in.Topics), 1)), Mark: Mark{r.Text(), r.Text()}, Now: time.UnixMilli(r.Integer()), Looked: r.Integer()}
	f.LookedOf = make(map[string]int)
	for l := r.List(); l.More(); {
		f.LookedOf[l.Text()] = int(l.Integer())
	}
	for r.More() {
		f.Matches = append(f.Matches, inspectedIn(r, r.List()))
	}
	return f, r.End()
}

// LookUp looks for the messages of one id in topics, in whatever place they are: an id says where its record is. Messages without a
// place may be among them. The error is that of the connection.
func (s Shard) LookUp(ctx context.Context, id string, in Slice) (Found, error) {
	r, err := s.Run(ctx, lookUpScript, append([]any{id, in.Work, in.Most}, anys(in.Topics)...)...)
	if err != nil {
		return Found{}, err
	}
	f := Found{Through: r.Index(len(in.Topics)) + 1, Now: time.UnixMilli(r.Integer())}
	f.Looked = int64(f.Through)
	for r.More() {
		f.Matches = append(f.Matches, inspectedIn(r, r.List()))
	}
	return f, r.End()
}

// Occupied is what a call of Occupied reads.
type Occupied struct {
	Topics []string // that have something in the places, in the order of the ranges
	Sizes  []int64  // how much
	Last   string   // name that was read; empty: that was the end of the ranges
}

// Occupied reads up to most names of topics in some ranges, and returns those that have something in places: how many members if
// these are counted, those that are due within the bounds where they wait or are ready, else in how many places, of which none is of all
// topics. The error is that of the connection.
func (s Shard) Occupied(ctx context.Context, sought *Sought, places []script.Place, counted bool, most int, ranges []record.Names) (Occupied, error) {
	from, to := sought.bounds()
	what := 0
	if counted {
		what = 1
	}
	args := append(make([]any, 0, 5+len(places)+2*len(ranges)), most, what, from, to, len(places))
	for _, place := range places {
		args = append(args, place.Name())
	}
	r, err := s.Run(ctx, occupiedScript, append(args, endsOf(ranges)...)...)
	if err != nil {
		return Occupied{}, err
	}
	o, sizes := Occupied{Last: r.Text()}, make(map[string]int64)
	for r.More() {
		topic := r.Text()
		sizes[topic] = r.Decimal()
		if slices.ContainsFunc(ranges, func(n record.Names) bool { return n.From <= topic && topic < n.To }) {
			o.Topics = append(o.Topics, topic)
		}
	}
	slices.Sort(o.Topics)
	for _, topic := range o.Topics {
		o.Sizes = append(o.Sizes, sizes[topic])
	}
	return o, r.End()
}

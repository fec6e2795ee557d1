package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

var (
	grownScript = script("grown")
	readScript  = script("read")
	lagScript   = script("lag")
)

// A LogEnd is the position of the last broadcast of a topic.
type LogEnd struct {
	Topic string
	Last  Position
}

// Growth is which logs have grown behind a position.
type Growth struct {
	StoreID string   // another one than before means that Redis lost all that it held
	Last    Position // of the last broadcast of all; 0: there is none
	Now     Position // what one would be at that is sent now, unless the clock was set back
	Logs    []LogEnd
}

// Grown returns which logs have grown behind a position, up to limit, by position;
// or which of some topics. The error is that of the connection.
func (s Shard) Grown(ctx context.Context, after Position, limit int, only ...string) (Growth, error) {
	args := []any{int64(after), limit}
	for _, topic := range only {
		args = append(args, topic)
	}
	r, err := s.run(ctx, grownScript, args...)
	if err != nil {
		return Growth{}, err
	}
	g := Growth{StoreID: r.storeID(), Last: r.position(), Now: r.position()}
	for r.more() {
		g.Logs = append(g.Logs, LogEnd{r.text(), r.position()})
	}
	return g, r.end()
}

// A Read says what is read of the logs of topics.
type Read struct {
	Topics []string
	After  Position // only what is behind it,
	UpTo   Position // and up to it; 0: to where the logs end
	Each   int      // how many of each log at the most
	Bytes  int      // of records, after which the reply is full

	Others int      // how many topics are looked at that have grown
	Behind Position // this
}

// A Reading is what was read.
type Reading struct {
	StoreID string
	Last    Position  // up to where was read
	Logs    []LogPage // of each topic
	Others  []string  // topics that were not asked for, and have grown,
	More    bool      // and there are more than were looked at
}

// A LogPage is a page of a log.
type LogPage struct {
	Entries []Entry
	More    bool     // there may be more
	Lost    Position // up to here some were trimmed before they were read; 0: none were
}

// An Entry of a log is a broadcast that was sent. What is foreign in it is zero.
type Entry struct {
	Position Position
	ID       string
	Due      time.Time
	Record   string // see [DecodeRecord]
}

// Read reads the logs of topics behind a position, up to another, and looks which
// others have grown. The error is that of the connection.
func (s Shard) Read(ctx context.Context, what Read) (Reading, error) {
	args := []any{int64(what.After), int64(what.UpTo), what.Each, what.Others, int64(what.Behind), what.Bytes}
	for _, topic := range what.Topics {
		args = append(args, topic)
	}
	r, err := s.run(ctx, readScript, args...)
	if err != nil {
		return Reading{}, err
	}
	got := Reading{StoreID: r.storeID(), Last: r.position(), More: r.flag(), Others: r.texts()}
	for range what.Topics {
		log := r.list()
		got.Logs = append(got.Logs, LogPage{More: log.flag(), Lost: log.positionOrNone(), Entries: log.entries()})
		_ = log.end()
	}
	return got, r.end()
}

// A LogPlace is where a named listener stands in a log.
type LogPlace struct {
	Topic string
	Place Position // of the last broadcast that was handed out
	From  Position // behind it the listener misses what was trimmed
}

// A LogLag is how far a named listener is behind in a log.
type LogLag struct {
	First  Position // of the broadcasts behind its place; 0: there is none
	Missed bool     // some were trimmed before
	AtRisk bool     // the first is among the oldest of its log, which go next
}

// Lag looks how far a named listener is behind in logs. The error is that of the connection.
func (s Shard) Lag(ctx context.Context, places []LogPlace) ([]LogLag, error) {
	var args []any
	for _, p := range places {
		args = append(args, p.Topic, int64(p.Place), int64(p.From))
	}
	r, err := s.run(ctx, lagScript, args...)
	if err != nil {
		return nil, err
	}
	lags := make([]LogLag, len(places))
	for i := range lags {
		log := r.list()
		lags[i] = LogLag{First: log.positionOrNone(), Missed: log.flag(), AtRisk: log.flag()}
		_ = log.end()
	}
	return lags, r.end()
}

// LogEnds returns where all logs end. The error is that of the connection.
func (s Shard) LogEnds(ctx context.Context) ([]LogEnd, error) {
	logs, err := s.store.client.ZRangeWithScores(ctx, s.store.keys.Logs(), 0, -1).Result()
	if err != nil {
		return nil, s.store.explain(ctx, err)
	}
	ends := make([]LogEnd, len(logs))
	for i, log := range logs {
		ends[i].Topic, _ = log.Member.(string)
		ends[i].Last = positionAt(log.Score)
	}
	return ends, nil
}

// storeID reads the mark of a store, FORMAT ID, and returns its id.
func (r *reply) storeID() string {
	mark := r.text()
	_, id, ok := strings.Cut(mark, " ")
	if !ok && r.err == nil {
		r.fail("the mark of a store", mark)
	}
	return id
}

// lastPosition is the last one that a number of Lua keeps. What is beyond is foreign.
const lastPosition = 1<<53 - 1

// positionIn reads a position from text. What is foreign is 0.
func positionIn(text string) Position {
	n, _ := strconv.ParseFloat(text, 64)
	return positionAt(n)
}

// positionAt returns the position that a score is. What is foreign is 0.
func positionAt(score float64) Position {
	if !(score >= 0 && score <= lastPosition) {
		return 0
	}
	return Position(score)
}

// position reads a position that stands there as text. One that is foreign is 0.
func (r *reply) position() Position {
	text := r.text()
	if _, err := strconv.ParseFloat(text, 64); errors.Is(err, strconv.ErrSyntax) && r.err == nil {
		r.fail("a position as text", text)
	}
	return positionIn(text)
}

// positionOrNone reads a position, or an empty text where there is none: then it is 0.
func (r *reply) positionOrNone() Position {
	if r.at < len(r.values) && r.values[r.at] == "" {
		r.at++
		return 0
	}
	return r.position()
}

// entries reads a list of entries.
func (r *reply) entries() []Entry {
	list := r.list()
	all := make([]Entry, 0, list.left())
	var entry, fields reply // one for all
	for list.more() {
		list.open(&entry)
		all = append(all, entry.entry(&fields))
	}
	return all
}

// entry reads an entry, with a cursor over its fields.
func (r *reply) entry(fields *reply) Entry {
	e := Entry{Position: positionOf(r.text())}
	r.open(fields)
	_ = r.end()
	for fields.more() {
		switch name, value := fields.text(), fields.text(); name {
		case "id":
			e.ID = value
		case "due":
			e.Due = timeOf(value)
		case "record":
			e.Record = value
		}
	}
	return e
}

// positionOf reads the id of an entry. Another program's may have more than 999
// behind the dash; then it counts on, as lua/shared/logs.lua does.
func positionOf(id string) Position {
	before, behind, _ := strings.Cut(id, "-")
	ms, _ := strconv.ParseInt(before, 10, 64)
	us, _ := strconv.ParseInt(behind, 10, 64)
	return Position(ms*1000 + us)
}

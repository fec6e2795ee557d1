package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
)

var (
	grownScript = script("grown")
	readScript  = script("read")
	lagScript   = script("lag")
)

// A LogEnd is a topic with the position of its last broadcast.
type LogEnd struct {
	Topic string
	Last  record.Position
}

// Growth says which logs have grown behind a position.
type Growth struct {
	StoreID string          // an id that differs from the one before means that Redis lost all that it held
	Last    record.Position // of the last broadcast of all; 0: there is none
	Now     record.Position // of a broadcast that would be sent now, unless the clock was set back
	Logs    []LogEnd
}

// Grown returns up to limit logs that have grown behind a position, in the order of
// their ends; with topics in only it checks just those. The error is that of the
// connection.
func (s Shard) Grown(ctx context.Context, after record.Position, limit int, only ...string) (Growth, error) {
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

// A Read says what to read of the logs of topics.
type Read struct {
	Topics []string
	After  record.Position // read only what is behind it
	UpTo   record.Position // and up to it; 0: up to the ends of the logs
	Each   int             // most entries of each log
	Bytes  int             // of records, after which the reply is full

	Others int             // most topics to check for growth
	Behind record.Position // behind which they have grown
}

// A Reading is the result of a Read.
type Reading struct {
	StoreID string
	Last    record.Position // up to which the logs were read
	Now     time.Time       // by Redis's clock; zero where no entry has a time to live
	Logs    []LogPage       // of each topic
	Others  []string        // topics that have grown and are not in Read.Topics
	More    bool            // more topics have grown than Read.Others
}

// A LogPage is a page of a log.
type LogPage struct {
	Entries []Entry
	More    bool            // there may be more
	Lost    record.Position // up to which entries were trimmed before they were read; 0: none were
}

// An Entry of a log is a broadcast that was sent. Foreign fields are zero.
type Entry struct {
	Position record.Position
	ID       string
	Due      time.Time
	Record   string // see [record.Decode]
}

// Read reads the logs of topics behind a position, up to another, and finds which
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
	got := Reading{StoreID: r.storeID(), Last: r.position()}
	if now := r.integer(); now > 0 {
		got.Now = time.UnixMilli(now)
	}
	got.More, got.Others = r.flag(), r.texts()
	for range what.Topics {
		log := r.list()
		got.Logs = append(got.Logs, LogPage{More: log.flag(), Lost: log.positionOrNone(), Entries: log.entries()})
		_ = log.end()
	}
	return got, r.end()
}

// A LogPlace is the place of a named listener in a log.
type LogPlace struct {
	Topic string
	Place record.Position // of the last broadcast that was handed out
	From  record.Position // entries trimmed behind it are missed
}

// A LogLag is how far a named listener is behind in a log.
type LogLag struct {
	First  record.Position // of the first broadcast behind its place; 0: there is none
	Missed bool            // broadcasts before it were trimmed
	AtRisk bool            // it is among the oldest of its log, which are trimmed next
}

// Lag returns how far a named listener is behind in logs. The error is that of the connection.
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

// LogEnds returns the ends of all logs. The error is that of the connection.
func (s Shard) LogEnds(ctx context.Context) ([]LogEnd, error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, err
	}
	logs, err := d.client.ZRangeWithScores(ctx, d.keys.Logs(), 0, -1).Result()
	if err != nil {
		return nil, d.explain(ctx, err)
	}
	ends := make([]LogEnd, len(logs))
	for i, log := range logs {
		ends[i].Topic, _ = log.Member.(string)
		ends[i].Last = positionAt(log.Score)
	}
	return ends, nil
}

// Announced returns the topics of the broadcasts that are due next, and when the first of each
// is: of as many broadcasts as most, and whether there are more. The error is that of the
// connection.
func (s Shard) Announced(ctx context.Context, most int) (topics []Notable, more bool, err error) {
	d, err := s.resolve(ctx)
	if err != nil {
		return nil, false, err
	}
	page, err := d.client.ZRangeWithScores(ctx, d.keys.Broadcasts(), 0, int64(most)).Result()
	if err != nil {
		return nil, false, d.explain(ctx, err)
	}
	seen := make(map[string]bool)
	for _, one := range page[:min(len(page), most)] {
		member, _ := one.Member.(string)
		topic, _, err := record.SplitMember(member)
		if err == nil && !seen[topic] { // else it is foreign
			seen[topic] = true
			topics = append(topics, Notable{Topic: topic, Since: record.TimeOfMs(one.Score)})
		}
	}
	return topics, len(page) > most, nil
}

// storeID reads the mark of a store, FORMAT ID, and returns the id.
func (r *reply) storeID() string {
	mark := r.text()
	_, id, ok := strings.Cut(mark, " ")
	if !ok && r.err == nil {
		r.fail("the mark of a store", mark)
	}
	return id
}

// lastPosition is the last position that a Lua number holds. What is beyond is foreign.
const lastPosition = 1<<53 - 1

// positionIn reads a position from text. A foreign text is 0.
func positionIn(text string) record.Position {
	n, _ := strconv.ParseFloat(text, 64)
	return positionAt(n)
}

// positionAt returns the position that a score is. A foreign score is 0.
func positionAt(score float64) record.Position {
	if !(score >= 0 && score <= lastPosition) {
		return 0
	}
	return record.Position(score)
}

// position reads a position that is sent as text. A foreign number is 0.
func (r *reply) position() record.Position {
	text := r.text()
	if _, err := strconv.ParseFloat(text, 64); errors.Is(err, strconv.ErrSyntax) && r.err == nil {
		r.fail("a position as text", text)
	}
	return positionIn(text)
}

// positionOrNone reads a position; an empty text is 0: there is none.
func (r *reply) positionOrNone() record.Position {
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
	var entry, fields reply // each serves all entries
	for list.more() {
		list.listInto(&entry)
		all = append(all, entry.entry(&fields))
	}
	return all
}

// entry reads an entry, with a cursor over its fields.
func (r *reply) entry(fields *reply) Entry {
	e := Entry{Position: positionOf(r.text())}
	r.listInto(fields)
	_ = r.end()
	for fields.more() {
		switch name, value := fields.text(), fields.text(); name {
		case "id":
			e.ID = value
		case "due":
			e.Due = record.TimeOf(value)
		case "record":
			e.Record = value
		}
	}
	return e
}

// positionOf reads the id of an entry. A foreign one may have more than 999 us
// behind the dash: these count into the next ms.
func positionOf(id string) record.Position {
	before, behind, _ := strings.Cut(id, "-")
	ms, _ := strconv.ParseInt(before, 10, 64)
	us, _ := strconv.ParseInt(behind, 10, 64)
	return record.Position(ms*1000 + us)
}

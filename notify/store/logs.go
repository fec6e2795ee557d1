package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	grownScript = script.New("grown")
	readScript  = script.New("read")
	lagScript   = script.New("lag")
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

// StoreID returns the id of the store. If Redis lost the store, the next one has another. The error is that of the connection.
func (s Shard) StoreID(ctx context.Context) (string, error) {
	grown, err := s.Grown(ctx, 0, 1, "none") // looks at one topic
	return grown.StoreID, err
}

// Grown returns up to limit logs that have grown behind a position, in the order of
// their ends; with topics in only it checks just those. The error is that of the
// connection.
func (s Shard) Grown(ctx context.Context, after record.Position, limit int, only ...string) (Growth, error) {
	args := []any{int64(after), limit}
	for _, topic := range only {
		args = append(args, topic)
	}
	r, err := s.Run(ctx, grownScript, args...)
	if err != nil {
		return Growth{}, err
	}
	g := Growth{StoreID: r.StoreID(), Last: r.Position(), Now: r.Position()}
	for r.More() {
		g.Logs = append(g.Logs, LogEnd{r.Text(), r.Position()})
	}
	return g, r.End()
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
	r, err := s.Run(ctx, readScript, args...)
	if err != nil {
		return Reading{}, err
	}
	got := Reading{StoreID: r.StoreID(), Last: r.Position()}
	if now := r.Integer(); now > 0 {
		got.Now = time.UnixMilli(now)
	}
	got.More, got.Others = r.Flag(), r.Texts()
	for range what.Topics {
		log := r.List()
		got.Logs = append(got.Logs, LogPage{More: log.Flag(), Lost: log.PositionOrNone(), Entries: entriesIn(log)})
		_ = log.End()
	}
	return got, r.End()
}

// A LogPlace is the place of a named listener in a log.
type LogPlace struct {
	Topic string
	Place record.Position // of the last broadcast that was handed out
	From  record.Position // entries trimmed behind it are missed
}

// BehindIn returns the places of a named listener in the logs that have newer broadcasts, where it is furthest behind first. The error is
// a Fault for a foreign pattern.
func BehindIn(logs []LogEnd, r Registration, places map[string]record.Position) (behind []LogPlace, err error) {
	p, err := record.ParsePattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		at := LogPlace{Topic: log.Topic, Place: r.Start, From: max(r.Start, r.Floor)}
		if place, ok := places[log.Topic]; ok {
			at.Place, at.From = place, place
		}
		if p.Match(log.Topic) && log.Last > at.Place {
			behind = append(behind, at)
		}
	}
	slices.SortFunc(behind, func(a, b LogPlace) int { return cmp.Compare(a.Place, b.Place) })
	return behind, nil
}

// MostLags is of how many logs a caller asks for the lag at once: those where a listener is furthest behind.
const MostLags = 50

// A LogLag is how far a named listener is behind in a log.
type LogLag struct {
	First  record.Position // of the first broadcast behind its place; 0: there is none
	HasGap bool            // broadcasts before it were trimmed
	AtRisk bool            // it is among the oldest of its log, which are trimmed next
}

// Lag returns how far a named listener is behind in logs. The error is that of the connection.
func (s Shard) Lag(ctx context.Context, places []LogPlace) ([]LogLag, error) {
	var args []any
	for _, p := range places {
		args = append(args, p.Topic, int64(p.Place), int64(p.From))
	}
	r, err := s.Run(ctx, lagScript, args...)
	if err != nil {
		return nil, err
	}
	lags := make([]LogLag, len(places))
	for i := range lags {
		log := r.List()
		lags[i] = LogLag{First: log.PositionOrNone(), HasGap: log.Flag(), AtRisk: log.Flag()}
		_ = log.End()
	}
	return lags, r.End()
}

// LogEnds returns the ends of all logs, in no order. The error is that of the connection.
func (s Shard) LogEnds(ctx context.Context) (ends []LogEnd, err error) {
	at := make(map[string]int) // by topic: one that grows meanwhile comes again
	for after := "-inf"; ; {
		page, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) ([]redis.Z, error) {
			return r.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: k.Logs(), Start: after, Stop: "+inf", ByScore: true, Count: scanPage}).Result()
		})
		if err != nil {
			return nil, err
		}
		for _, log := range page {
			topic, _ := log.Member.(string)
			i, there := at[topic]
			if !there {
				i = len(ends)
				at[topic], ends = i, append(ends, LogEnd{Topic: topic})
			}
			ends[i].Last = record.PositionAt(log.Score)
		}
		if len(page) < scanPage {
			return ends, nil
		}
		after = "(" + strconv.FormatFloat(page[len(page)-1].Score, 'f', -1, 64)
	}
}

// Announced returns the topics of the broadcasts that are due next, and when the first of each
// is: of as many broadcasts as most, and whether there are more. The error is that of the
// connection.
func (s Shard) Announced(ctx context.Context, most int) (topics []Notable, more bool, err error) {
	page, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) ([]redis.Z, error) {
		return r.ZRangeWithScores(ctx, k.Broadcasts(), 0, int64(most)).Result()
	})
	if err != nil {
		return nil, false, err
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

// entriesIn reads a list of entries.
func entriesIn(r *script.Reply) []Entry {
	list := r.List()
	all := make([]Entry, 0, list.Left())
	var entry, fields script.Reply // each serves all entries
	for list.More() {
		list.ListInto(&entry)
		all = append(all, entryIn(&entry, &fields))
	}
	return all
}

// entryIn reads an entry, with a cursor over its fields.
func entryIn(r *script.Reply, fields *script.Reply) Entry {
	e := Entry{Position: record.PositionOf(r.Text())}
	r.ListInto(fields)
	_ = r.End()
	for fields.More() {
		switch name, value := fields.Text(), fields.Text(); name {
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

package subscribers

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

var (
	//go:embed logs.lua
	logsPrelude string

	//go:embed read.lua
	readSource string
	readScript = notify.NewScript("read", logsPrelude+readSource)

	//go:embed grown.lua
	grownSource string
	grownScript = notify.NewScript("grown", grownSource)
)

const (
	readTopics = 100     // logs that one call reads
	readItems  = 500     // broadcasts that it reads, or one of each log
	readBytes  = 4 << 20 // of records, after which its reply is full
	grownPage  = 500     // topics that one call tells of

	endOfLogs = notify.Position(1 << 53) // no broadcast is at a position behind it
)

// A Broadcast is a message for everyone who listens to its topic. It may be
// shared with other listeners: its body and headers are not to be changed.
type Broadcast struct {
	Topic    string
	ID       string
	Due      time.Time
	Position notify.Position // among all broadcasts; Position.Time is when it was sent
	Attempt  int             // 1 on first delivery; more only for a named listener
	notify.Record
}

// A Gap tells a listener that broadcasts of a topic were removed before it got
// to them: more came than are kept, or it was away for longer than they are.
// Where Redis lost all that it held, nobody knows what was missed, and of which
// topics: then it is told to all who listen, with their pattern as the topic.
type Gap struct {
	Topic string
	After notify.Position // those behind this position are missing,
	UpTo  notify.Position // up to and with this one
}

// An item of a log is a broadcast or a gap.
type item struct {
	topic     string
	position  notify.Position // of a gap: its end
	broadcast *Broadcast
	gap       *Gap
	why       string // there is one
}

// logs reads the logs of a store.
type logs struct {
	store *notify.Store
	stats *counters
}

// growth is which logs have grown behind a position.
type growth struct {
	store  string          // the id of the store
	last   notify.Position // of the last broadcast of all
	now    notify.Position // what one would be at that is sent now, unless the clock was set back
	topics []string        // that were asked for
}

// grown returns which logs have grown behind a position, of the topics that want
// says, and only of some where these are given.
func (l logs) grown(ctx context.Context, after notify.Position, only []string, want func(topic string) bool) (g growth, err error) {
	for first := true; ; first = false {
		args := []any{int64(after), grownPage}
		for _, topic := range only {
			args = append(args, topic)
		}
		reply, err := l.store.Run(ctx, grownScript, []string{l.store.Keys().Logs()}, args...)
		if err != nil {
			return growth{}, fmt.Errorf("look at the logs: %w", err)
		}
		if first {
			g.store, g.last, g.now = storeID(reply[0]), position(reply[1]), position(reply[2])
		}
		page := reply[3:]
		for i := 0; i+1 < len(page); i += 2 {
			if topic, _ := page[i].(string); want(topic) && notify.CheckTopic(topic) == nil {
				g.topics = append(g.topics, topic)
			}
			after = position(page[i+1])
		}
		if len(only) > 0 || len(page) < 2*grownPage {
			return g, nil
		}
	}
}

// storeID returns the id of a store from its mark, FORMAT ID.
func storeID(mark any) string {
	text, _ := mark.(string)
	_, id, _ := strings.Cut(text, " ")
	return id
}

// reading is what the logs of topics hold behind a position, in the order in
// which it was sent: a page of it.
type reading struct {
	items  []item
	end    notify.Position // up to where this is all
	store  string          // the id of the store
	last   notify.Position // up to where was asked for, or else where the logs end
	others []string        // topics that were not asked for, and have grown,
	more   bool            // and there are more than were looked at
}

// read reads the logs of topics behind a position, up to another; 0: all there
// is. A reply is full after so many bytes. With it, it looks at so many topics
// that have grown behind a position.
func (l logs) read(ctx context.Context, topics []string, after, upTo notify.Position, bytes, others int, behind notify.Position) (r reading, err error) {
	end := endOfLogs
	for page := range slices.Chunk(topics, readTopics) {
		keys := []string{l.store.Keys().Logs()}
		args := []any{int64(after), int64(upTo), max(readItems/len(page), 1), others, int64(behind), bytes}
		for _, topic := range page {
			keys = append(keys, l.store.Keys().Log(topic))
			args = append(args, topic)
		}
		reply, err := l.store.Run(ctx, readScript, keys, args...)
		if err != nil {
			return reading{}, fmt.Errorf("read broadcasts: %w", err)
		}
		if others > 0 {
			r.heed(reply, topics)
		}
		r.store, r.last = storeID(reply[0]), position(reply[1])
		upTo, others = r.last, 0 // all pages are up to where the first one was
		for i, one := range reply[4:] {
			of, complete := l.readLog(page[i], one.([]any), after)
			if !complete {
				end = min(end, of[len(of)-1].position)
			}
			r.items = append(r.items, of...)
		}
	}
	r.end = min(end, r.last)
	slices.SortStableFunc(r.items, func(a, b item) int { return cmp.Compare(a.position, b.position) })
	for len(r.items) > 0 && r.items[len(r.items)-1].position > r.end {
		r.items = r.items[:len(r.items)-1]
	}
	return r, nil
}

// cut leaves so many bytes of bodies of a reading, and not many more.
func (r *reading) cut(bytes int) {
	for n, i := range r.items {
		if bytes <= 0 && i.position > r.items[n-1].position { // a gap may end where another topic goes on
			r.items, r.end = slices.Clone(r.items[:n]), r.items[n-1].position // what is left out can be freed
			return
		}
		bytes -= i.size()
	}
}

// heed takes note of the topics that have grown, of which some are asked for.
func (r *reading) heed(reply []any, asked []string) {
	more, _ := reply[2].(int64)
	r.more = more > 0
	found, _ := reply[3].([]any)
	for _, one := range found {
		if topic, _ := one.(string); !slices.Contains(asked, topic) && notify.CheckTopic(topic) == nil {
			r.others = append(r.others, topic)
		}
	}
}

// readLog reads what read.lua answers for one log, and whether it is all there is.
func (l logs) readLog(topic string, reply []any, after notify.Position) (items []item, complete bool) {
	if lost := position(reply[1]); lost > 0 {
		items = append(items, item{topic: topic, position: lost, gap: &Gap{topic, after, lost}, why: logTrimmed})
	}
	entries, _ := reply[2].([]any)
	for _, entry := range entries {
		items = append(items, l.decode(topic, entry))
	}
	more, _ := reply[0].(int64)
	return items, more == 0 || len(items) == 0
}

// decode reads an entry of a log. One that is foreign is counted, and comes
// back without a broadcast.
func (l logs) decode(topic string, entry any) item {
	pair, _ := entry.([]any)
	if len(pair) != 2 {
		l.stats.unreadable.Add(1)
		return item{topic: topic}
	}
	id, _ := pair[0].(string)
	fields, _ := pair[1].([]any)
	b := &Broadcast{Topic: topic, Position: positionOf(id), Attempt: 1}
	if err := b.fill(fields); err != nil || b.ID == "" || b.Published.IsZero() {
		l.stats.unreadable.Add(1)
		b = nil
	}
	return item{topic: topic, position: positionOf(id), broadcast: b}
}

// fill reads the fields of an entry.
func (b *Broadcast) fill(fields []any) (err error) {
	for i := 0; i+1 < len(fields); i += 2 {
		value, _ := fields[i+1].(string)
		switch fields[i] {
		case "id":
			b.ID = value
		case "due":
			b.Due = notify.TimeOf(value)
		case "record":
			b.Record, err = notify.DecodeRecord(value)
		}
	}
	return err
}

// positionOf reads the id of an entry. Another program's may have more than
// 999 behind the dash; then it counts on, as logs.lua does.
func positionOf(id string) notify.Position {
	before, behind, _ := strings.Cut(id, "-")
	ms, _ := strconv.ParseInt(before, 10, 64)
	us, _ := strconv.ParseInt(behind, 10, 64)
	return notify.Position(ms*1000 + us)
}

// position reads a position that a script wrote as text; none is 0.
func position(reply any) notify.Position {
	text, _ := reply.(string)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return notify.Position(n)
}

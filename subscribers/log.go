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
	readTopics = 100 // logs that one call reads
	readItems  = 500 // broadcasts that it reads, or one of each log
	grownPage  = 500 // topics that one call tells of

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
}

// logs reads the logs of a store.
type logs struct {
	store *notify.Store
	stats *counters
}

// growth is which logs have grown behind a position.
type growth struct {
	last   notify.Position // of the last broadcast of all
	now    notify.Position // what one would be at that is sent now, unless the clock was set back
	topics []string        // that were asked for
}

// grown returns which logs have grown behind a position, of the topics that want says.
func (l logs) grown(ctx context.Context, after notify.Position, want func(topic string) bool) (g growth, err error) {
	for first := true; ; first = false {
		reply, err := l.store.Run(ctx, grownScript, []string{l.store.Keys().Logs()}, int64(after), grownPage)
		if err != nil {
			return growth{}, fmt.Errorf("look at the logs: %w", err)
		}
		if first {
			g.last, g.now = position(reply[0]), position(reply[1])
		}
		page := reply[2:]
		for i := 0; i+1 < len(page); i += 2 {
			if topic, _ := page[i].(string); want(topic) && notify.CheckTopic(topic) == nil {
				g.topics = append(g.topics, topic)
			}
			after = position(page[i+1])
		}
		if len(page) < 2*grownPage {
			return g, nil
		}
	}
}

// read returns what the logs of topics hold behind a position and up to
// another, in the order in which it was sent, and up to where that is all: it
// is a page.
func (l logs) read(ctx context.Context, topics []string, after, upTo notify.Position) (items []item, end notify.Position, err error) {
	end = upTo
	for page := range slices.Chunk(topics, readTopics) {
		keys := []string{l.store.Keys().Logs()}
		args := []any{int64(after), int64(upTo), max(readItems/len(page), 1)}
		for _, topic := range page {
			keys = append(keys, l.store.Keys().Log(topic))
			args = append(args, topic)
		}
		reply, err := l.store.Run(ctx, readScript, keys, args...)
		if err != nil {
			return nil, 0, fmt.Errorf("read broadcasts: %w", err)
		}
		for i, one := range reply {
			of, complete := l.readLog(page[i], one.([]any), after)
			if !complete {
				end = min(end, of[len(of)-1].position)
			}
			items = append(items, of...)
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.position, b.position) })
	for len(items) > 0 && items[len(items)-1].position > end {
		items = items[:len(items)-1]
	}
	return items, end, nil
}

// readLog reads what read.lua answers for one log, and whether it is all there is.
func (l logs) readLog(topic string, reply []any, after notify.Position) (items []item, complete bool) {
	if lost := position(reply[1]); lost > 0 {
		items = append(items, item{topic: topic, position: lost, gap: &Gap{topic, after, lost}})
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

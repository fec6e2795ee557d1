package subscribers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	readTopics = 100     // logs that one call reads
	readItems  = 500     // broadcasts that it reads, or one of each log
	readBytes  = 4 << 20 // of records, after which its reply is full
	grownPage  = 500     // topics that one call names

	endOfLogs = notify.Position(1 << 53) // no broadcast is at a position behind it
)

// A Broadcast is a message for every listener of its topic. It may be
// shared with other listeners: its body and headers are not to be changed.
type Broadcast struct {
	Topic    string
	ID       string
	Due      time.Time
	Position notify.Position // among all broadcasts; Position.Time is when it was sent
	Attempt  int             // 1 on first delivery; more only for a named listener
	Expires  time.Time       // when its TTL is over, as this process measures the time that Redis said is left of it; zero: never
	notify.Record

	standing *standing
}

// Expired reports whether the TTL of the broadcast is over: it counts from Due, by
// Redis's clock. A handler is not called for a broadcast that has expired.
func (b *Broadcast) Expired() bool { return !b.Expires.IsZero() && !time.Now().Before(b.Expires) }

// A Gap reports to a listener that broadcasts of a topic were removed before it read
// them: more came than are kept, or the listener was away for longer than they are
// kept. Where Redis lost all its data, what was missed and of which topics is unknown:
// then each listener gets a Gap with its pattern as the topic.
type Gap struct {
	Topic string
	After notify.Position // those behind this position are missing,
	UpTo  notify.Position // up to and with this one

	standing *standing
}

// Why there is a gap, as it is logged.
const (
	logTrimmed = "broadcasts are missing: they were removed before they were read; the log of a topic keeps no more (carrier.Options)"
	storeLost  = "broadcasts may be missing: redis lost all its data"
)

// errLost is why a page does not belong to the one before it.
var errLost = errors.New("redis lost all its data while broadcasts were read")

// An item of a log is a broadcast or a gap.
type item struct {
	topic     string
	position  notify.Position // of a gap: its end
	broadcast *Broadcast
	gap       *Gap
	why       string // there is one
}

func (i item) size() int {
	if i.broadcast == nil {
		return 0
	}
	return len(i.broadcast.Body)
}

// logs reads the logs of a shard.
type logs struct {
	shard store.Shard
	stats *counters
}

// growth is which logs have grown behind a position.
type growth struct {
	store  string          // the id of the store
	last   notify.Position // of the last broadcast of all topics
	now    notify.Position // where a broadcast would be that is sent now, unless the clock was set back
	topics []string        // that were asked for
}

// grown returns which logs have grown behind a position: those of the topics that want
// accepts, and only of the topics in only, if there are any.
func (l logs) grown(ctx context.Context, after notify.Position, only []string, want func(topic string) bool) (g growth, err error) {
	for first := true; ; first = false {
		page, err := l.shard.Grown(ctx, after, grownPage, only...)
		if err != nil {
			return growth{}, fmt.Errorf("check the logs: %w", err)
		}
		if first {
			g.store, g.last, g.now = page.StoreID, page.Last, page.Now
		} else if page.StoreID != g.store {
			return growth{}, errLost
		}
		for _, log := range page.Logs {
			if want(log.Topic) && record.CheckAnyTopic(log.Topic) == nil {
				g.topics = append(g.topics, log.Topic)
			}
			after = log.Last
		}
		if len(only) > 0 || len(page.Logs) < grownPage {
			return g, nil
		}
	}
}

// reading is a page of what the logs of topics hold behind a position, in the order
// in which it was sent.
type reading struct {
	items  []item
	end    notify.Position // up to where the page is complete
	store  string          // the id of the store
	last   notify.Position // up to where was asked for, or else the end of the logs
	others []string        // topics that were not asked for, and have grown,
	more   bool            // and there are more than the call reports
}

// read reads the logs of topics behind a position, up to another; 0: to the end. A
// reply is full after so many bytes. The reading also names up to others topics that
// have grown behind a position.
func (l logs) read(ctx context.Context, topics []string, after, upTo notify.Position, bytes, others int, behind notify.Position) (r reading, err error) {
	end := endOfLogs
	for page := range slices.Chunk(topics, readTopics) {
		asked := time.Now()
		got, err := l.shard.Read(ctx, store.Read{
			Topics: page, After: after, UpTo: upTo, Each: max(readItems/len(page), 1), Bytes: bytes, Others: others, Behind: behind,
		})
		if err != nil {
			return reading{}, fmt.Errorf("read broadcasts: %w", err)
		}
		if r.store != "" && r.store != got.StoreID {
			return reading{}, errLost
		}
		if others > 0 {
			r.heed(got, topics)
		}
		r.store, r.last = got.StoreID, got.Last
		upTo, others = r.last, 0 // all pages end where the first one did
		for i, log := range got.Logs {
			of := l.items(page[i], log, after, instant{got.Now, asked})
			if log.More && len(of) > 0 {
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

// cut shortens a reading to so many bytes of bodies, and not many more.
func (r *reading) cut(bytes int) {
	for n, i := range r.items {
		if bytes <= 0 && i.position > r.items[n-1].position { // a gap may end where another topic goes on
			r.items, r.end = slices.Clone(r.items[:n]), r.items[n-1].position // so that the rest can be freed
			return
		}
		bytes -= i.size()
	}
}

// heed takes note of the topics that have grown, but for those that were asked for.
func (r *reading) heed(got store.Reading, asked []string) {
	r.more = got.More
	for _, topic := range got.Others {
		if !slices.Contains(asked, topic) && record.CheckAnyTopic(topic) == nil {
			r.others = append(r.others, topic)
		}
	}
}

// An instant is a time by Redis's clock, and when this process asked for it.
type instant struct{ redis, asked time.Time }

// expiry returns when a broadcast expires. Its process counts what is left from when
// it asked: so it hands out nothing too late, whatever the answer took.
func (i instant) expiry(b *Broadcast) time.Time {
	if b.TTL <= 0 || i.redis.IsZero() || b.Due.IsZero() {
		return time.Time{}
	}
	return i.asked.Add(b.Due.Sub(i.redis)).Add(b.TTL)
}

// items returns what a page of a log holds behind a position.
func (l logs) items(topic string, page store.LogPage, after notify.Position, now instant) (items []item) {
	if page.Lost > 0 {
		items = append(items, item{topic: topic, position: page.Lost, gap: &Gap{Topic: topic, After: after, UpTo: page.Lost}, why: logTrimmed})
	}
	for _, entry := range page.Entries {
		items = append(items, l.itemOf(topic, entry, now))
	}
	return items
}

// itemOf returns the item of a log's entry. A foreign one is counted, and has no
// broadcast, as one has that expired.
func (l logs) itemOf(topic string, entry store.Entry, now instant) item {
	b := &Broadcast{Topic: topic, ID: entry.ID, Due: entry.Due, Position: entry.Position, Attempt: 1}
	var err error
	if b.Record, err = record.Decode(entry.Record); err != nil || b.ID == "" || b.Published.IsZero() {
		l.stats.unreadable.Add(1)
		b = nil
	} else if b.Expires = now.expiry(b); b.Expired() {
		b = nil
	}
	return item{topic: topic, position: entry.Position, broadcast: b}
}

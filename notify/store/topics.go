package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	topicsScript  = script.New("topics")
	namesScript   = script.New("names")
	surveyScript  = script.New("survey")
	notableScript = script.New("notable")
)

// Counts are the messages of a topic.
type Counts struct {
	Topic         string        `json:"topic"`
	Scheduled     int64         `json:"scheduled"`
	Ready         int64         `json:"ready"`
	Blocked       int64         `json:"blocked"` // due, behind others of their keys
	Keys          int64         `json:"keys"`    // of those that are blocked
	Leased        int64         `json:"leased"`
	Concurrency   int64         `json:"concurrency"` // how many may be leased at once; 0: without a limit
	Dead          int64         `json:"dead"`
	Waiting       int64         `json:"waiting"`   // subscribers on the topic's waiting list
	Published     int64         `json:"published"` // ever
	Acked         int64         `json:"acked"`     // ever
	Overdue       time.Duration `json:"-"`         // how long the oldest ready message has been due
	OldestBlocked time.Duration `json:"-"`         // how long the oldest blocked message has been due
	Behind        time.Duration `json:"-"`         // how long the oldest scheduled message has been due: no carrier made it ready

	Broadcasts int64 `json:"broadcasts"` // that wait for their due time
	Sent       int64 `json:"sent"`       // broadcasts, ever
	Log        int64 `json:"log"`        // broadcasts that were sent and are kept

	Died     int64         `json:"died"`             // ever: a message that was requeued may die again
	Lateness time.Duration `json:"-"`                // of the oldest message in the last claim that was not empty: from its due time, plus the age that the claim asked for, until the claim
	Paused   bool          `json:"paused,omitempty"` // nothing is handed out

	PausedUntil time.Time `json:"paused_until,omitzero"` // when the pause ends; zero: there is none, or it has no end

	Rate record.Rate `json:"rate"` // of claims; 0: without a limit

	Dropped int64 `json:"dropped"` // ever: messages that ended without a dead letter, because they ask for that, and broadcasts that expired

	OldestLease time.Duration `json:"-"` // how long a worker that told its name has had a message: only NoteLeases sets it
}

// Topics returns the counts of topics, in their order and at one moment; those of a
// topic that was never used are zero. The error is that of the connection.
func (s Shard) Topics(ctx context.Context, topics []string) ([]Counts, error) {
	args := make([]any, len(topics))
	for i, topic := range topics {
		args[i] = topic
	}
	r, err := s.Run(ctx, topicsScript, args...)
	if err != nil {
		return nil, err
	}
	all := make([]Counts, 0, len(topics))
	for _, topic := range topics {
		all = append(all, Counts{
			Topic: topic, Scheduled: r.Integer(), Ready: r.Integer(), Leased: r.Integer(), Dead: r.Integer(), Waiting: r.Integer(),
			Published: r.Integer(), Acked: r.Integer(), Overdue: time.Duration(r.Integer()) * time.Millisecond,
			Broadcasts: r.Integer(), Sent: r.Integer(), Log: r.Integer(),
			Died: r.Integer(), Lateness: time.Duration(r.Integer()) * time.Microsecond, Paused: r.Flag(),
			Dropped: r.Integer(), Blocked: r.Integer(), Keys: r.Integer(), OldestBlocked: time.Duration(r.Integer()) * time.Millisecond,
			Concurrency: r.Integer(), Rate: record.Rate(r.Integer()), PausedUntil: timeIn(r.Integer()), Behind: time.Duration(r.Integer()) * time.Millisecond,
		})
	}
	return all, r.End()
}

// TopicNames returns up to most names of topics in some ranges, in the order of the
// ranges. The error is that of the connection.
func (s Shard) TopicNames(ctx context.Context, most int, ranges []record.Names) ([]string, error) {
	r, err := s.Run(ctx, namesScript, append([]any{most}, endsOf(ranges)...)...)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, r.Left())
	for r.More() {
		names = append(names, r.Text())
	}
	return names, r.End()
}

// endsOf returns the ends of ranges as ZRANGE takes them.
func endsOf(ranges []record.Names) []any {
	ends := make([]any, 0, 2*len(ranges))
	for _, names := range ranges {
		ends = append(ends, "["+names.From, "("+names.To)
	}
	return ends
}

// Paused returns the names of topics that are paused. The error is that of the connection.
func (s Shard) Paused(ctx context.Context) ([]string, error) {
	return reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) ([]string, error) {
		return r.ZRange(ctx, k.PausedTopics(), 0, -1).Result()
	})
}

// WithSettings returns the names of topics that have settings of their own other
// than a pause; of the home shard * is among them if the store has some for all. It scans the counters
// of all topics, a page at a time. The error is that of the connection.
func (s Shard) WithSettings(ctx context.Context) ([]string, error) {
	topics := make(map[string]bool)
	for cursor := uint64(0); ; {
		found, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (scanned, error) {
			return scannedBy(r.HScan(ctx, k.Topics(), cursor, "*:settings", scanPage))
		})
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, nil // a key of the wrong type, which Walk finds, sets nothing
		}
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(found.page); i += 2 {
			topic := strings.TrimSuffix(found.page[i], ":settings")
			if isCopy := topic == record.AllTopics && s.Number() > 0; !isCopy && !onlyPaused(found.page[i+1]) {
				topics[topic] = true
			}
		}
		if cursor = found.next; cursor == 0 {
			return slices.Sorted(maps.Keys(topics)), nil
		}
	}
}

// onlyPaused reports whether settings, as scripts write them, are nothing but a pause.
func onlyPaused(settings string) bool {
	rest, _ := strings.CutPrefix(settings, " paused=1")
	return rest == "" || strings.HasPrefix(rest, " "+pauseEnd.Name+"=")
}

// A Survey is what a store holds in total, and which of its topics are notable.
type Survey struct {
	Topics   int64 // that are remembered
	Messages int64 // in any place, including dead letters and broadcasts that wait

	Leased, Dead, Broadcasts int64 // of Messages; broadcasts that wait

	Published, Acked, Died, Sent, Dropped int64 // ever, of all topics, forgotten ones too

	Schedules int64 // changes of schedules ever; 0: there never was one
	Pushes    int64 // changes of pushes ever; 0: there never was one
	Grouped   int64 // topics that have groups

	Overdue []Notable // topics by their oldest ready message, oldest first, without paused ones
	Behind  []Notable // topics with overdue scheduled messages, since the carrier is behind; oldest first
	Blocked []Notable // topics by their oldest blocked message, or one that is gone, oldest first
	Deaths  []Notable // topics by their newest dead letter, newest first
	Paused  []Notable // topics that are paused, the first paused first
	Busy    []Notable // topics that were published to lately, roughly those with most traffic first

	Now time.Time // by Redis's clock
}

// A Notable is a notable topic, with the time that makes it one.
type Notable struct {
	Topic string
	Since time.Time
}

// Survey returns a survey of a shard without Overdue and Deaths, which Notable
// finds. Each list has up to most topics. The error is that of the connection.
func (s Shard) Survey(ctx context.Context, most int) (Survey, error) {
	r, err := s.Run(ctx, surveyScript, most)
	if err != nil {
		return Survey{}, err
	}
	sum := Survey{
		Topics: r.Integer(), Messages: r.Integer(), Leased: r.Integer(), Dead: r.Integer(), Broadcasts: r.Integer(),
		Published: r.Number(), Acked: r.Number(), Died: r.Number(), Sent: r.Number(), Dropped: r.Number(), Schedules: r.Number(), Pushes: r.Number(), Grouped: r.Integer(), Now: time.UnixMilli(r.Integer()),
		Behind: notablesIn(r.List()), Blocked: notablesIn(r.List()), Paused: notablesIn(r.List()), Busy: notablesIn(r.List()),
	}
	s.Heed(sum.Now)
	return sum, r.End()
}

// A NotablePage is a page of an index of topics that may be out of date.
type NotablePage struct {
	Found   []Notable // topics with their true times
	Checked int       // number of topics checked
	Last    time.Time // of the last of them in the index: its true time, or one nearer to the beginning
	Next    int64     // rank of the next page
}

// Notable checks n topics of an index from a rank on, and corrects the index. If
// dead is set these are the topics with dead letters by their newest, newest first;
// else those with ready messages by their oldest, oldest first, without paused ones.
// The error is that of the connection.
func (s Shard) Notable(ctx context.Context, dead bool, rank int64, n int) (NotablePage, error) {
	ofDead := 0
	if dead {
		ofDead = 1
	}
	r, err := s.Run(ctx, notableScript, rank, n, ofDead)
	if err != nil {
		return NotablePage{}, err
	}
	page := NotablePage{Next: r.Integer(), Checked: int(r.Integer()), Last: time.UnixMilli(r.Number())}
	page.Found = notablesIn(r)
	return page, r.End()
}

// notablesIn reads pairs of topic and time in ms until the end.
func notablesIn(r *script.Reply) []Notable {
	all := make([]Notable, 0, r.Left()/2)
	for r.More() {
		all = append(all, Notable{r.Text(), time.UnixMilli(r.Number())})
	}
	return all
}

package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

var publishScript = script("publish", promised, grows)

// A When is a due time as scripts get it: a time in Unix milliseconds; negative: so
// many milliseconds after Redis received the call; 0: at once.
type When int64

// In returns the due time after a delay, rounded up to a millisecond.
func In(delay time.Duration) When { return When(-ceilMs(delay)) }

// At returns the due time at a time, rounded up to a millisecond.
func At(due time.Time) When {
	ms := due.UnixMilli()
	if due.After(time.UnixMilli(ms)) {
		ms++
	}
	return When(max(ms, 1))
}

// A Publish is a message on its way into a shard.
type Publish struct {
	Topic  string
	Member string
	Tail   string // of its record, as [Record.EncodeTail] returns it

	When      When          // a time in the past stays so for a broadcast, and is now for others
	TTL       time.Duration // counted from When, cut to the millisecond; zero: never expires
	Broadcast bool          // then it has no TTL

	Restored *Restored // of a message from an export; it replaces When, TTL and Broadcast
}

// Restored is what an exported message had in its store. Times are in Unix milliseconds.
type Restored struct {
	Due       int64  `json:"due,omitempty"`
	Expires   int64  `json:"expires,omitempty"` // zero: never
	Broadcast bool   `json:"broadcast,omitempty"`
	Times     string `json:"times,omitempty"` // of its record, see [EncodeTimes]; empty: those of a new message
	Used      int    `json:"used,omitempty"`  // attempts used up
	Died      int64  `json:"died,omitempty"`  // of a dead letter, which has no Due
	Reason    string `json:"reason,omitempty"`
}

// String returns r as JSON, which is what the script gets.
func (r *Restored) String() string {
	text, _ := json.Marshal(r) // never fails: r has only numbers and text
	return string(text)
}

// A Refusal is why a message did not get its place; 0: it did.
type Refusal int

// Why messages are refused.
const (
	IDInUse           Refusal = -1 - iota
	TooLate                   // due past the year 9999
	ForeignReady              // the ready set of the topic is no sorted set
	ForeignBroadcasts         // the set of all broadcasts that wait is none
	ForeignSchedule           // the schedule of the topic, or the set of all schedules, is none
	ForeignDead               // the set of the topic's dead letters is none
)

// Placed is the new place of a message.
type Placed struct {
	Due     time.Time // of a dead letter: when it died
	Ready   bool      // it was due already, even if it waits behind overdue messages
	Refusal Refusal   // if not 0, nothing was changed
}

// Publish publishes messages, and returns what became of each, in their order. A
// refused message does not keep the others back. Publish repeats a call that Redis
// did not carry out for about a second. Errors: ErrFull, ErrUnfit, a RightsError,
// ErrUnreplicated, or that of the connection, after which the messages may or may
// not be published.
func (s Shard) Publish(ctx context.Context, batch []Publish) ([]Placed, error) {
	args, order := publishArgs(batch)
	r, err := s.repeat(ctx, publishScript, args...)
	if err != nil {
		return nil, err
	}
	all := make([]Placed, len(batch))
	now := r.integer()
	for _, i := range order {
		all[i] = r.placed(now, batch[i].Broadcast)
	}
	if len(batch) == 1 && r.more() && r.flag() {
		s.store.handedOver.Add(1)
	}
	return all, r.end()
}

// publishArgs returns the script's arguments for a batch, and the indexes of its
// messages in the order of the reply: topic by topic.
func publishArgs(batch []Publish) (args []any, order []int) {
	var topics []string
	byTopic := make(map[string][]int, 1)
	for i := range batch {
		topic := batch[i].Topic
		of, known := byTopic[topic]
		if !known {
			topics = append(topics, topic)
		}
		byTopic[topic] = append(of, i)
	}
	args = make([]any, 0, 1+2*len(topics)+3*len(batch)+2)
	args = append(args, len(topics))
	order = make([]int, 0, len(batch))
	for _, topic := range topics {
		args = append(args, topic, len(byTopic[topic]))
		order = append(order, byTopic[topic]...)
	}
	for _, i := range order {
		args = append(args, &batch[i].Member, batch[i].when(), &batch[i].Tail) // pointers need no allocations
	}
	return args, order
}

// when returns the script's argument for all of a message but its record.
func (p *Publish) when() any {
	switch {
	case p.Restored != nil:
		return p.Restored.String()
	case p.Broadcast:
		return "*" + strconv.FormatInt(int64(p.When), 10)
	case p.TTL > 0:
		return strconv.FormatInt(int64(p.When), 10) + "/" + strconv.FormatInt(p.TTL.Milliseconds(), 10) // as in the record
	default:
		return int64(p.When)
	}
}

// placed reads a due time in ms, or a Refusal.
func (r *reply) placed(now int64, broadcast bool) Placed {
	due := r.integer()
	switch {
	case due >= 0:
		return Placed{Due: time.UnixMilli(due), Ready: due <= now && !broadcast}
	case due < int64(ForeignDead) && r.err == nil:
		r.fail("a due time, or why there is none", due)
	}
	return Placed{Refusal: Refusal(due)}
}

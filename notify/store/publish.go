package store

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	publishScript   = script.New("publish", script.Promised, script.Grows)
	publishAsScript = script.New("publish_as", script.Promised, script.Grows)
)

// A When is a due time as scripts get it: a time in Unix milliseconds; negative: so
// many milliseconds after Redis received the call; 0: at once.
type When int64

// In returns the due time after a delay, rounded up to a millisecond.
func In(delay time.Duration) When { return When(-record.CeilMs(delay)) }

// At returns the due time at a time, rounded up to a millisecond.
func At(due time.Time) When {
	ms := due.UnixMilli()
	if due.After(time.UnixMilli(ms)) {
		ms++
	}
	return When(max(ms, 1))
}

// After returns a due time of which a part has passed, in whole milliseconds: a delay is so much shorter, and at least none.
func (w When) After(passed time.Duration) When { return min(w+When(max(passed, 0).Milliseconds()), 0) }

// A Publish is a message on its way into a shard.
type Publish struct {
	Topic  string
	Member string
	Tail   string // of its record, as [record.Record.EncodeTail] returns it

	When      When          // a time in the past stays so for a broadcast, and is now for others
	TTL       time.Duration // counted from When, cut to the millisecond; zero: never expires
	Broadcast bool
	Marked    bool   // its record begins with a +
	Key       string // empty: none
	Group     string // empty: none

	Restored *Restored // of a message from an export; it replaces When, TTL, Broadcast, Key and Group

	As *As // what PublishAs alone takes; nil: Publish does
}

// As is what a message asks for that depends on another one of its id.
type As struct {
	IfExists IfExists
	MaxWait  time.Duration // with Debounce; zero: without end
	After    bool          // it follows a leased one
	Unique   time.Duration // for how long the id stays taken after the end; zero: not at all
	Drop     bool          // it is dropped where it would be blocked

	AfterGroup string // TOPIC:GROUP of that which it waits for; empty: none
	OnDead     string // what a dead letter of that does
}

// IfExists says what a publish does if a message of its id waits or is ready.
type IfExists string

// The values of IfExists. An empty one is Refuse.
const (
	Refuse   IfExists = "refuse"   // the publish is refused with ErrExists
	Keep     IfExists = "keep"     // the message that is there stays as it is
	Replace  IfExists = "replace"  // the new message takes its place, also that of a dead letter
	Debounce IfExists = "debounce" // as Replace, but with the time of the first publish, from which MaxWait counts
)

// An Outcome is what became of a message that was published.
type Outcome string

// The outcomes.
const (
	OutcomeCreated  Outcome = "created"  // it is a new message, or follows a leased one
	OutcomeKept     Outcome = "kept"     // the one that was there stays, and this one is gone
	OutcomeReplaced Outcome = "replaced" // it took the place of the one that was there
	OutcomeMoved    Outcome = "moved"    // as Replaced, and it was put off: see Debounce
	OutcomeDropped  Outcome = "dropped"  // it would be blocked, and is not to wait
	OutcomeRefused  Outcome = "refused"  // nothing was changed
)

// Restored is what an exported message had in its store. Times are in Unix milliseconds.
type Restored struct {
	Due       int64  `json:"due,omitempty"`
	Expires   int64  `json:"expires,omitempty"` // zero: never
	Broadcast bool   `json:"broadcast,omitempty"`
	Marked    bool   `json:"marked,omitempty"` // its record begins with a +
	Key       string `json:"key,omitempty"`
	Drop      bool   `json:"drop,omitempty"` // as of As
	Group     string `json:"group,omitempty"`

	AfterGroup string `json:"after_group,omitempty"` // as of As
	OnDead     string `json:"on_dead,omitempty"`
	Waits      bool   `json:"waits,omitempty"` // for AfterGroup, still

	Times  string `json:"times,omitempty"` // of its record, see [record.EncodeTimes]; empty: those of a new message
	Used   string `json:"used,omitempty"`  // attempts used up, as [record.EncodeAttempts] returns them
	Died   int64  `json:"died,omitempty"`  // of a dead letter, which has no Due
	Reason string `json:"reason,omitempty"`
	Extras int    `json:"extras,omitempty"` // how many bytes of Tail, at its end, are what is noted of it: see [Noted]
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
	ForeignScheduled          // the scheduled set of the topic, or the index of scheduled sets, is none
	ForeignDead               // the set of the topic's dead letters is none
	IDLeased                  // a message of the id is leased
	IDDead                    // a message of the id is dead
	ForeignExtras             // what is noted of messages is no hash
	GroupTaken                // another message waits for the group
	GroupCircle               // the message would wait for itself, or its groups are too many
	GroupComplete             // its group is complete, or that which it waits for
)

// Placed is the new place of a message.
type Placed struct {
	Due     time.Time // of a dead letter: when it died
	Ready   bool      // it was due already, even if it waits behind overdue messages
	Refusal Refusal   // if not 0, nothing was changed
	Since   time.Time // of GroupComplete: since when
	Reason  string    // of GroupComplete: TOPIC:GROUP, of PublishAs alone; of GroupTaken the message that waits

	Outcome  Outcome
	Previous time.Time    // due time of the message that was there; zero: there was none, or it was dead or had ended
	Left     *int64       // how many are left of the group that the message waits for; nil: it waits for none
	State    record.State // Blocked behind another of its key; of PublishAs also Leased, for one that follows a leased message; 0: as Ready says
}

// Publish publishes messages, and returns what became of each, in their order. A
// refused message does not keep the others back. Publish repeats a call that Redis
// did not carry out for about a second. Errors: ErrFull, ErrUnfit, a RightsError,
// ErrUnreplicated, or that of the connection, after which the messages may or may
// not be published.
func (s Shard) Publish(ctx context.Context, batch []Publish) ([]Placed, error) {
	args, order := publishArgs(batch)
	r, err := s.Repeat(ctx, publishScript, args...)
	if err != nil {
		return nil, err
	}
	return s.published(r, batch, order)
}

// published reads what became of each message of a batch, in the order of the reply.
func (s Shard) published(r *script.Reply, batch []Publish, order []int) ([]Placed, error) {
	all := make([]Placed, len(batch))
	now := r.Integer()
	for _, i := range order {
		all[i] = placedIn(r, now, batch[i].Broadcast)
	}
	for r.More() {
		switch n := r.Integer(); {
		case n == 1 && len(batch) == 1:
			s.store.handedOver.Add(1)
		case n < 0 && int(-n) <= len(order):
			all[order[-n-1]].State = record.Blocked
		default:
			r.Fail("that it was handed over, or which ones are blocked", n)
		}
	}
	return all, r.End()
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
	if p.Restored != nil {
		return p.Restored.String()
	}
	if !p.Marked && !p.Broadcast && p.TTL == 0 && p.Key == "" && p.Group == "" {
		return int64(p.When)
	}
	text := strconv.FormatInt(int64(p.When), 10)
	switch {
	case p.Broadcast: // its time to live is in the record alone
		text = "*" + text
	case p.TTL > 0:
		text += "/" + strconv.FormatInt(p.TTL.Milliseconds(), 10) // as in the record
	}
	if p.Key != "" {
		text += "#" + p.Key
	}
	if p.Group != "" {
		text += "@" + p.Group
	}
	if p.Marked {
		text = "!" + text
	}
	return text
}

// leastTime is a time in ms below which no group was completed, and above all refusals.
const leastTime = 1000

// placedIn reads a due time in ms, or a Refusal, or since when a group is complete behind a minus.
func placedIn(r *script.Reply, now int64, broadcast bool) Placed {
	due := r.Integer()
	switch {
	case due >= 0:
		return Placed{Due: time.UnixMilli(due), Ready: due <= now && !broadcast, Outcome: OutcomeCreated}
	case due <= -leastTime:
		return Placed{Refusal: GroupComplete, Since: time.UnixMilli(-due), Outcome: OutcomeRefused}
	case due <= int64(GroupComplete):
		r.Fail("a due time, or why there is none", due)
	}
	return Placed{Refusal: Refusal(due), Outcome: OutcomeRefused}
}

// asking is what publish_as.lua gets of a message beside its record. Times are in ms.
type asking struct {
	When      int64    `json:"when"`
	TTL       int64    `json:"ttl,omitempty"`
	Broadcast bool     `json:"broadcast,omitempty"`
	Marked    bool     `json:"marked,omitempty"`
	Key       string   `json:"key,omitempty"`
	IfExists  IfExists `json:"if_exists,omitempty"`
	MaxWait   int64    `json:"max_wait,omitempty"`
	Unique    int64    `json:"unique,omitempty"`
	After     bool     `json:"after,omitempty"`
	Drop      bool     `json:"drop,omitempty"`
	Group     string   `json:"group,omitempty"`

	AfterGroup string `json:"after_group,omitempty"`
	OnDead     string `json:"on_dead,omitempty"`
}

// PublishAs publishes messages whose As is set, one after the other, each as if
// alone. It returns what became of each, and repeats and fails as Publish does.
func (s Shard) PublishAs(ctx context.Context, batch []Publish) ([]Placed, error) {
	r, err := s.Repeat(ctx, publishAsScript, publishAsArgs(batch)...)
	if err != nil {
		return nil, err
	}
	return publishedAs(r, len(batch))
}

// publishAsArgs returns the script's arguments for a batch.
func publishAsArgs(batch []Publish) []any {
	args := make([]any, 0, 4*len(batch)+2)
	for i := range batch {
		p := &batch[i]
		asks, _ := json.Marshal(asking{ // never fails: it has only numbers and text
			When: int64(p.When), TTL: p.TTL.Milliseconds(), Broadcast: p.Broadcast, Marked: p.Marked, Key: p.Key,
			IfExists: p.As.IfExists, MaxWait: p.As.MaxWait.Milliseconds(), Unique: p.As.Unique.Milliseconds(), After: p.As.After, Drop: p.As.Drop,
			Group: p.Group, AfterGroup: p.As.AfterGroup, OnDead: p.As.OnDead,
		})
		args = append(args, &p.Topic, &p.Member, asks, &p.Tail)
	}
	return args
}

// publishedAs reads what became of each of n messages.
func publishedAs(r *script.Reply, n int) ([]Placed, error) {
	all := make([]Placed, n)
	now := r.Integer()
	for i := range all {
		all[i] = placedAsIn(r, now)
	}
	for r.More() {
		i, left := r.Integer()-1, r.Integer()
		if i < 0 || i >= int64(n) {
			r.Fail("the place of a message", i)
			break
		}
		all[i].Left = &left
	}
	return all, r.End()
}

// placedAsIn reads what became of a message of PublishAs.
func placedAsIn(r *script.Reply, now int64) Placed {
	outcome := Outcome(r.Text())
	placed := placedIn(r, now, false)
	previous := r.Integer()
	if placed.Refusal == GroupTaken || placed.Refusal == GroupComplete {
		placed.Reason = r.Text()
	} else {
		placed.State = r.State()
	}
	if (placed.Refusal != 0) != (outcome == OutcomeRefused) || placed.Refusal == 0 && placed.State == 0 {
		r.Fail("an outcome that agrees with its due time and its state", string(outcome))
	}
	switch placed.Outcome = outcome; outcome {
	case OutcomeCreated, OutcomeKept, OutcomeReplaced, OutcomeMoved, OutcomeDropped, OutcomeRefused:
	default:
		r.Fail("an outcome", string(outcome))
	}
	if previous > 0 {
		placed.Previous = time.UnixMilli(previous)
	}
	if placed.State == record.Done {
		placed.Due = time.Time{}
	}
	return placed
}

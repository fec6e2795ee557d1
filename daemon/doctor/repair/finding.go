package repair

import "fmt"

// A Fault is a kind of inconsistency, by the name that scripts have for it.
type Fault string

// The faults.
const (
	NoPlace       Fault = "no place"
	NoRecord      Fault = "no record"
	OtherTopic    Fault = "other topic"
	TwoPlaces     Fault = "two places"
	NoReason      Fault = "no reason"
	OfNothing     Fault = "of nothing"
	WrongSeat     Fault = "seat"
	NoGroup       Fault = "no group"
	NotTaken      Fault = "not taken"
	WrongIndex    Fault = "index"
	WrongCount    Fault = "count"
	WrongSettings Fault = "settings"
	NoListener    Fault = "no listener"
	Unreadable    Fault = "unreadable"
	WrongShard    Fault = "wrong shard"
	LostRoot      Fault = "lost root"
	ForeignKey    Fault = "foreign key"
	ForeignRecord Fault = "foreign record"
	WrongType     Fault = "wrong type"
)

// words say what each fault is.
var words = map[Fault]string{
	NoPlace:       "a record in no place, so its message would never be delivered",
	NoRecord:      "a member without a record, so there is nothing to deliver",
	OtherTopic:    "a member of another topic",
	TwoPlaces:     "a member that is in another place, too",
	NoReason:      "a dead letter without a reason",
	OfNothing:     "it belongs to no message",
	WrongSeat:     "the seat of its key is nobody's, or it has none",
	NoGroup:       "it waits for a group, which has another come, or nothing",
	NotTaken:      "an id that stays taken, and is missing where that ends",
	WrongIndex:    "its entry there is missing or wrong",
	WrongCount:    "a counter that disagrees with what it counts",
	WrongSettings: "settings that cannot be read, or that belong to no topic",
	NoListener:    "kept for a listener that is not registered",
	Unreadable:    "an entry that cannot be read",
	WrongShard:    "its topic belongs in another shard, so nobody looks for it there",
	LostRoot:      "the key that says how many shards there are is lost",
	ForeignKey:    "a key of another program",
	ForeignRecord: "a record whose name is not TOPIC:ID",
	WrongType:     "a key of the wrong type",
}

// A Finding is one fault in one place.
type Finding struct {
	Fault    Fault
	Name     string // a member, a topic or a listener; empty: the key itself
	Key      string // the key, without the beginning that all keys share: of several shards with the hash tag
	Remedy   string // what a repair does, such as "removed"; empty: it cannot be repaired
	Repaired bool   // the remedy was applied
	Whole    string // the whole key
}

// Harmless reports whether the finding does not affect Bellhop.
func (f Finding) Harmless() bool { return f.Fault == ForeignKey || f.Fault == ForeignRecord }

// String returns the fault in one line, without the remedy.
func (f Finding) String() string {
	if f.Name == "" {
		return fmt.Sprintf("%s: %s", f.Key, words[f.Fault])
	}
	return fmt.Sprintf("%s in %s: %s", f.Name, f.Key, words[f.Fault])
}

// A Summary is what a run found in all.
type Summary struct {
	Messages   int // records examined
	Topics     int // topics that have a key
	Found      int // faults, without the harmless ones
	Repaired   int // faults that were repaired
	Repairable int // faults that were repaired, or would be with Apply

	Uncounted []string // counters that were not compared, since they count too many for one step
}

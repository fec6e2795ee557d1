package repair

import "fmt"

// A Fault is a kind of inconsistency.
type Fault int

// The faults.
const (
	NoPlace       Fault = iota + 1 // a record is in no place: its message would never be delivered
	NoRecord                       // a member of a place has no record: there is nothing to deliver
	OtherTopic                     // a member is in a place of another topic
	TwoPlaces                      // a member is in two places
	NoReason                       // a dead letter has no reason
	OfNothing                      // attempts, an expiry, a reason or extras of a message that does not exist, or the end of an id that is not taken
	WrongSeat                      // the seat of a key is nobody's, or a message that is ready or leased has none
	NotTaken                       // the record of an id that stays taken, and is missing where that ends
	WrongIndex                     // the entry of a topic or a listener in an index is missing or wrong
	WrongCount                     // a counter disagrees with what it counts
	WrongSettings                  // settings cannot be read, or their name is no topic
	NoListener                     // places of a named listener that is not registered: its registration was lost
	Unreadable                     // the entry of a worker, or of what it claimed, that is none
	WrongShard                     // a key of a topic that belongs in another shard: nobody claims from it there
	LostRoot                       // the key that says how many shards there are is lost
	ForeignKey                     // a key belongs to another program
	ForeignRecord                  // the name of a record is not TOPIC:ID
	WrongType                      // a key of Bellhop has another type
)

var faults = [...]struct{ name, words string }{
	NoPlace:       {"no place", "a record in no place, so its message would never be delivered"},
	NoRecord:      {"no record", "a member without a record, so there is nothing to deliver"},
	OtherTopic:    {"other topic", "a member of another topic"},
	TwoPlaces:     {"two places", "a member that is in another place, too"},
	NoReason:      {"no reason", "a dead letter without a reason"},
	OfNothing:     {"of nothing", "it belongs to no message"},
	WrongSeat:     {"seat", "the seat of its key is nobody's, or it has none"},
	NotTaken:      {"not taken", "an id that stays taken, and is missing where that ends"},
	WrongIndex:    {"index", "its entry there is missing or wrong"},
	WrongCount:    {"count", "a counter that disagrees with what it counts"},
	WrongSettings: {"settings", "settings that cannot be read, or that belong to no topic"},
	NoListener:    {"no listener", "kept for a listener that is not registered"},
	Unreadable:    {"unreadable", "an entry that cannot be read"},
	WrongShard:    {"wrong shard", "its topic belongs in another shard, so nobody looks for it there"},
	LostRoot:      {"lost root", "the key that says how many shards there are is lost"},
	ForeignKey:    {"foreign key", "a key of another program"},
	ForeignRecord: {"foreign record", "a record whose name is not TOPIC:ID"},
	WrongType:     {"wrong type", "a key of the wrong type"},
}

// String returns the name of the fault, such as "no place".
func (f Fault) String() string {
	if f < NoPlace || f > WrongType {
		return fmt.Sprintf("Fault(%d)", int(f))
	}
	return faults[f].name
}

// MarshalText returns the name of the fault.
func (f Fault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// faultOf returns the fault that a script named.
func faultOf(name string) (Fault, error) {
	for f := NoPlace; f <= WrongType; f++ {
		if faults[f].name == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown fault %q", name)
}

// A Finding is one fault in one place.
type Finding struct {
	Fault    Fault  `json:"fault"`
	Name     string `json:"name"`             // a member, a topic or a listener; empty: the key itself
	Key      string `json:"key"`              // the key, without the beginning that all keys share: of several shards with the hash tag
	Remedy   string `json:"remedy,omitempty"` // what a repair does, such as "removed"; empty: it cannot be repaired
	Repaired bool   `json:"repaired"`         // the remedy was applied
	Whole    string `json:"-"`                // the whole key
}

// Harmless reports whether the finding does not affect Bellhop.
func (f Finding) Harmless() bool { return f.Fault == ForeignKey || f.Fault == ForeignRecord }

// String returns the fault in one line, without the remedy.
func (f Finding) String() string {
	if f.Name == "" {
		return fmt.Sprintf("%s: %s", f.Key, faults[f.Fault].words)
	}
	return fmt.Sprintf("%s in %s: %s", f.Name, f.Key, faults[f.Fault].words)
}

// A Summary is what a run found in all.
type Summary struct {
	Messages   int `json:"messages"`   // records examined
	Topics     int `json:"topics"`     // topics that have a key
	Found      int `json:"found"`      // faults, without the harmless ones
	Repaired   int `json:"repaired"`   // faults that were repaired
	Repairable int `json:"repairable"` // faults that were repaired, or would be with Apply

	Uncounted []string `json:"uncounted,omitempty"` // counters that were not compared, since they count too many for one step
}

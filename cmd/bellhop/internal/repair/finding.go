package repair

import "fmt"

// A Fault is what is wrong with something.
type Fault int

// The faults.
const (
	NoPlace       Fault = iota + 1 // a record stands in no place: its message would never be delivered
	NoRecord                       // what stands in a place has no record: there is nothing to deliver
	OtherTopic                     // a member stands in a place of another topic
	TwoPlaces                      // a member stands in two places
	NoReason                       // a dead letter has no reason
	OfNothing                      // attempts, an expiry or a reason of what is not there
	WrongIndex                     // a topic or a listener does not stand, or not as it should, among those that have something
	WrongCount                     // a counter disagrees with what it counts
	WrongSettings                  // settings that cannot be read, or are of what is no topic
	NoListener                     // something is kept of a named listener that is not registered: its registration was lost
	ForeignKey                     // a key is another program's
	ForeignRecord                  // a record has no name of ours
	WrongType                      // a key of ours has another type
)

var faults = [...]struct{ name, words string }{
	NoPlace:       {"no place", "a record that stands in no place"},
	NoRecord:      {"no record", "a member without a record"},
	OtherTopic:    {"other topic", "a member of another topic"},
	TwoPlaces:     {"two places", "a member that stands in another place, too"},
	NoReason:      {"no reason", "a dead letter without a reason"},
	OfNothing:     {"of nothing", "it belongs to nothing"},
	WrongIndex:    {"index", "it does not stand there as it should"},
	WrongCount:    {"count", "a counter that disagrees with what it counts"},
	WrongSettings: {"settings", "settings that cannot be read, or are of no topic"},
	NoListener:    {"no listener", "kept of a listener that is not registered"},
	ForeignKey:    {"foreign key", "a key of another program"},
	ForeignRecord: {"foreign record", "a record without a name of ours"},
	WrongType:     {"wrong type", "a key that has another type than it should"},
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

// faultOf returns the fault of a name, which a script told.
func faultOf(name string) (Fault, error) {
	for f := NoPlace; f <= WrongType; f++ {
		if faults[f].name == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown fault %q", name)
}

// A Finding is something that is wrong.
type Finding struct {
	Fault    Fault  `json:"fault"`
	Name     string `json:"name"`             // a member, a topic, an inbox or a listener; empty: the key itself
	Key      string `json:"key"`              // where, without what all keys begin with
	Remedy   string `json:"remedy,omitempty"` // what repairs it, as "removed"; empty: nothing here does
	Repaired bool   `json:"repaired"`         // it was done
	Whole    string `json:"-"`                // the key as Redis has it
}

// Harmless reports whether nothing of Bellhop suffers from it: it is only told.
func (f Finding) Harmless() bool { return f.Fault == ForeignKey || f.Fault == ForeignRecord }

// String says what is wrong, in a line without the remedy.
func (f Finding) String() string {
	if f.Name == "" {
		return fmt.Sprintf("%s: %s", f.Key, faults[f.Fault].words)
	}
	return fmt.Sprintf("%s in %s: %s", f.Name, f.Key, faults[f.Fault].words)
}

// A Summary is what a run found altogether.
type Summary struct {
	Messages   int `json:"messages"`   // records that were looked at
	Topics     int `json:"topics"`     // that have a key
	Found      int `json:"found"`      // faults, but for the harmless
	Repaired   int `json:"repaired"`   // of these
	Repairable int `json:"repairable"` // of these, those that were repaired, or would be

	Uncounted []string `json:"uncounted,omitempty"` // counters that were not compared: they count too much for one step
}

package record

import (
	"fmt"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// State is the place of a message in its life.
type State int

// The states of a message.
const (
	Scheduled State = iota + 1 // waits for its due time
	Ready                      // is due, and waits for a worker
	Blocked                    // is due, and waits until another message of its key has ended
	Leased                     // was claimed by a worker
	Dead                       // is out of attempts, expired or buried
	Done                       // ended, and its id stays taken
)

var stateNames = [...]string{Scheduled: "scheduled", Ready: "ready", Blocked: "blocked", Leased: "leased", Dead: "dead", Done: "done"}

// String returns the state's name, "scheduled", "ready", "blocked", "leased", "dead" or "done".
func (s State) String() string {
	if s < Scheduled || s > Done {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// MarshalText returns the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name. The error is that of ParseState.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// ParseState returns the state of a name. The error is a Fault.
func ParseState(name string) (State, error) {
	for s := Scheduled; s <= Done; s++ {
		if stateNames[s] == name {
			return s, nil
		}
	}
	return 0, fault.New("state", "state %.100q: use scheduled, ready, blocked, leased, dead or done", name)
}

package store

import "fmt"

// State is where a message stands.
type State int

// The states of a message.
const (
	Scheduled State = iota + 1 // waits for its due time
	Ready                      // due, waits for a worker
	Leased                     // a worker has it
	Dead                       // out of attempts, expired or refused for good
)

var stateNames = [...]string{Scheduled: "scheduled", Ready: "ready", Leased: "leased", Dead: "dead"}

// String returns the state's name, "scheduled", "ready", "leased" or "dead".
func (s State) String() string {
	if s < Scheduled || s > Dead {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// MarshalText returns the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// ParseState reads a state's name.
func ParseState(name string) (State, error) {
	for s := Scheduled; s <= Dead; s++ {
		if stateNames[s] == name {
			return s, nil
		}
	}
	return 0, Faultf("state", "state %.100q: use scheduled, ready, leased or dead", name)
}

// state reads a state's name; an empty text is 0, where a message has no state.
func (r *reply) state() State {
	name := r.text()
	if name == "" {
		return 0
	}
	s, err := ParseState(name)
	if err != nil {
		r.fail("a state", name)
	}
	return s
}

package script

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Transition is one change of what a shard holds, or one read of it: a function of the
// library. Its source is lua/NAME.lua.
type Transition struct {
	Name     string // for people: that of lua/repair/places.lua is repair-places
	function string // its name in the library
	Promised bool   // see the function Promised
	Grows    bool   // see the function Grows
	Looks    bool   // see the function Looks
}

// transitions are all of them, by the names of their files.
var transitions = make(map[string]*Transition)

// Option changes a transition.
type Option func(*Transition)

// Promised marks a transition whose answer, such as that a message is published or
// acknowledged, is a promise, which waits for replicas where the store has some.
func Promised(t *Transition) { t.Promised = true }

// Grows marks a transition that makes Redis hold more. It is refused as a whole when Redis
// is full or nearly so, and while Redis may evict messages. All others
// run even when Redis is out of memory, since they must not stop half way: moving,
// acknowledging and removing frees more memory than it takes.
func Grows(t *Transition) { t.Grows = true }

// Looks marks a transition that changes nothing, so that a Redis that takes no writes runs it, too. Its reply is empty
// where there is no store: it founds none.
func Looks(t *Transition) { t.Looks = true }

// New returns the transition of lua/NAME.lua, and puts it into the library.
func New(name string, options ...Option) *Transition {
	t := &Transition{Name: strings.ReplaceAll(name, "/", "-"), function: luaName(name)}
	for _, o := range options {
		o(t)
	}
	transitions[name] = t
	return t
}

// luaName returns the name of the transition of lua/NAME.lua in the library.
func luaName(name string) string { return strings.ReplaceAll(name, "/", "_") }

// InLibrary returns the name of the transition in the library.
func (t *Transition) InLibrary() string { return t.function }

// Function returns the name of the function that the transition is in a server.
func (t *Transition) Function() string { return theLibrary().name + "_" + t.function }

// Script returns the script that runs the transition where it is no function, and the argument that
// goes behind all others. plain is for the embedded trial server, which knows no flags.
func (t *Transition) Script(plain bool) (s *redis.Script, last string) {
	switch l := theLibrary(); {
	case plain, t.Looks:
		return l.plain, t.function
	case t.Grows:
		return l.growing, t.function
	default:
		return l.script, t.function
	}
}

package store

import (
	"strings"
)

// A transition is one change of what a shard holds, or one read of it: a function of the
// library. Its source is lua/NAME.lua.
type transition struct {
	name     string // for Store.Observe
	function string // in the library, behind its name
	promised bool   // its answer is a promise, which Config.WaitReplicas replicas must confirm
	grows    bool   // it makes Redis hold more, and is refused before Redis is full
}

// transitions are all of them, by the names of their files.
var transitions = make(map[string]*transition)

// option changes a transition.
type option func(*transition)

// promised marks a transition whose answer, such as that a message is published or
// acknowledged, waits for Config.WaitReplicas replicas.
func promised(t *transition) { t.promised = true }

// grows marks a transition that is refused as a whole: with ErrFull when Redis is
// full or nearly so, and with ErrUnfit while Redis may evict messages. All others
// run even when Redis is out of memory, since they must not stop half way: moving,
// acknowledging and removing frees more memory than it takes.
func grows(t *transition) { t.grows = true }

// script returns the transition of lua/NAME.lua. [Store.Observe] reports
// lua/repair/places.lua as repair-places.
func script(name string, options ...option) *transition {
	t := &transition{name: strings.ReplaceAll(name, "/", "-"), function: luaName(name)}
	for _, o := range options {
		o(t)
	}
	transitions[name] = t
	return t
}

// luaName returns the name of the transition of lua/NAME.lua in the library.
func luaName(name string) string { return strings.ReplaceAll(name, "/", "_") }

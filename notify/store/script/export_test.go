package script

import (
	"maps"
	"slices"
)

// Files are all files of the scripts.
var Files = luaFiles

// Modules returns the names of the modules in their order, and Transitions those of the transitions.
func Modules() []string     { return modules }
func Transitions() []string { return slices.Sorted(maps.Keys(transitions)) }

// Package environ reads an environment that is given as os.Environ gives that of the process:
// what runs with it can then be called many times in one process, each time with another.
package environ

import (
	"slices"
	"strings"
)

// Lookup returns the value of a variable, and whether it is in the environment. Of several values the last one counts,
// as for os/exec.
func Lookup(env []string, name string) (value string, set bool) {
	for _, variable := range env {
		if is, v, ok := strings.Cut(variable, "="); ok && is == name {
			value, set = v, true
		}
	}
	return value, set
}

// Get returns the value of a variable, and nothing if it is not in the environment.
func Get(env []string, name string) string {
	value, _ := Lookup(env, name)
	return value
}

// Without returns an environment without some variables.
func Without(env []string, names ...string) []string {
	rest := make([]string, 0, len(env))
	for _, variable := range env {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(names, name) {
			rest = append(rest, variable)
		}
	}
	return rest
}

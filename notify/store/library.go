package store

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A part is a function or a constant that scripts share.
type part struct {
	names []string
	text  string
	words []string // of its text
}

// rare are the functions that few calls come to. What only these use is defined
// within them.
var rare = []string{"bury", "measure_room", "undertaker"}

// isRare reports whether few calls come to a part.
func (p part) isRare() bool { return slices.Contains(rare, p.names[0]) }

// shared names the files of what scripts share, by what they do. A part uses only
// those before it.
var shared = []string{"base", "settings", "counters", "rings", "places", "leases", "messages", "dead", "logs", "look", "room", "repair"}

// library returns what scripts share: what makes names of the table, then the
// parts of the files in lua/shared.
var library = sync.OnceValue(func() (parts []part) {
	for _, r := range table {
		if source := r.source(); source != "" {
			parts = append(parts, partsOf(source)...)
		}
	}
	parts = append(parts, partsOf(luaSettings())...)
	for _, name := range shared {
		source, err := luaFiles.ReadFile("lua/shared/" + name + ".lua")
		if err != nil {
			panic(err) // it is part of the program
		}
		parts = append(parts, partsOf(writtenOut(string(source)))...)
	}
	return parts
})

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaString  = regexp.MustCompile(`'[^'\n]*'`)
	luaWord    = regexp.MustCompile(`[A-Za-z_]\w*`)
	luaLocal   = regexp.MustCompile(`^local (?:function )?(\w+(?:, \w+)*)`)
)

// wordsOf returns the words of a source that are neither in a comment nor in a string.
func wordsOf(source string) []string {
	return luaWord.FindAllString(luaString.ReplaceAllString(luaComment.ReplaceAllString(source, ""), "''"), -1)
}

var (
	luaFamily  = regexp.MustCompile(`\b(\w+_of)\((\w+)\)`)
	luaChannel = regexp.MustCompile(`\b[A-Z]+\b`)
)

// writtenOut returns a source in which names are written out that the table makes,
// such as ready_of(topic) and HEAD, and how settings are read: a function or a name in
// front of a script costs each call of it some 0.1 us.
func writtenOut(source string) string {
	families, channels := make(map[string]row), make(map[string]row)
	for _, r := range table {
		if r.of != "" {
			families[r.lua] = r
		} else if r.kind == kindChannel {
			channels[r.lua] = r
		}
	}
	source = settingsWrittenOut(source)
	source = luaFamily.ReplaceAllStringFunc(source, func(call string) string {
		found := luaFamily.FindStringSubmatch(call)
		if r, ok := families[found[1]]; ok {
			return "(" + r.begin() + " .. " + found[2] + ")"
		}
		return call
	})
	return luaChannel.ReplaceAllStringFunc(source, func(word string) string {
		if r, ok := channels[word]; ok {
			return "(" + r.begin() + ")"
		}
		return word
	})
}

// partsOf takes a file apart. A function ends on its first line or with the line
// that is end alone; a constant is one line. What else there is says why.
func partsOf(source string) (parts []part) {
	open := false
	for line := range strings.Lines(source) {
		names := luaLocal.FindStringSubmatch(line)
		switch {
		case open:
			parts[len(parts)-1].text += line
			open = line != "end\n"
		case names != nil:
			parts = append(parts, part{names: strings.Split(names[1], ", "), text: line})
			open = strings.HasPrefix(line, "local function ") && !strings.HasSuffix(line, " end\n")
		}
	}
	for i := range parts {
		parts[i].words = slices.Compact(slices.Sorted(slices.Values(wordsOf(parts[i].text))))
	}
	return parts
}

package store

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaWord    = regexp.MustCompile(`[A-Za-z_]\w*`)
	luaLocal   = regexp.MustCompile(`^local (?:function )?(\w+)`)
)

// A library is a prelude that is taken apart.
type library struct {
	head  string // in front of every script
	parts []part
}

// A part is a function or a constant that a script may use.
type part struct {
	name, text string
	words      []string // of its text
}

// shared is the library of prelude.lua.
var shared = sync.OnceValue(func() library { return split(prelude) })

// link returns a source behind what it uses of a library, at once or by what
// that uses: each function that a script defines costs each of its calls some
// 0.1 us.
func link(l library, source string) string {
	used := make(map[string]bool)
	add := func(words []string) {
		for _, word := range words {
			used[word] = true
		}
	}
	add(wordsOf(source))
	var needed []string
	for _, p := range slices.Backward(l.parts) { // a part uses only those before it
		if used[p.name] {
			add(p.words)
			needed = append(needed, p.text)
		}
	}
	slices.Reverse(needed)
	return l.head + strings.Join(needed, "") + source
}

// wordsOf returns the words of a source that are not in a comment.
func wordsOf(source string) []string {
	return luaWord.FindAllString(luaComment.ReplaceAllString(source, ""), -1)
}

// split takes a prelude apart. A function ends with the line that is end alone;
// a constant is one line.
func split(prelude string) (l library) {
	open := false
	for line := range strings.Lines(prelude) {
		name := luaLocal.FindStringSubmatch(line)
		isFunction := strings.HasPrefix(line, "local function ")
		switch {
		case open:
			l.parts[len(l.parts)-1].text += line
			open = line != "end\n"
		case name != nil && (isFunction || l.parts != nil):
			l.parts = append(l.parts, part{name: name[1], text: line})
			open = isFunction
		case l.parts == nil:
			l.head += line
		}
	}
	for i := range l.parts {
		l.parts[i].words = wordsOf(l.parts[i].text)
	}
	return l
}

package store

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	oldLuaComment = regexp.MustCompile(`--[^\n]*`)
	oldLuaWord    = regexp.MustCompile(`[A-Za-z_]\w*`)
	oldLuaLocal   = regexp.MustCompile(`^local (?:function )?(\w+)`)
)

// A oldLibrary is a prelude that is taken apart.
type oldLibrary struct {
	head  string // in front of every script
	parts []oldPart
}

// A oldPart is a function or a constant that a script may use.
type oldPart struct {
	name, text string
	words      []string // of its text
}

// oldShared is the oldLibrary of prelude.lua.
var oldShared = sync.OnceValue(func() oldLibrary { return oldSplit(prelude) })

// link returns a source behind what it uses of a oldLibrary, at once or by what
// that uses: each function that a script defines costs each of its calls some
// 0.1 us.
func oldLink(l oldLibrary, source string) string {
	used := make(map[string]bool)
	add := func(words []string) {
		for _, word := range words {
			used[word] = true
		}
	}
	add(oldWordsOf(source))
	var needed []string
	for _, p := range slices.Backward(l.parts) { // a oldPart uses only those before it
		if used[p.name] {
			add(p.words)
			needed = append(needed, p.text)
		}
	}
	slices.Reverse(needed)
	return l.head + strings.Join(needed, "") + source
}

// oldWordsOf returns the words of a source that are not in a comment.
func oldWordsOf(source string) []string {
	return oldLuaWord.FindAllString(oldLuaComment.ReplaceAllString(source, ""), -1)
}

// split takes a prelude apart. A function ends with the line that is end alone;
// a constant is one line.
func oldSplit(prelude string) (l oldLibrary) {
	open := false
	for line := range strings.Lines(prelude) {
		name := oldLuaLocal.FindStringSubmatch(line)
		isFunction := strings.HasPrefix(line, "local function ")
		switch {
		case open:
			l.parts[len(l.parts)-1].text += line
			open = line != "end\n"
		case name != nil && (isFunction || l.parts != nil):
			l.parts = append(l.parts, oldPart{name: name[1], text: line})
			open = isFunction
		case l.parts == nil:
			l.head += line
		}
	}
	for i := range l.parts {
		l.parts[i].words = oldWordsOf(l.parts[i].text)
	}
	return l
}

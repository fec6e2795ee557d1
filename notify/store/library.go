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
	words func() []string // of its text; few parts are in the scripts that a process runs
}

// rare are the functions that few calls reach. A part that only they use is defined
// inside them.
var rare = []string{"announce_death", "bury", "cause_of", "end_messages", "fate_of", "forget_ends", "measure_memory", "note_claim", "note_ends", "note_history", "note_published", "note_removed", "publish_heirs", "retire", "taker_of_shard", "undertaker", "use_up"}

// isRare reports whether few calls reach a part.
func (p part) isRare() bool { return slices.Contains(rare, p.names[0]) }

// shared are the names of the files in lua/shared. A part uses only parts before it.
var shared = []string{"base", "settings", "memory", "counters", "rings", "places", "leases", "messages", "extras", "ends", "handover", "dead", "endings", "fates", "attempts", "logs", "standbys", "history", "describe", "marks", "repair"}

// A variant is how scripts are linked: for a store of one shard, or of several, in a database of Redis.
type variant struct {
	sharded  bool
	database int
}

// eachVariant returns a function that makes a value for each variant once, when it is needed.
func eachVariant[T any](value func(variant) T) func(variant) T {
	once := func(v variant) func() T { return sync.OnceValue(func() T { return value(v) }) }
	one, several := once(variant{}), once(variant{sharded: true})
	var elsewhere sync.Map // functions by variants
	return func(v variant) T {
		switch v {
		case variant{}:
			return one()
		case variant{sharded: true}:
			return several()
		}
		found, there := elsewhere.Load(v)
		if !there {
			found, _ = elsewhere.LoadOrStore(v, once(v))
		}
		return found.(func() T)()
	}
}

// library returns all parts: the functions that make names of the table, the
// settings, then those of the files in lua/shared.
var library = eachVariant(func(v variant) (parts []part) {
	for _, r := range table {
		if source := r.source(); source != "" {
			parts = append(parts, partsOf(source)...)
		}
	}
	parts = append(parts, partsOf(luaSettings()+luaHandover())...)
	for _, name := range shared {
		source, err := luaFiles.ReadFile("lua/shared/" + name + ".lua")
		if err != nil {
			panic(err) // it is part of the program
		}
		parts = append(parts, partsOf(writtenOut(string(source), v))...)
	}
	return parts
})

// cutWord cuts a source around its first word. The word is empty if the source has
// none.
func cutWord(source string) (before, word, rest string) {
	from := strings.IndexFunc(source, isOfWord)
	if from < 0 {
		return source, "", ""
	}
	to := strings.IndexFunc(source[from:], func(r rune) bool { return !isOfWord(r) })
	if to < 0 {
		return source[:from], source[from:], ""
	}
	return source[:from], source[from : from+to], source[from+to:]
}

func isOfWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// wordsOf returns the words of a source, each once, without those in comments and
// strings.
func wordsOf(source string) (words []string) {
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, "--")
		for i, code := range strings.Split(line, "'") { // every second one is a string
			for _, word, rest := cutWord(code); i%2 == 0 && word != ""; _, word, rest = cutWord(rest) {
				words = append(words, word)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(words)))
}

// made are the rows of the table whose names are written out in scripts, by their
// name there: families and channels.
var made = sync.OnceValue(func() map[string]row {
	rows := make(map[string]row)
	for _, r := range table {
		if r.of != "" || r.kind == kindChannel {
			rows[r.lua] = r
		}
	}
	return rows
})

// choices match what scripts do if a store has several shards (SHARDED), or else; nothing
// where they do not say.
var choices = []*regexp.Regexp{
	regexp.MustCompile(`if SHARDED then (.*) else (.*) end`),
	regexp.MustCompile(`if SHARDED then (.*) end`),
	regexp.MustCompile(`SHARDED and (\S+) or ([^\s,)]+)`),
}

// writtenOut returns a source with its choices made, and names of the table, such as ready_of(topic) and
// HEAD, the database of a channel, and reads of settings replaced by their Lua: a function or a local in
// front of a script costs each of its calls some 0.1 us.
func writtenOut(source string, v variant) string {
	chosen := "${2}"
	if v.sharded {
		chosen = "${1}"
	}
	for _, choice := range choices {
		source = choice.ReplaceAllString(source, chosen)
	}
	var b strings.Builder
	for source != "" {
		before, word, rest := cutWord(source)
		b.WriteString(before)
		if r, ok := made()[word]; ok {
			word, rest = r.instead(word, rest)
		} else if word == "setting" {
			word, rest = readSetting(word, rest)
		} else if word == "in_database" { // in front of the name of a channel, in parentheses
			if word = ""; v.database != 0 {
				word = "'" + sharedBy(v.database) + "' .. "
			}
		}
		b.WriteString(word)
		source = rest
	}
	return b.String()
}

// instead returns the Lua that replaces word, the row's name, and the rest of the
// source behind that.
func (r row) instead(word, rest string) (text, behind string) {
	if r.of == "" {
		return "(" + r.begin() + ")", rest
	}
	before, of, behind := cutWord(rest)
	if before != "(" || !strings.HasPrefix(behind, ")") {
		return word, rest
	}
	return "(" + r.begin() + " .. " + of + ")", behind[1:]
}

var luaLocal = regexp.MustCompile(`^local (?:function )?(\w+(?:, \w+)*)`)

// partsOf cuts a file into its parts. A function ends on its first line, or with a
// line that is just "end"; a constant is one line. The rest are comments.
func partsOf(source string) (parts []part) {
	open := false
	for line := range strings.Lines(source) {
		if open {
			parts[len(parts)-1].text += line
			open = line != "end\n"
		} else if names := luaLocal.FindStringSubmatch(line); names != nil {
			parts = append(parts, part{names: strings.Split(names[1], ", "), text: line})
			open = strings.HasPrefix(line, "local function ") && !strings.HasSuffix(line, " end\n")
		}
	}
	for i, p := range parts {
		parts[i].words = sync.OnceValue(func() []string { return wordsOf(p.text) })
	}
	return parts
}

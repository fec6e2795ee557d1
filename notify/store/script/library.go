package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/record"
)

//go:embed lua
var luaFiles embed.FS

// modules are the files of lua/shared in their order: a module uses only those before it. Each is
// a table that is called as its file is, with a capital; the functions of base are in none.
var modules = []string{"base", "settings", "memory", "counters", "limits", "rings", "pauses", "places", "groups", "seats", "leases", "messages", "extras", "ends", "handover", "dead", "enter", "callbacks", "endings", "fates", "attempts", "batch", "conflicts", "schedules", "logs", "listeners", "standbys", "history", "describe", "scans", "marks", "repair", "move", "lapsed", "expired", "due", "broadcasts", "claim", "branches", "alarms", "beat", "carry", "shares", "take", "nack", "extend", "sweep", "find"}

// LibrariesAre is what the name of each library begins with. There is one for each version that works
// with a server.
const LibrariesAre = "bellhop_"

// A library is the text of all transitions, as Redis runs it.
type library struct {
	name  string // bellhop_HASH: in a server next to the libraries of other versions
	text  string // of FUNCTION LOAD
	parts []part

	// The same for a server that does not take the library: scripts that get the name of a
	// transition behind its arguments. plain is for the embedded trial server, which knows no flags.
	script, growing, plain *redis.Script
}

// A part is a file in the text of the library.
type part struct {
	file  string
	first int // the line of the text before that file's first line
}

// The second line of the text, for FUNCTION LOAD and of a script. A script makes ONLY the transition that
// it runs: to make all took a third of its time.
const (
	ofLibrary = "local LIBRARY, GIVEN, WITH, ONLY = '%s', nil, nil, nil\n"
	asScript  = "local LIBRARY, GIVEN, WITH, ONLY = nil, KEYS, ARGV, table.remove(ARGV)\n"
)

// definitions are what the packages that define transitions add to the text.
var definitions []string

// Define puts a definition in Lua, whole lines, in front of all modules.
func Define(lua string) { definitions = append(definitions, lua) }

// theLibrary returns the library. It is joined when a transition first runs, so that a program that
// runs none starts fast.
var theLibrary = sync.OnceValue(func() *library {
	body, parts := joined()
	unnamed := "#!lua name=" + LibrariesAre + "\n" + fmt.Sprintf(ofLibrary, LibrariesAre)
	l := &library{name: nameOf(unnamed + body), parts: parts}
	l.text = strings.ReplaceAll(unnamed, LibrariesAre, l.name) + body
	l.script = redis.NewScript("#!lua flags=allow-oom\n" + asScript + body)
	l.growing = redis.NewScript("#!lua\n" + asScript + body)
	l.plain = redis.NewScript("\n" + asScript + body)
	return l
})

// comment is a line that is one. It is left out: a server sends the text on each new connection.
var comment = regexp.MustCompile(`(?m)^[ \t]*--.*$`)

// joined returns the text of all modules and transitions behind its first two lines.
func joined() (string, []part) {
	var b strings.Builder
	var parts []part
	add := func(before, file, after string) {
		b.WriteString(before)
		parts = append(parts, part{file + ".lua", strings.Count(b.String(), "\n") + 2})
		b.WriteString(comment.ReplaceAllString(Source(file), ""))
		b.WriteString(after)
	}
	b.WriteString("local TRANSITIONS = {}\n" + luaNames() + strings.Join(definitions, "") +
		fmt.Sprintf("local UNCONFIRMED, SPARE = %d, %d\n", record.HandoverLease.Microseconds(), record.HandoverSpare.Microseconds()))
	for _, name := range modules {
		if name == "base" {
			add("", "shared/base", "")
			continue
		}
		add("local "+strings.ToUpper(name[:1])+name[1:]+" = {}\ndo\n", "shared/"+name, "end\n")
	}
	add("", "begin", "")
	names := slices.Sorted(maps.Keys(transitions))
	for _, name := range names {
		add(fmt.Sprintf("if not ONLY or ONLY == '%s' then TRANSITIONS['%[1]s'] = function()\n", luaName(name)), name, "end end\n")
	}
	b.WriteString("if GIVEN then return run(ONLY, GIVEN, WITH) end\n")
	for _, name := range names {
		flag := "'allow-oom'"
		switch t := transitions[name]; {
		case t.Grows:
			flag = "nil"
		case t.Looks:
			flag = "'no-writes'"
		}
		fmt.Fprintf(&b, "register('%s', %s)\n", luaName(name), flag)
	}
	b.WriteString("register_idle()\n")
	return b.String(), parts
}

// nameOf returns the name of the library of a text in which that is not filled in yet: the text's
// hash is part of it.
func nameOf(unnamed string) string {
	sum := sha1.Sum([]byte(unnamed))
	return LibrariesAre + hex.EncodeToString(sum[:8])
}

// IsLibrary reports whether a library of some version may have that name and that text: its name has
// the hash of the text.
func IsLibrary(name, text string) bool {
	return nameOf(strings.ReplaceAll(text, name, LibrariesAre)) == name
}

// LibraryName returns the name of the library in a server.
func LibraryName() string { return theLibrary().name }

// Source returns lua/NAME.lua, for a script that runs where there may be no store.
func Source(name string) string {
	source, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(source)
}

// LibraryText returns the text of the library, as FUNCTION LOAD gets it.
func LibraryText() string { return theLibrary().text }

// luaNames returns the variables of a call, and those and the functions that have the names of the
// table, see begin.lua.
func luaNames() string {
	once, values := []string{"BASE", "PREFIX", "SHARDED"}, []string{"base", "prefix", "sharded"}
	var families strings.Builder
	for _, r := range table {
		switch {
		case r.of != "":
			one := r.of
			if r.home {
				one = "string.match(topic, '^[^@]*')"
			}
			fmt.Fprintf(&families, "local function %s(%s) return %s .. '%s' .. %s end\n", r.lua, r.of, r.base(), r.name, one)
		case r.lua != "FORMAT":
			once, values = append(once, r.lua), append(values, fmt.Sprintf("%s .. '%s'", strings.ToLower(r.base()), r.name))
		}
	}
	list := func(names []string) string { return strings.Join(wrapped(strings.Join(names, ", "), textWidth), "\n") }
	return "local ARGV, KEY, call, current, FORMAT, LAYOUT, SHARE, AT, STORE, READ, USED\n" +
		"local " + list(once) + "\n" +
		"local function names_under(base, prefix, sharded) return { " + list(values) + " } end\n" +
		fmt.Sprintf("local function set_names(names) %s = unpack(names, 1, %d) end\n", list(once), len(once)) +
		families.String()
}

var lineInLibrary = regexp.MustCompile(`@?user_(?:function|script): ?(\d+)`)

// Located returns an error of the library with the file and the line in place of the line of its text.
func Located(err error) error {
	var known redis.Error
	if !errors.As(err, &known) || !strings.Contains(err.Error(), "user_") {
		return err
	}
	text := lineInLibrary.ReplaceAllStringFunc(err.Error(), func(found string) string {
		line, _ := strconv.Atoi(lineInLibrary.FindStringSubmatch(found)[1])
		for _, p := range slices.Backward(theLibrary().parts) {
			if line > p.first {
				return fmt.Sprintf("%s:%d", p.file, line-p.first)
			}
		}
		return found
	})
	return locatedError{known, text}
}

// A locatedError is an error of Redis that names a place in a module.
type locatedError struct {
	reply redis.Error
	text  string
}

func (e locatedError) Error() string { return e.text }

// RedisError marks it as an answer of Redis.
func (e locatedError) RedisError() {}

func (e locatedError) Unwrap() error { return e.reply }

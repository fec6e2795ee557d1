package store

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scripts calls f with the name and the source of each script that is linked.
func scripts(t *testing.T, f func(name, source string)) {
	t.Helper()
	n := 0
	err := fs.WalkDir(luaFiles, "lua", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "lua/shared/") || alone[path] {
			return err
		}
		n++
		source, err := luaFiles.ReadFile(path)
		f(strings.TrimSuffix(strings.TrimPrefix(path, "lua/"), ".lua"), string(source))
		return err
	})
	if err != nil || n == 0 {
		t.Fatalf("%d scripts, %v", n, err)
	}
}

// alone are the scripts that are not linked: they run before there is a store.
var alone = map[string]bool{"lua/found.lua": true, "lua/rehearse.lua": true}

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaString  = regexp.MustCompile(`'[^'\n]*'`)
)

// Shared functions have unique names: a local of the same name would link
// the shared one, and hide it.
func TestNothingHidesWhatScriptsShare(t *testing.T) {
	names := make(map[string]bool)
	for _, r := range table {
		if r.isGiven() {
			names[r.lua] = true
		}
	}
	for _, p := range library(variant{}) {
		for _, name := range p.names {
			if names[name] {
				t.Errorf("%s is shared twice", name)
			}
			names[name] = true
		}
	}
	local := regexp.MustCompile(`\blocal (?:function )?([\w, ]+)|\bfunction \w*\(([\w, ]+)\)|\bfor ([\w, ]+) (?:in|=)`)
	scripts(t, func(script, source string) {
		source = luaString.ReplaceAllString(luaComment.ReplaceAllString(source, ""), "''")
		for _, found := range local.FindAllStringSubmatch(source, -1) {
			for _, name := range strings.FieldsFunc(found[1]+","+found[2]+","+found[3], func(r rune) bool { return r == ',' || r == ' ' }) {
				if names[name] {
					t.Errorf("%s has its own %s, which is shared", script, name)
				}
			}
		}
	})
}

// Only the table has names of keys; scripts name its rows.
func TestScriptsNameNoKey(t *testing.T) {
	raw := regexp.MustCompile(`KEYS\[|\bBASE\b|\bPREFIX\b|\w_\b`)
	scripts(t, func(script, source string) {
		if found := raw.FindAllString(luaString.ReplaceAllString(luaComment.ReplaceAllString(source, ""), "''"), -1); found != nil {
			t.Errorf("%s names %q", script, found)
		}
	})
}

// Scripts read only settings that exist: reads of others are not written out.
func TestScriptsReadSettings(t *testing.T) {
	scripts(t, func(script, source string) {
		if slices.Contains(wordsOf(writtenOut(source, variant{})), "setting") {
			t.Errorf("%s reads what is no setting", script)
		}
	})
}

// Names of the table are written out if they are whole words, and families if they are called with a name.
func TestWrittenOut(t *testing.T) {
	for source, want := range map[string]string{
		"tell(HEAD, text(due))":                  "tell((BASE .. 'head'), text(due))",
		"call('GET', ready_of(topic))":           "call('GET', (BASE .. 'ready:' .. topic))",
		"tell(wake_of(topic), n)":                "tell((PREFIX .. 'wake:' .. topic), n)",
		"ready_of(ended[i]) + AHEAD":             "ready_of(ended[i]) + AHEAD",
		"local of = ready_of, unready_of(topic)": "local of = ready_of, unready_of(topic)",
		"setting('lease', own, nil)":             "(own and in_range(string.match(own, ' lease=(%S+)'), 100, 86400000) or nil and in_range(string.match(nil, ' lease=(%S+)'), 100, 86400000) or 30000)",
		"-- setting('NAME', of, all) and so on":  "-- setting('NAME', of, all) and so on",
		"":                                       "",
	} {
		if got := writtenOut(source, variant{}); got != want {
			t.Errorf("%q is %q, want %q", source, got, want)
		}
	}
}

// Words in comments and strings do not count, and each word comes once.
func TestWordsOf(t *testing.T) {
	got := wordsOf("local a_1 = 'no' .. b('nor') .. a_1 -- it's none\nreturn b\n")
	if want := []string{"a_1", "b", "local", "return"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Parts that only a rare function uses are moved inside it, and parts that others use, too, are not. So are the names of keys.
func TestWithin(t *testing.T) {
	parts := partsOf(`
local ONE = 1
local function shared() return LEASED end
local function inner() return shared() + TAKEN end
local function bury()
  return inner() + ONE
end
local function often()
  return shared()
end
`)
	var got strings.Builder
	moved, inside := within(parts, []string{"bury", "often"})
	for _, p := range moved {
		got.WriteString(p.text)
	}
	const want = `local function shared() return LEASED end
local function bury()
local BASE = string.sub(KEYS[1], 1, -7)
local TAKEN = BASE .. 'taken'
local ONE = 1
local function inner() return shared() + TAKEN end
  return inner() + ONE
end
local function often()
  return shared()
end
`
	if got.String() != want || !inside["TAKEN"] || inside["LEASED"] {
		t.Errorf("inside are %v of %s", inside, got.String())
	}
}

// Every function that is named as rare exists.
func TestRareParts(t *testing.T) {
	found := 0
	for _, p := range library(variant{}) {
		if p.isRare() {
			found++
		}
	}
	if found != len(rare) {
		t.Errorf("%d of %q are shared", found, rare)
	}
}

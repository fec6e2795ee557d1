package script_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	_ "github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaString  = regexp.MustCompile(`'[^'\n]*'`)
)

// sources returns the modules and the transitions by their files, in the order of the library, without comments and with empty strings.
func sources() (files []string, code map[string]string) {
	code = make(map[string]string)
	for _, name := range script.Modules() {
		files = append(files, "shared/"+name)
	}
	files = append(append(files, "begin"), script.Transitions()...)
	for _, file := range files {
		code[file] = luaString.ReplaceAllString(luaComment.ReplaceAllString(script.Source(file), ""), "''")
	}
	return files, code
}

// Each file is a module or a transition. A module uses what those before it define, so no two need each other, and everything that is
// used is there: luacheck does not see which fields a table has.
func TestModulesUseWhatIsBeforeThem(t *testing.T) {
	t.Parallel()
	files, code := sources()
	defined := make(map[string]bool)
	definition := regexp.MustCompile(`(?m)^(?:function ([A-Z][a-z]+\.\w+)\(|([A-Z][a-z]+\.\w+) = )`)
	use := regexp.MustCompile(`\b[A-Z][a-z]+\.\w+`)
	for _, file := range files {
		own := definition.FindAllStringSubmatch(code[file], -1)
		for _, found := range own {
			name := found[1] + found[2]
			if defined[name] {
				t.Errorf("%s defines %s again", file, name)
			}
			defined[name] = true
		}
		for _, used := range use.FindAllString(code[file], -1) {
			if !defined[used] {
				t.Errorf("%s uses %s, which nothing before it defines", file, used)
			}
		}
	}
	if len(defined) < 100 {
		t.Errorf("%d names were found", len(defined))
	}
	there, err := fs.Glob(script.Files, "lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	more, err := fs.Glob(script.Files, "lua/*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(there, more...) {
		file := strings.TrimSuffix(strings.TrimPrefix(path, "lua/"), ".lua")
		if code[file] == "" && file != "found" && file != "rehearse" { // these two run before there is a store
			t.Errorf("%s is in no library", path)
		}
	}
}

// Only the table has names of keys.
func TestScriptsNameNoKey(t *testing.T) {
	t.Parallel()
	files, code := sources()
	raw := regexp.MustCompile(`KEYS\b|\bkeys\[|\bPREFIX\b|\bBASE\s*\.\.|\w_\b`)
	for _, file := range files {
		if found := raw.FindAllString(code[file], -1); found != nil && file != "begin" {
			t.Errorf("%s names %q", file, found)
		}
	}
}

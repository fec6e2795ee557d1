package script

import (
	_ "embed"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notOne are the methods of Keys that do not return the name of one key or channel.
var notOne = map[string]bool{"Prefix": true, "Base": true, "Tag": true, "Place": true, "WakesOf": true}

// Each method of Keys returns the name of one row of the table, and each row has a method.
func TestEachRowHasAMethod(t *testing.T) {
	keys := NewKeys("p", "0")
	methods := make(map[string]string) // by the name that they make
	all := reflect.ValueOf(keys)
	for i := range all.NumMethod() {
		if name := all.Type().Method(i).Name; !notOne[name] && all.Type().Method(i).Type.Out(0).Kind() == reflect.String {
			made := all.Method(i).Call(sevens(all.Method(i).Type()))[0].String()
			if other := methods[made]; other != "" {
				t.Errorf("%s and %s make the same name, %s", other, name, made)
			}
			methods[made] = name
		}
	}
	for _, r := range table {
		one := ""
		if r.of != "" {
			one = "7"
		}
		name := keys.name(r, one)
		if methods[name] == "" {
			t.Errorf("no method makes %s, of %s", name, r.lua)
		}
		delete(methods, name)
	}
	for name, method := range methods {
		t.Errorf("%s makes %s, which is not in the table", method, name)
	}
}

// Only names of families end with a colon: the rest of a key behind its first colon says which one of the family it is.
func TestFamiliesEndWithAColon(t *testing.T) {
	keys := make(map[string]bool)
	for _, r := range table {
		colon, last := strings.Index(r.name, ":"), len(r.name)-1
		if r.of == "" && colon >= 0 || r.of != "" && colon != last {
			t.Errorf("%s is called %q, and there is one of each %q", r.lua, r.name, r.of)
		}
		if r.kind != kindChannel && keys[r.name] {
			t.Errorf("two keys are called %q", r.name)
		}
		keys[r.name] = keys[r.name] || r.kind != kindChannel
	}
}

//go:embed doc.go
var documentation string

// The documentation of the package has the current table: make generate writes it.
func TestDocHasTheTable(t *testing.T) {
	_, keys, _ := strings.Cut(documentation, "// # Keys\n")
	keys, _, _ = strings.Cut(keys, "package script\n")
	got := ""
	for line := range strings.Lines(keys) {
		if row, ok := strings.CutPrefix(line, "//\t"); ok {
			got += row
		}
	}
	if diff := cmp.Diff(KeyTable(), got); diff != "" {
		t.Errorf("run make generate (-table +doc.go):\n%s", diff)
	}
}

// sevens returns arguments of a function that are 7, as a number or as text.
func sevens(f reflect.Type) (args []reflect.Value) {
	for i := range f.NumIn() {
		if f.In(i).Kind() == reflect.Int {
			args = append(args, reflect.ValueOf(7))
		} else {
			args = append(args, reflect.ValueOf("7"))
		}
	}
	return args
}

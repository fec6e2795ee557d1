package store

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// formats has a line for each name of what a store may hold: the format that began with it, its kind, and the name.
//
//go:embed testdata/formats.txt
var formats string

// What a store may hold only grows, by a format: a name that is gone would be misread in a store that has it, and one that is new by a program of the
// version before. A new name gets a line with the number of a format that no release has yet, and the way to it asks for that format; no other
// line is changed.
func TestFormatsOnlyGrow(t *testing.T) {
	var written []string
	for line := range strings.Lines(formats) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(number); err != nil || n > reach.Newest().Number {
			t.Errorf("%q: no version has such a format yet", line)
		}
		written = append(written, name)
	}
	table := strings.Join(strings.Fields(script.KeyTable()), " ")
	for n := reach.Newest().Number; n > 9; n-- {
		if said, has := strings.Count(table, fmt.Sprintf("; from format %d on", n)), strings.Count(formats, fmt.Sprintf("%d key ", n)); said != has {
			t.Errorf("format %d brings %d keys, and the table says so of %d", n, has, said)
		}
	}
	found := held(t)
	for _, name := range found {
		if !slices.Contains(written, name) {
			t.Errorf("%s: a store may hold that, and no format in testdata/formats.txt does", name)
		}
	}
	for _, name := range written {
		if !slices.Contains(found, name) {
			t.Errorf("%s: a store of a format in testdata/formats.txt may hold that, and this version knows it no more", name)
		}
	}
}

// held returns the kinds and names of what a store may hold, as the library and the types have them.
func held(t *testing.T) (all []string) {
	t.Helper()
	add := func(kind string, names ...string) {
		if len(names) < 5 {
			t.Errorf("only these are found of the kind %s: %q", kind, names)
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			all = append(all, kind+" "+name)
		}
	}
	text := strings.ReplaceAll(script.LibraryText(), "\n", " ")
	find := func(pattern string) (names []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		return names
	}
	add("key", find(`(?i)\b(?:base|prefix) *\.\. *'([a-z:-]+)'`)...)
	add("setting", find(`SETTINGS\.(\w+) = SETTINGS`)...)
	add("counter", append(find(`Counters\.count\([^()]*, '(\w+)'`), find(`Counters\.count_all\('(\w+)'`)...)...)
	add("extra", append(find(`put_extra\(\w+, '(\w+)'`), find(`' (\w+)='`)...)...)
	add("record", membersOf(t)...)
	add("rule", tagsOf(reflect.TypeFor[rule]())...)
	add("push", tagsOf(reflect.TypeFor[Push]())...)
	return all
}

// membersOf returns the names in the object of a record that has all there is.
func membersOf(t *testing.T) (names []string) {
	t.Helper()
	now := time.UnixMilli(1)
	r := record.Record{
		Published: now, FirstDue: now, Key: "k", IfBusy: "drop", Group: "g", AfterGroup: "t:g", OnDead: "go", ContentType: "text/plain", Headers: map[string]string{"a": "b"}, TTL: time.Second, MaxAttempts: 1,
		Lease: time.Second, TryTimeout: time.Second, UniqueFor: time.Second, Fail: record.FailDrop, LateAfter: time.Second, Late: record.LateDrop, Broadcast: true, Body: []byte("x"),
	}
	for field, value := range reflect.ValueOf(r).Fields() {
		if value.IsZero() {
			t.Errorf("give the record something in %s", field.Name)
		}
	}
	tail, err := r.EncodeTail()
	if err != nil {
		t.Fatal(err)
	}
	object, _, _ := strings.Cut(tail, "\n")
	var members map[string]any
	if err := json.Unmarshal([]byte(object[strings.IndexByte(object, '{'):]), &members); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", object, err))
	}
	for name := range members {
		names = append(names, name)
	}
	return names
}

// tagsOf returns the names that JSON has of a type.
func tagsOf(t reflect.Type) (names []string) {
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// Package fields reads fields that are given as text. The tags of a struct describe
// each field once, so HTTP, NATS, lines of JSON and flags accept the same values, and
// refuse others with the same sentence.
package fields

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// A Field describes a field of a struct that is given as text: over HTTP, over NATS,
// in a line of JSON or as a flag. These tags of the struct describe it, also for the
// OpenAPI document:
//
//   - doc and example
//   - is: the name of a text's grammar; or pattern, a regular expression, and words that say it; or all, where others read these
//   - maxLength and enum of a text, and or: what else can be done where it is none of these
//   - minimum and maximum of a number
//   - shortest and longest of a duration
//   - without: another field that excludes this one
//   - of: "message" if broadcasts do not have the field
//   - zone: of a time, the field of the zone that one without an offset is of
type Field struct {
	Index   []int
	Name    string
	Without string
	Doc     string
	Example string
	Of      string
	Zone    string
	grammar func(text string) error // of a text; nil: none
	number  bool
	truth   bool // it is true or false
	list    bool
	lasts   bool // it is a duration
	lenient bool
	zero    bool
	limits
}

// In returns the named fields of a struct T: those with a tag field. All callers share
// the slice, so none changes it.
func In[T any]() []Field {
	of := reflect.TypeFor[T]()
	known, ok := described.Load(of)
	if !ok {
		var all []Field
		for _, field := range reflect.VisibleFields(of) { // also of what is embedded
			if name := field.Tag.Get("field"); name != "" {
				all = append(all, Of(name, field))
			}
		}
		known, _ = described.LoadOrStore(of, all)
	}
	return known.([]Field)
}

var described sync.Map // []Field of a reflect.Type

// Named returns the field of a struct T that has a name; false: none has.
func Named[T any](name string) (Field, bool) {
	all := In[T]()
	if i := slices.IndexFunc(all, func(f Field) bool { return f.Name == name }); i >= 0 {
		return all[i], true
	}
	return Field{}, false
}

// Names returns the names of the fields of a struct T.
func Names[T any]() (names []string) {
	for _, f := range In[T]() {
		names = append(names, f.Name)
	}
	return names
}

// Of returns the description in the tags of a field.
func Of(name string, field reflect.StructField) Field {
	get, of := field.Tag.Get, field.Type
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return Field{
		Index: field.Index, Name: name, Without: get("without"), Doc: get("doc"), Example: get("example"),
		Of: get("of"), Zone: get("zone"), grammar: grammarOf(name, field.Tag), limits: limitsOf(field),
		number: of.Kind() == reflect.Int || of == reflect.TypeFor[int64](), truth: of.Kind() == reflect.Bool, list: of.Kind() == reflect.Slice,
		lasts: of == reflect.TypeFor[time.Duration](),
	}
}

// grammarOf returns what checks a text besides its limits; nil: nothing does.
func grammarOf(name string, tag reflect.StructTag) func(text string) error {
	words := tag.Get("words")
	if is := tag.Get("is"); words == "" || is != "" {
		return grammars[is]
	}
	pattern := regexp.MustCompile(tag.Get("pattern"))
	most, _ := strconv.Atoi(tag.Get("maxLength"))
	return func(text string) error {
		if len(text) > most || !pattern.MatchString(text) {
			return fault.New(name, "%s %.100q: use %s, at most %d bytes", name, text, words, most)
		}
		return nil
	}
}

// grammars are the values of the tag is; each reports what is wrong with a text.
var grammars = map[string]func(text string) error{
	"topic": record.CheckTopic, "any topic": record.CheckAnyTopic, "topic or *": record.CheckTopicOrAll, "id": record.CheckID, "media type": record.CheckContentType,
	"topics": func(text string) error { return record.CheckTopics(strings.Split(text, ",")) },
	"pattern": func(text string) error {
		_, err := record.ParsePattern(text)
		return err
	},
	"listener": record.CheckListener, "branches": record.CheckBranches,
	"cursor of listeners": func(text string) error {
		if record.CheckListener(text) != nil {
			return fault.New("cursor", "cursor %.200q: use the cursor of the page before, or none", text)
		}
		return nil
	},
	"schedule": record.CheckScheduleName, "group": func(text string) error {
		_, _, err := record.SplitGroup(text)
		return err
	},
	"zone": func(text string) error {
		_, err := calendar.Zone(text)
		return err
	},
	"header": checkHeader, "cursor": checkCursor, "worker": func(text string) error { return record.CheckWorker("worker", text) },
}

// checkHeader returns a Fault for a text that is no NAME:VALUE of a header.
func checkHeader(text string) error {
	name, value, whole := strings.Cut(text, ":")
	if err := record.CheckHeaders(map[string]string{name: value}); err != nil || !whole {
		return fault.New("header", "header %.100q: write NAME:VALUE, such as Tenant:acme", text)
	}
	return nil
}

const maxCursor = 4096 // bytes

var cursorGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// checkCursor returns a Fault for a text that no page has as its cursor.
func checkCursor(text string) error {
	if len(text) > maxCursor || !cursorGrammar.MatchString(text) {
		return fault.New("cursor", "cursor %.100q: use the cursor of the page before, or none", text)
	}
	return nil
}

// Set reads a text into the field of a struct. Of a pointer it sets a new value. The
// error is a fault.Fault if the text cannot be read or is outside the limits.
func (f Field) Set(of reflect.Value, text string) error {
	field := of.FieldByIndex(f.Index)
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	if field.Kind() == reflect.String {
		field.SetString(text)
		return f.text(text)
	}
	switch into := field.Addr().Interface().(type) {
	case *int:
		n, err := f.whole(text, strconv.IntSize)
		*into = int(n)
		return err
	case *int64:
		n, err := f.whole(text, 64)
		*into = n
		return err
	case *bool:
		*into = text == "true"
		if text != "true" && text != "false" {
			return fault.New(f.Name, "%s %.100q: write true or false", f.Name, text)
		}
		return nil
	case *record.Rate:
		r, err := record.ParseRate(f.Name, text)
		*into = r
		return err
	case *time.Duration:
		d, err := f.duration(text)
		*into = d
		return err
	case *Moment:
		m, err := ParseMoment(f.Name, text)
		*into = m
		return err
	case *time.Time:
		t, err := f.time(text)
		*into = t
		return err
	case *[]string: // each text is one more
		*into = append(*into, text)
		return nil
	case *[]time.Time:
		t, err := f.time(text)
		*into = append(*into, t)
		return err
	}
	return fmt.Errorf("field %s: its type cannot be read", f.Name)
}

// TextIn returns the value of a member of a JSON object as text: a number, or true or false, for a field that is one, else that of a string. Null is
// an empty text. The error is a strictjson.Error.
func (f Field) TextIn(m strictjson.Member) ([]byte, error) {
	switch {
	case m.IsNull():
		return nil, nil
	case f.number:
		return m.Number()
	case f.truth:
		return m.Bool()
	}
	return m.Text()
}

// TextsIn is TextIn for a field that may be a list: none for null. The error has an example, too.
func (f Field) TextsIn(m strictjson.Member) (texts []string, err error) {
	switch {
	case m.IsNull():
		return nil, nil
	case f.list:
		texts, err = m.List()
	default:
		text, bad := f.TextIn(m)
		texts, err = []string{string(text)}, bad
	}
	if err != nil {
		err = fmt.Errorf("%w, such as %s", err, f.inJSON(f.Example))
	}
	return texts, err
}

// inJSON returns a text that TextsIn reads as JSON.
func (f Field) inJSON(text string) string {
	switch {
	case f.number || f.truth:
		return text
	case f.list:
		return fmt.Sprintf("[%q]", text)
	}
	return strconv.Quote(text)
}

// Lenient returns the field without limits of numbers and durations, for a caller that
// passes the struct on to a function that checks them.
func (f Field) Lenient() Field {
	f.lenient = true
	return f
}

// OrZero returns the field with zero allowed for a number or a duration, for a caller
// to whom zero means none.
func (f Field) OrZero() Field {
	f.zero = true
	return f
}

// IsNumber reports whether the field is a whole number, which JSON writes without quotes.
func (f Field) IsNumber() bool { return f.number }

// IsTruth reports whether the field is true or false.
func (f Field) IsTruth() bool { return f.truth }

// IsList reports whether the field is a list, to which Set adds.
func (f Field) IsList() bool { return f.list }

// Enum returns the texts of which the field is one; nil: it may be any.
func (f Field) Enum() []string { return f.enum }

// Range returns the least and the greatest value of the field as a whole number: of a duration
// in milliseconds, of a text its place in Enum, and 1 for true.
func (f Field) Range() (least, most int64) {
	switch {
	case f.lasts:
		return f.shortest.Milliseconds(), f.longest.Milliseconds()
	case f.truth:
		return 0, 1
	case f.enum != nil:
		return 0, int64(len(f.enum)) - 1
	}
	return f.min, f.max
}

// limits is the range of values that the tags allow.
type limits struct {
	min, max          int64
	shortest, longest time.Duration
	maxLength         int
	enum              []string
	or                string // what else can be done, for whoever uses another name
}

// limitsOf returns the limits in a field's tags. It panics if a tag cannot be read,
// which any test shows.
func limitsOf(field reflect.StructField) limits {
	number := func(tag string, fallback int64) int64 {
		n, err := strconv.ParseInt(cmp.Or(field.Tag.Get(tag), strconv.FormatInt(fallback, 10)), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("tag %s of %s: %v", tag, field.Name, err))
		}
		return n
	}
	duration := func(tag string, fallback time.Duration) time.Duration {
		d, err := time.ParseDuration(cmp.Or(field.Tag.Get(tag), fallback.String()))
		if err != nil {
			panic(fmt.Sprintf("tag %s of %s: %v", tag, field.Name, err))
		}
		return d
	}
	l := limits{
		min: number("minimum", math.MinInt64), max: number("maximum", math.MaxInt64),
		shortest: duration("shortest", math.MinInt64), longest: duration("longest", math.MaxInt64),
		maxLength: int(number("maxLength", math.MaxInt32)),
	}
	if names := field.Tag.Get("enum"); names != "" {
		l.enum = strings.Split(names, ",")
		if or := field.Tag.Get("or"); or != "" {
			l.or = ", or " + or
		}
	}
	return l
}

// text reports what is wrong with a text.
func (f *Field) text(text string) error {
	switch {
	case f.grammar != nil: // its error is more precise
		return f.grammar(text)
	case len(text) > f.maxLength:
		return fault.New(f.Name, "%s: %d bytes; at most %d are allowed", f.Name, len(text), f.maxLength)
	case f.enum != nil && !slices.Contains(f.enum, text):
		return fault.New(f.Name, "%s %.100q: use %s%s", f.Name, text, strings.Join(f.enum, ", "), f.or)
	}
	return nil
}

// whole reads a whole number within the limits.
func (f *Field) whole(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err == nil && (f.lenient || f.zero && n == 0 || f.between(n) == nil) {
		return n, nil
	}
	return 0, fault.New(f.Name, "%s %.100q: write a whole number%s", f.Name, text, f.bounds())
}

// between reports whether a number is outside the limits.
func (f *Field) between(n int64) error {
	if f.max == math.MaxInt64 && n < f.min {
		return fault.New(f.Name, "%s %d: use %d or more", f.Name, n, f.min)
	}
	return fault.Within(f.Name, f.Name, n, f.min, f.max)
}

// bounds returns the limits of a number, to be said behind it.
func (f *Field) bounds() string {
	switch {
	case f.max < math.MaxInt64:
		return fmt.Sprintf(" from %d to %d", f.min, f.max)
	case f.min > math.MinInt64:
		return fmt.Sprintf(", %d or more", f.min)
	}
	return ""
}

// duration reads a duration within the limits.
func (f *Field) duration(text string) (time.Duration, error) {
	d, err := ParseDuration(f.Name, text)
	if err != nil || f.lenient || f.zero && d == 0 {
		return d, err
	}
	if err := f.within(d); err != nil {
		return 0, err
	}
	return d, nil
}

// within reports whether a duration is outside the limits.
func (f *Field) within(d time.Duration) error {
	switch {
	case d >= f.shortest, f.longest < math.MaxInt64:
		return fault.Within(f.Name, f.Name, d, f.shortest, f.longest)
	case f.shortest == 0:
		return fault.New(f.Name, "%s %v: it is negative; use zero or more", f.Name, d)
	}
	return fault.New(f.Name, "%s %v: use %v or more", f.Name, fault.Short(d), f.shortest)
}

// time reads a due time.
func (f *Field) time(text string) (time.Time, error) {
	t, err := ParseTime(f.Name, text)
	if f.Zone != "" {
		t, err = parseLocal(f.Name, text)
	}
	if err == nil {
		err = f.from1970(t)
	}
	return t, err
}

// from1970 reports whether a time is before 1970, or past the year 9999.
func (f *Field) from1970(t time.Time) error {
	switch {
	case t.Before(time.UnixMilli(0)):
		return fault.New(f.Name, "%s %s: it is before 1970", f.Name, t.Format(time.RFC3339))
	case t.After(record.MaxDue):
		return fault.New(f.Name, "%s %s: it is past the year 9999", f.Name, t.Format(time.RFC3339))
	}
	return nil
}

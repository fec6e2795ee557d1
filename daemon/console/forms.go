package console

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// An input is a field of a form, made of the description of a field of a struct.
type input struct {
	fields.Field
	ID    string // and its name in the form
	Value string // that stands in it
	None  string // what holds where nothing does; empty: its description says so
	Wrong bool   // what was typed is refused
}

// inputs are some inputs of a form, in a table.
type inputs struct {
	Label string
	All   []input
	Folds bool // until one of them says something
}

// Open reports whether one of the inputs says something.
func (i inputs) Open() bool {
	return slices.ContainsFunc(i.All, func(one input) bool { return one.Value != "" || one.Wrong })
}

// inputOf returns the input of a field. Wrong are the fields that were refused.
func inputOf(f fields.Field, id, value string, wrong []string) input {
	return input{Field: f, ID: id, Value: value, Wrong: slices.Contains(wrong, f.Name)}
}

// inputsOf returns the inputs of fields with what was typed.
func (v *visit) inputsOf(of []fields.Field) (all []input) {
	for _, f := range of {
		all = append(all, inputOf(f, f.Name, v.Written(f.Name), v.wrong))
	}
	return all
}

// Choices returns the values that the field may have; nil: it is typed.
func (i input) Choices() []string {
	if i.IsTruth() {
		return []string{"true", "false"}
	}
	return i.Enum()
}

// Lines returns how many lines of text the field shows; 0: it is one line.
func (i input) Lines() int { return map[string]int{"body": 6, "body_base64": 6, "headers": 2}[i.Name] }

// IsSecret reports whether nobody who looks on is to read the field.
func (i input) IsSecret() bool { return i.Name == "secrets" }

// typedOf returns a value as one types it; empty for none.
func typedOf(value reflect.Value) string {
	switch of := value.Interface().(type) {
	case time.Duration:
		if of != 0 {
			return fault.Short(of)
		}
	case time.Time:
		if !of.IsZero() {
			return of.UTC().Format(time.RFC3339Nano)
		}
	case []time.Time:
		texts := make([]string, len(of))
		for i, one := range of {
			texts[i] = typedOf(reflect.ValueOf(one))
		}
		return strings.Join(texts, " ")
	case []string:
		return strings.Join(of, " ")
	default:
		if !value.IsZero() {
			return fmt.Sprint(of)
		}
	}
	return ""
}

// read sets fields of a struct to what was typed; empty is none. In a list values stand with blanks or commas between them. The error joins a
// Fault for each field that cannot be read.
func (v *visit) read(all []fields.Field, into reflect.Value) error {
	var faults []error
	for _, f := range all {
		texts := []string{v.typed(f.Name)}
		if f.IsList() {
			texts = strings.FieldsFunc(texts[0], func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		}
		for _, text := range texts {
			if text == "" {
				continue
			}
			if f.Without != "" && v.typed(f.Without) != "" {
				faults = append(faults, fault.New(f.Name, "%s and %s: both are given; give one of them", f.Without, f.Name))
			}
			faults = append(faults, f.Set(into, text))
		}
	}
	return errors.Join(faults...)
}

// seen returns the values that the page with the form showed, by the names of its fields.
func (v *visit) seen() url.Values {
	seen, _ := url.ParseQuery(v.r.PostForm.Get("seen")) // what cannot be read was on no page
	return seen
}

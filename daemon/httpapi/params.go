package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

// A param is a parameter of a request: a field of an operation's input that has
// one of the tags path, query and header. The same tags make the OpenAPI document.
type param struct {
	index    []int
	in, name string
	required bool
	is       string // grammar of a text: topic, pattern or id; empty: any
	fallback string // value where none is given
}

// paramsOf returns the parameters of an input.
func paramsOf(input reflect.Type) []param {
	var all []param
	for _, field := range reflect.VisibleFields(input) {
		for _, in := range []string{"path", "query", "header"} {
			if name := field.Tag.Get(in); name != "" {
				all = append(all, param{field.Index, in, name, in == "path" || field.Tag.Get("required") == "true", field.Tag.Get("is"), field.Tag.Get("default")})
			}
		}
	}
	return all
}

// readParams reads the parameters of a request into an input, and tells all that is wrong.
func readParams(r *http.Request, params []param, input reflect.Value) error {
	query, faults := readQuery(r.URL.RawQuery, params)
	for _, p := range params {
		text, given := "", false
		switch p.in {
		case "path":
			text, given = r.PathValue(p.name), true
		case "query":
			text, given = query[p.name]
		case "header":
			values := r.Header.Values(p.name)
			if len(values) > 1 {
				faults = append(faults, p.fault("it is given twice; give it once"))
				continue
			}
			text, given = r.Header.Get(p.name), len(values) == 1 && values[0] != ""
		}
		if !given {
			text = p.fallback
		}
		if text == "" && !given {
			if p.required {
				faults = append(faults, p.fault("it is missing"))
			}
			continue
		}
		if err := p.set(input.FieldByIndex(p.index), text); err != nil {
			faults = append(faults, api.Fault{In: p.in, Name: p.name, Err: err})
		}
	}
	return errors.Join(faults...)
}

// fault is what is wrong with how a parameter is given.
func (p param) fault(text string) error {
	return api.Fault{In: p.in, Name: p.name, Err: fmt.Errorf("%w parameter %.100q: %s", notify.ErrInvalid, p.name, text)}
}

// readQuery takes a query apart. It is stricter than url.ParseQuery: what is
// unknown, empty, given twice or not text is a fault.
func readQuery(raw string, params []param) (map[string]string, []error) {
	if raw == "" {
		return nil, nil
	}
	var faults []error
	values := make(map[string]string)
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, errName := url.QueryUnescape(rawName)
		value, errValue := url.QueryUnescape(rawValue)
		p := param{in: "query", name: strings.ToValidUTF8(name, "�")}
		_, twice := values[name]
		switch {
		case errName != nil:
			faults = append(faults, api.Fault{In: "query", Name: "query", Err: fmt.Errorf("%w query: %w; write a percent sign as %%25", notify.ErrInvalid, errName)})
		case !slices.ContainsFunc(params, func(known param) bool { return known.in == "query" && known.name == name }):
			faults = append(faults, p.fault("it is unknown; "+knownParams(params)))
		case twice:
			faults = append(faults, p.fault("it is given twice; give it once"))
		case errValue != nil:
			faults = append(faults, p.fault(errValue.Error()+"; write a percent sign as %25"))
		case value == "":
			faults = append(faults, p.fault("it is empty; leave it out for the default"))
		case !utf8.ValidString(value):
			faults = append(faults, p.fault("it is not UTF-8"))
		default:
			values[name] = value
		}
	}
	return values, faults
}

// knownParams says which query parameters there are.
func knownParams(params []param) string {
	var names []string
	for _, p := range params {
		if p.in == "query" {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return "there are none here"
	}
	return "use " + strings.Join(names, ", ")
}

// set reads a value into its field.
func (p param) set(field reflect.Value, text string) error {
	switch into := field.Addr().Interface().(type) {
	case *string:
		*into = text
		return p.check(text)
	case *int:
		n, err := p.number(text, strconv.IntSize)
		*into = int(n)
		return err
	case *int64:
		n, err := p.number(text, 64)
		*into = n
		return err
	case *bool:
		*into = text == "true"
		if text != "true" && text != "false" {
			return fmt.Errorf("%w %s %.100q: write true or false", notify.ErrInvalid, p.name, text)
		}
	case *time.Duration:
		d, err := notify.ParseDuration(p.name, text)
		*into = d
		return err
	case *time.Time:
		t, err := api.ParseTime(p.name, text)
		*into = t
		return err
	}
	return nil
}

func (p param) number(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%w %s %.100q: write a whole number", notify.ErrInvalid, p.name, text)
	}
	return n, nil
}

// check reports what is wrong with a text that has a grammar.
func (p param) check(text string) error {
	switch p.is {
	case "topic":
		return notify.CheckTopic(text)
	case "pattern":
		_, err := notify.ParsePattern(text)
		return err
	case "id":
		return notify.CheckID(text)
	}
	return nil
}

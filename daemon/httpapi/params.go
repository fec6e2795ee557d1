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

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// A param is a parameter of a request: a field of an operation's input that has
// one of the tags path, query and header. The same tags make the OpenAPI document.
type param struct {
	index    []int
	in, name string
	required bool
	is       string // grammar of a text: topic, pattern, id or media type; empty: any
	fallback string // value where none is given
	without  string // a parameter that is not given together with this one
	limits
}

// paramsOf returns the parameters of an input.
func paramsOf(input reflect.Type) []param {
	var all []param
	for _, field := range reflect.VisibleFields(input) {
		for _, in := range []string{"path", "query", "header"} {
			name := field.Tag.Get(in)
			if name == "" {
				continue
			}
			all = append(all, param{
				index: field.Index, in: in, name: name,
				required: in == "path" || field.Tag.Get("required") == "true",
				is:       field.Tag.Get("is"), fallback: field.Tag.Get("default"), without: field.Tag.Get("without"),
				limits: limitsOf(field),
			})
		}
	}
	return all
}

// readParams reads the parameters of a request into an input, and tells all that is wrong.
func readParams(r *http.Request, params []param, input reflect.Value) error {
	query, faults := readQuery(r.URL.RawQuery, params)
	for _, p := range params {
		text, given, err := p.find(r, query)
		switch _, other := query[p.without]; {
		case err != nil:
		case !given && p.required:
			err = p.fault("it is missing")
		case given && other:
			err = p.fault("it is given beside " + p.without + "; give one of them")
		case given || text != "":
			err = store.Renamed(p.name, p.set(input.FieldByIndex(p.index), text))
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return few(faults)
}

// find returns the text of a parameter, or what stands for it where none is given.
func (p param) find(r *http.Request, query map[string]string) (text string, given bool, err error) {
	switch p.in {
	case "path":
		return r.PathValue(p.name), true, nil
	case "query":
		text, given = query[p.name]
	case "header":
		values := r.Header.Values(p.name)
		if len(values) > 1 {
			return "", false, p.fault("it is given twice; give it once")
		}
		if given = len(values) == 1 && values[0] != ""; given {
			text = values[0]
		}
	}
	if !given {
		text = p.fallback
	}
	return text, given, nil
}

// mostFaults is how many faults of one request are told: an answer should not
// be many times as long as what it answers.
const mostFaults = 20

// few joins faults, and leaves out those that are too many.
func few(faults []error) error {
	if more := len(faults) - mostFaults; more > 0 {
		faults = append(faults[:mostFaults:mostFaults], fmt.Errorf("%w parameters: %d faults more", notify.ErrInvalid, more))
	}
	return errors.Join(faults...)
}

// fault is what is wrong with how a parameter is given.
func (p param) fault(text string) error {
	return notify.Faultf(p.name, "parameter %.100q: %s", p.name, text)
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
			faults = append(faults, notify.Faultf("query", "query: %w; write a percent sign as %%25", errName))
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
		return p.text(text)
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
			return notify.Faultf(p.name, "%s %.100q: write true or false", p.name, text)
		}
		return nil
	case *time.Duration:
		d, err := p.duration(text)
		*into = d
		return err
	case *time.Time:
		t, err := p.time(text)
		*into = t
		return err
	}
	return fmt.Errorf("parameter %s: a %s cannot be read", p.name, field.Type())
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
	case "media type":
		return notify.CheckContentType(text)
	}
	return nil
}

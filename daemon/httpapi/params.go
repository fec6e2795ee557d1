package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A param is a parameter of a request: a field of an operation's input that has
// one of the tags path, query and header. The same tags make the OpenAPI document.
type param struct {
	fields.Field
	in       string
	required bool
	fallback string // value if none is given
}

// paramsOf returns the parameters of an input. A field of type notify.Message adds the
// parameters of a message: all but those of the mode that its tag lacks names, or only
// those that its tag has names.
func paramsOf(input reflect.Type) []param {
	var all []param
	for _, field := range reflect.VisibleFields(input) {
		if field.Type == reflect.TypeFor[notify.Message]() {
			all = append(all, messageParams(field)...)
		}
		for _, in := range []string{"path", "query", "header"} {
			if name := field.Tag.Get(in); name != "" {
				all = append(all, param{
					Field: fields.Of(name, field), in: in,
					required: in == "path" || field.Tag.Get("required") == "true", fallback: field.Tag.Get("default"),
				})
			}
		}
	}
	return all
}

// messageParams returns the parameters of a field of type notify.Message.
func messageParams(field reflect.StructField) []param {
	var all []param
	for _, f := range fields.In[notify.Message]() {
		has := field.Tag.Get("has")
		if f.Of != "" && f.Of == field.Tag.Get("lacks") || has != "" && !slices.Contains(strings.Split(has, ","), f.Name) {
			continue
		}
		p := param{Field: f, in: "query"}
		p.Index = slices.Concat(field.Index, f.Index)
		if f.Name == "content_type" {
			p.in, p.Name = "header", "Content-Type"
			p.Doc += "; " + formType + ", which curl -d sends with any body, is taken as none"
		}
		all = append(all, p)
	}
	return all
}

// readParams reads the parameters of a request into an input. The error reports every wrong one.
func readParams(r *http.Request, params []param, input reflect.Value) error {
	query, faults := readQuery(r.URL.RawQuery, params)
	for _, p := range params {
		text, given, err := p.find(r, query)
		switch _, other := query[p.Without]; {
		case err != nil:
		case !given && p.required && hasFault(faults, p.Name): // it is given, and wrong
		case !given && p.required:
			err = p.fault("it is missing")
		case given && other:
			err = p.fault("it is given beside " + p.Without + "; give one of them")
		case given || text != "":
			err = p.set(input, text)
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return joinFirst(faults)
}

// hasFault reports whether there is a fault of a parameter.
func hasFault(faults []error, name string) bool {
	return slices.ContainsFunc(fault.All(errors.Join(faults...)), func(f *notify.Fault) bool { return f.Field == name })
}

// set reads a text into the input.
func (p param) set(input reflect.Value, text string) error {
	err := p.Set(input, text)
	if len(fault.All(err)) < 2 { // several have the name of the parameter already
		err = fault.Renamed(p.Name, err)
	}
	if err != nil && strings.Contains(text, " ") && input.FieldByIndex(p.Index).Type() == reflect.TypeFor[time.Time]() {
		return fault.Renamed(p.Name, fmt.Errorf("%w; in a query + stands for a space, write it as %%2B", err))
	}
	return err
}

// find returns the text of a parameter, or its default if none is given.
func (p param) find(r *http.Request, query map[string]string) (text string, given bool, err error) {
	switch p.in {
	case "path":
		return r.PathValue(p.Name), true, nil
	case "query":
		text, given = query[p.Name]
	case "header":
		values := r.Header.Values(p.Name)
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

// maxFaults is how many faults of one request are reported: an answer should not be
// many times as long as its request.
const maxFaults = 20

// joinFirst joins the first maxFaults faults, and counts the others.
func joinFirst(faults []error) error {
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults:maxFaults], fmt.Errorf("%w parameters: %d faults more", notify.ErrInvalid, more))
	}
	return errors.Join(faults...)
}

// fault returns a fault of the parameter.
func (p param) fault(text string) error {
	return fault.New(p.Name, "parameter %.100q: %s", p.Name, text)
}

// readQuery parses a query. It is stricter than url.ParseQuery: a parameter that is
// unknown, empty, given twice or not UTF-8 is a fault.
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
		p := param{in: "query", Field: fields.Field{Name: strings.ToValidUTF8(name, "�")}}
		_, twice := values[name]
		switch {
		case errName != nil:
			faults = append(faults, fault.New("query", "query: %w; write a percent sign as %%25", errName))
		case !slices.ContainsFunc(params, func(known param) bool { return known.in == "query" && known.Name == name }):
			faults = append(faults, p.fault("it is unknown; "+knownParams(params)))
		case twice:
			faults = append(faults, p.fault("it is given twice; give it once"))
		case errValue != nil:
			faults = append(faults, p.fault(errValue.Error()+"; write a percent sign as %25"))
		case value == "" && slices.ContainsFunc(params, func(known param) bool { return known.Name == name && known.required }):
			faults = append(faults, p.fault("it is empty"))
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

// knownParams lists the known query parameters.
func knownParams(params []param) string {
	var names []string
	for _, p := range params {
		if p.in == "query" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "there are none here"
	}
	return "use " + strings.Join(names, ", ")
}

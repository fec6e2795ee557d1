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

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// readParams reads the parameters of a request into an input. The error reports every wrong one.
func (c *call) readParams(input reflect.Value) error {
	r, params := c.r, c.op.Params()
	query, faults := readQuery(r.URL.RawQuery, params)
	for _, p := range params {
		text, given, err := findParam(p, r, query)
		switch _, other := query[p.Without]; {
		case err != nil:
		case !given && p.Required && hasFault(faults, p.Name): // it is given, and wrong
		case !given && p.Required:
			err = paramFault(p.Name, "it is missing")
		case given && other:
			err = paramFault(p.Name, "it is given beside "+p.Without+"; give one of them")
		case given || text != "":
			err = setParam(p, input, text)
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

// times are the types of parameters that may have an offset, with a +.
var times = []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[fields.Moment]()}

// setParam reads the text of a parameter into the input.
func setParam(p calls.Param, input reflect.Value, text string) error {
	err := p.Set(input, text)
	if err != nil && strings.Contains(text, " ") && slices.Contains(times, input.FieldByIndex(p.Index).Type()) {
		return fault.Renamed(p.Name, fmt.Errorf("%w; in a query + stands for a space, write it as %%2B", err))
	}
	return err
}

// findParam returns the text of a parameter, or its default if none is given.
func findParam(p calls.Param, r *http.Request, query map[string]string) (text string, given bool, err error) {
	switch p.In {
	case "path":
		return r.PathValue(p.Name), true, nil
	case "query":
		text, given = query[p.Name]
	case "header":
		values := r.Header.Values(p.Name)
		if len(values) > 1 {
			return "", false, paramFault(p.Name, "it is given twice; give it once")
		}
		if given = len(values) == 1 && values[0] != ""; given {
			text = values[0]
		}
	}
	if !given {
		text = p.Fallback
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

// paramFault returns a fault of a parameter.
func paramFault(name, text string) error {
	return fault.New(name, "parameter %.100q: %s", name, text)
}

// readQuery parses a query. It is stricter than url.ParseQuery: a parameter that is
// unknown, empty, given twice or not UTF-8 is a fault.
func readQuery(raw string, params []calls.Param) (map[string]string, []error) {
	if raw == "" {
		return nil, nil
	}
	var faults []error
	values := make(map[string]string)
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, errName := url.QueryUnescape(rawName)
		value, errValue := url.QueryUnescape(rawValue)
		called := strings.ToValidUTF8(name, "�")
		_, twice := values[name]
		switch {
		case errName != nil:
			faults = append(faults, fault.New("query", "query: %w; write a percent sign as %%25", errName))
		case !slices.ContainsFunc(params, func(known calls.Param) bool { return known.In == "query" && known.Name == name }):
			faults = append(faults, paramFault(called, "it is unknown; "+knownParams(params)))
		case twice:
			faults = append(faults, paramFault(called, "it is given twice; give it once"))
		case errValue != nil:
			faults = append(faults, paramFault(called, errValue.Error()+"; write a percent sign as %25"))
		case value == "" && slices.ContainsFunc(params, func(known calls.Param) bool { return known.Name == name && known.Required }):
			faults = append(faults, paramFault(called, "it is empty"))
		case value == "":
			faults = append(faults, paramFault(called, "it is empty; leave it out for the default"))
		case !utf8.ValidString(value):
			faults = append(faults, paramFault(called, "it is not UTF-8"))
		default:
			values[name] = value
		}
	}
	return values, faults
}

// knownParams lists the known query parameters.
func knownParams(params []calls.Param) string {
	var names []string
	for _, p := range params {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "there are none here"
	}
	return "use " + strings.Join(names, ", ")
}

package calls

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// A Param is a parameter of a call: a field of its input that has one of the tags path,
// query and header, which say where HTTP has it. In JSON it is a member of that name.
type Param struct {
	fields.Field
	In       string // path, query or header
	Required bool
	Fallback string // value if none is given
}

// Set reads a text into an input. The error is a notify.Fault that names the parameter.
func (p Param) Set(input reflect.Value, text string) error {
	err := p.Field.Set(input, text)
	if len(fault.All(err)) < 2 { // several have the name of the parameter already
		err = fault.Renamed(p.Name, err)
	}
	return err
}

// Params returns the parameters of a call. All callers share the slice, so none changes it.
// A field of type notify.Message adds the parameters of a message: all but those of the mode
// that its tag lacks names, or only those that its tag has names.
func (c Call) Params() []Param {
	known, ok := params.Load(c.Input)
	if !ok {
		known, _ = params.LoadOrStore(c.Input, paramsOf(c.Input))
	}
	return known.([]Param)
}

var params sync.Map // []Param of a reflect.Type

func paramsOf(input reflect.Type) []Param {
	var all []Param
	for _, field := range reflect.VisibleFields(input) {
		if field.Type == reflect.TypeFor[notify.Message]() {
			all = append(all, messageParams(field)...)
		}
		for _, in := range []string{"path", "query", "header"} {
			if name := field.Tag.Get(in); name != "" {
				all = append(all, Param{
					Field: fields.Of(name, field), In: in,
					Required: in == "path" || field.Tag.Get("required") == "true", Fallback: field.Tag.Get("default"),
				})
			}
		}
	}
	return all
}

// FormType is what curl -d sends with any body, so it says nothing of this one. A form that
// a browser's fetch sends names its charset behind it, and keeps its type.
const FormType = "application/x-www-form-urlencoded"

// messageParams returns the parameters of a field of type notify.Message.
func messageParams(field reflect.StructField) []Param {
	var all []Param
	for _, f := range fields.In[notify.Message]() {
		has := field.Tag.Get("has")
		if f.Of != "" && f.Of == field.Tag.Get("lacks") || has != "" && !slices.Contains(strings.Split(has, ","), f.Name) {
			continue
		}
		p := Param{Field: f, In: "query"}
		p.Index = slices.Concat(field.Index, f.Index)
		if f.Name == "content_type" {
			p.In, p.Name = "header", "Content-Type"
			p.Doc += "; " + FormType + ", which curl -d sends with any body, is taken as none"
		}
		all = append(all, p)
	}
	return all
}

// ReadJSON reads parameters into an input: that in the path that is named topic from the
// topic of a subject, if there is one, and all others from one JSON object, each by itself.
// No data is an object without members; an empty text and null count as not given. The error
// joins a notify.Fault for each wrong one.
func ReadJSON(params []Param, topic string, data []byte, input reflect.Value) error {
	var faults []error
	if i := slices.IndexFunc(params, func(p Param) bool { return p.Name == "topic" && p.In == "path" }); i >= 0 && topic != "" {
		faults = append(faults, params[i].Set(input, topic))
		params = slices.Delete(slices.Clone(params), i, i+1)
	}
	given := make(map[string]bool)
	if len(data) > 0 {
		err := strictjson.Members(data, func(m strictjson.Member) {
			if err := readMember(m, params, input, given); err != nil {
				faults = append(faults, err)
			}
		})
		if err != nil {
			return fault.New(strictjson.FieldOf(err, "request"), "request: %w; write one JSON object whose fields are %s", err, namesOf(params))
		}
	}
	for _, p := range params {
		switch {
		case !given[p.Name] && p.Fallback != "":
			faults = append(faults, p.Set(input, p.Fallback))
		case !given[p.Name] && p.Required:
			faults = append(faults, fault.New(p.Name, "%s: it is missing; write one JSON object whose fields are %s", p.Name, namesOf(params)))
		case given[p.Name] && given[p.Without]:
			faults = append(faults, besides(p))
		}
	}
	return errors.Join(faults...)
}

// besides returns the Fault of a parameter that is given beside the one that it excludes.
func besides(p Param) error {
	return fault.New(p.Name, "%s: it is given beside %s; give one of them", p.Name, p.Without)
}

// readMember reads a member of an object, and notes that its parameter is given.
func readMember(m strictjson.Member, params []Param, input reflect.Value, given map[string]bool) error {
	i := slices.IndexFunc(params, func(p Param) bool { return p.Name == string(m.Name) })
	if i < 0 {
		return fault.New(string(m.Name), "the field %.100q is unknown; use %s", m.Name, namesOf(params))
	}
	p := params[i]
	text, err := p.TextIn(m)
	if err != nil {
		given[p.Name] = true
		return fault.New(p.Name, "%w", err)
	}
	if len(text) == 0 {
		return nil
	}
	given[p.Name] = true
	return p.Set(input, string(text))
}

// A form reads the members of a JSON object into the fields of a T that tags name.
type form[T any] struct {
	of     T
	faults []error
}

// read reads a member of what is named. An empty text of one that is no list counts as not given. besides are names that are read elsewhere.
func (r *form[T]) read(what string, m strictjson.Member, besides ...string) {
	f, is := fields.Named[T](string(m.Name))
	if !is {
		names := append(fields.Names[T](), besides...)
		r.faults = append(r.faults, fault.New(string(m.Name), "%s: the field %.100q is unknown; its fields are %s", what, m.Name, strings.Join(names, ", ")))
		return
	}
	texts, err := f.TextsIn(m)
	if err != nil {
		r.faults = append(r.faults, fault.New(f.Name, "%s: %w", what, err))
		return
	}
	for _, text := range texts {
		if text == "" && !f.IsList() {
			continue
		}
		if err := f.Set(reflect.ValueOf(&r.of).Elem(), text); err != nil {
			r.faults = append(r.faults, err)
		}
	}
}

// namesOf lists the names of parameters.
func namesOf(params []Param) string {
	if len(params) == 0 {
		return "none"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

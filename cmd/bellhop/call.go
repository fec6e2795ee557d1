package main

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store"
)

// ask makes a call of the API in this process, as an operator who may do everything.
func ask[R any](ctx context.Context, s *session, name string, params map[string]string, body ...byte) (reply R, err error) {
	service, err := calls.NewService(s.store, nil, s.log)
	if err != nil {
		return reply, err
	}
	service.MaxBody = int(s.config.MaxBody)
	operator := calls.Anybody("an operator")
	return calls.Ask[R](ctx, service, &operator, name, params, body...)
}

// callCommand returns a command that makes a call of the API: its arguments are the parameters in the path, and its flags are those parameters that
// are named. With --json the command prints the reply, as the API has it. Else show prints it for people.
func callCommand[R any](a *app, name string, c *cobra.Command, show func(ctx context.Context, s *session, args []string, reply R) error, flags ...string) *cobra.Command {
	call := calls.Named(name)
	addParams(c, call, flags...)
	if call.Reply != nil {
		a.jsonFlag(c)
	}
	c.Args = takes(arguments(call)...)
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		params, err := paramsOf(c, call, args)
		if err != nil {
			return wrong(err)
		}
		reply, err := ask[R](ctx, s, name, params)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(reply)
		}
		return show(ctx, s, args, reply)
	})
}

// arguments returns the names of the parameters in the path of a call, as the usage of a command has them.
func arguments(call calls.Call) (names []string) {
	for _, p := range call.Params() {
		if p.In == "path" {
			names = append(names, strings.ToUpper(p.Name))
		}
	}
	return names
}

// flagOf returns the flag of a parameter or a field.
func flagOf(name string) string { return strings.ReplaceAll(name, "_", "-") }

// addParams gives a command a flag for each of some parameters of a call.
func addParams(c *cobra.Command, call calls.Call, names ...string) {
	for _, p := range call.Params() {
		if slices.Contains(names, p.Name) {
			addFlag(c, p.Name, call.Input.FieldByIndex(p.Index).Type, p.Doc, p.Example, p.Fallback)
		}
	}
}

// paramsOf returns the parameters of a call that the arguments and the flags of a command give.
func paramsOf(c *cobra.Command, call calls.Call, args []string) (map[string]string, error) {
	params := make(map[string]string)
	var faults []error
	for _, p := range call.Params() {
		flag := c.Flags().Lookup(flagOf(p.Name))
		switch {
		case p.In == "path" && len(args) > 0:
			params[p.Name], args = args[0], args[1:]
		case flag == nil || !flag.Changed:
		case flag.Value.String() == "":
			faults = append(faults, misused(flag.Name, "--%s is empty; leave it out", flag.Name))
		default:
			params[p.Name] = flag.Value.String()
		}
	}
	return params, errors.Join(faults...)
}

// addFlag gives a command a flag for a parameter, or for a field of a body, of a type.
func addFlag(c *cobra.Command, name string, of reflect.Type, doc, example, otherwise string) {
	if example != "" {
		doc += "; such as " + example
	}
	flag, flags := flagOf(name), c.Flags()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() {
	case reflect.Bool:
		flags.Bool(flag, false, doc)
	case reflect.Int:
		flags.Int(flag, 0, doc)
	case reflect.Slice:
		flags.StringArray(flag, nil, doc+"; may be repeated")
	default:
		flags.String(flag, "", doc)
	}
	if otherwise != "" {
		flags.Lookup(flag).DefValue = otherwise
	}
}

// addBody gives a command a flag for each field of T, the body of a call, but some.
func addBody[T any](c *cobra.Command, but ...string) {
	for _, f := range bodyFields[T](but) {
		addFlag(c, nameOf(f), f.Type, f.Tag.Get("doc"), f.Tag.Get("example"), f.Tag.Get("default"))
	}
}

// bodyOf puts what these flags give into a JSON object.
func bodyOf[T any](c *cobra.Command, object map[string]any, but ...string) error {
	var faults []error
	for _, f := range bodyFields[T](but) {
		name := nameOf(f)
		flag := c.Flags().Lookup(flagOf(name))
		if !flag.Changed {
			continue
		}
		text := flag.Value.String()
		switch flag.Value.Type() {
		case "stringArray":
			object[name], _ = c.Flags().GetStringArray(flag.Name) // it is one
			continue
		case "string":
			object[name] = text
		default:
			object[name] = json.RawMessage(text)
		}
		if text == "" {
			faults = append(faults, misused(flag.Name, "--%s is empty; leave it out", flag.Name))
		}
	}
	return errors.Join(faults...)
}

// bodyFields returns the fields of T, but some.
func bodyFields[T any](but []string) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[T]()), func(f reflect.StructField) bool {
		return f.Anonymous || slices.Contains(but, nameOf(f))
	})
}

// nameOf returns the name of a field in JSON.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// missingOf returns the error of a reply that shards are missing in; nil if none is.
func missingOf(m api.Missing) error {
	if len(m.Missing) == 0 {
		return nil
	}
	return &store.MissingError{Shards: m.Missing, Err: errors.New("they do not answer")}
}

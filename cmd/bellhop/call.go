package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/calls"
)

// ask makes a call of the API in this process, as an operator who may do everything.
func ask[R any](ctx context.Context, s *session, name string, params map[string]string) (R, error) {
	operator := calls.Anybody("an operator")
	return calls.Ask[R](ctx, s.service, &operator, name, params)
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
			addFlag(c, p, call.Input.FieldByIndex(p.Index).Type)
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

// addFlag gives a command a flag for a parameter.
func addFlag(c *cobra.Command, p calls.Param, of reflect.Type) {
	flag, flags, about := flagOf(p.Name), c.Flags(), p.Doc
	if p.Example != "" {
		about += "; such as " + p.Example
	}
	switch of.Kind() {
	case reflect.Bool:
		flags.Bool(flag, false, about)
	default:
		flags.String(flag, "", about)
		flags.Lookup(flag).DefValue = p.Fallback
	}
}

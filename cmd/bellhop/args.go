package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// takes rejects a call whose arguments do not match names. Names in brackets are
// optional.
func takes(names ...string) cobra.PositionalArgs {
	least := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
	}
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return misused(strings.ToLower(names[len(args)]), "%s is missing", names[len(args)])
		case len(args) > len(names):
			return misused("argument", "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// explainValue says what a flag for a number, or for true or false, takes, where it got something else, and what is used in
// place of a flag that is gone.
func explainValue(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		switch name := unknown.GetSpecifiedName(); {
		case name == "watch":
			return misused(name, "%w: watch repeats a command, as in: watch bellhop topics --sort overdue", err)
		case strings.HasPrefix(name, "reschedule-"):
			return misused(name, "%w: use --reschedule, with --delay or --due", err)
		case name == "json":
			return misused(name, "%w: the command has no answer in JSON; its exit code says whether it was done", err)
		case name == "yes" && c.Flags().Lookup("all") != nil:
			return misused(name, "%w: --all does it without asking", err)
		}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	name, value := invalid.GetFlag().Name, invalid.GetValue()
	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "int" && errors.Is(err, strconv.ErrRange):
		return misused(name, "%s %.100q: it has too many digits; write a smaller number", name, value)
	case kind == "int":
		return misused(name, "%s %.100q: write a whole number", name, value)
	case kind == "bool":
		return misused(name, "%s %.100q: leave the value out, or write --%s=true or --%s=false", name, value, name, name)
	}
	return err
}

// parseHeaders parses headers of the form NAME=VALUE.
func parseHeaders(given []string) (map[string]string, error) {
	headers := make(map[string]string, len(given))
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, fault.New("headers", "header %q: write NAME=VALUE", one)
		}
		if _, twice := headers[name]; twice {
			return nil, fault.New("headers", "header %s: it is given twice", name)
		}
		headers[name] = value
	}
	return headers, nil
}

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every flag for a number, and every one for true or false, says what it takes when it gets something else.
func TestValuesOfFlags(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	tried := map[string]int{}
	try := func(c *cobra.Command, f *pflag.Flag, value, want string) {
		t.Helper()
		tried[f.Value.Type()]++
		got := s.fails(exitUsage, append(strings.Fields(c.CommandPath())[1:], "--"+f.Name+"="+value)...)
		if first, _, _ := strings.Cut(got, "\n"); first != "bellhop: "+want {
			t.Errorf("%s --%s=%s: got %q, want %q", c.CommandPath(), f.Name, value, first, want)
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "int":
				for _, value := range []string{"x", "1.5", "", "1e3"} {
					try(c, f, value, fmt.Sprintf("%s %q: write a whole number", f.Name, value))
				}
				try(c, f, strings.Repeat("9", 20), fmt.Sprintf("%s %q: it has too many digits; write a smaller number", f.Name, strings.Repeat("9", 20)))
			case "bool":
				if f.Name != "help" && f.Name != "version" {
					try(c, f, "x", fmt.Sprintf(`%s "x": leave the value out, or write --%s=true or --%s=false`, f.Name, f.Name, f.Name))
				}
			case "int64", "uint", "float64", "duration":
				t.Errorf("%s --%s is a %s, of which nothing says what it takes", c.CommandPath(), f.Name, f.Value.Type())
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
	if tried["int"] < 50 || tried["bool"] < 20 {
		t.Errorf("tried %v", tried)
	}
	if got := s.fails(exitUsage, "find", "a", "--limit", "\x1b[31mx\n"); strings.ContainsRune(got, '\x1b') || !strings.Contains(got, "write a whole number") {
		t.Errorf("got %q", got)
	}
}

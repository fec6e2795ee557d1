package main

import (
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The operator's user, who has no other rights, loads the functions.
func TestFunctionsLoad(t *testing.T) {
	t.Parallel()
	server := storetest.Server(t)
	s := newShell(t, "BELLHOP_REDIS_URL="+strings.Replace(server.URL(), "redis://", "redis://operator:secret@", 1))
	root := storetest.At(t, server.URL(), "")
	rule := []any{"ACL", "SETUSER", "operator", "on", ">secret"}
	for _, one := range strings.Fields(reach.LoadRights()) {
		rule = append(rule, one)
	}
	storetest.Must(t, root.Client().Do(t.Context(), rule...).Err())
	contains(t, s.call("functions", "load"), ": loaded\n")
	contains(t, s.call("functions", "load"), ": loaded before\n")
	contains(t, s.call("functions", "load", "--json"), `"loaded":false`)
	contains(t, s.fails(exitUsage, "functions"), "COMMAND is missing: use load")
	storetest.Must(t, root.Client().Do(t.Context(), "ACL", "SETUSER", "operator", "-function|load").Err())
	storetest.Must(t, root.Client().FunctionFlush(t.Context()).Err())
	contains(t, s.fails(exitFailed, "functions", "load"), "'function|load'")
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store"
)

func (a *app) keysCommand() *cobra.Command {
	c := callCommand(a, "listKeys", &cobra.Command{
		Use:   "keys TOPIC",
		Short: "List the keys of a topic of which messages are blocked",
		Long: `List the keys of a topic of which messages are blocked, those with the most of
them first: how many there are, how long the oldest has been due, and the message
for which they wait: it is ready, leased, or was put off. One that is dead bars
its key, until it is requeued, purged or replaced: see the setting on_dead.`,
		Example: `  bellhop keys ledger
  bellhop keys ledger --sort oldest --limit 5
  bellhop keys ledger --json | jq -r '.keys[].key'`,
	}, func(ctx context.Context, s *session, _ []string, keys calls.Keys) error {
		if len(keys.Keys) == 0 {
			fmt.Fprintln(a.out, "no message is blocked")
			return nil
		}
		a.printRows(keyRows(keys.Keys, a.now(ctx, s)), 0, 3)
		if more := keys.All - int64(len(keys.Keys)); more > 0 {
			fmt.Fprintf(a.out, "\nand %s more; see --limit\n", text.Plural(more, "key"))
		}
		return nil
	}, "sort", "limit")
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{string(store.MostBlocked), string(store.OldestBlocked)}, cobra.ShellCompDirectiveNoFileComp)) // fails for no flag
	return c
}

// keyRows returns the table of keys.
func keyRows(keys []calls.BlockedKey, now time.Time) [][]string {
	rows := [][]string{{"KEY", "BLOCKED", "OLDEST", "BEHIND"}}
	ago := func(t time.Time) string { return text.Distance(t, now) }
	for _, k := range keys {
		rows = append(rows, []string{k.Key, strconv.FormatInt(k.Blocked, 10), text.Relative(timeOf(k.Oldest), now), text.Dash(calls.Behind(k.Behind, ago))})
	}
	return rows
}

// timeOf returns a time of a reply; zero: it has none.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store"
)

func (a *app) keysCommand() *cobra.Command {
	var order string
	var limit int
	c := a.jsonFlag(&cobra.Command{
		Use:   "keys TOPIC",
		Short: "List the keys of a topic of which messages are blocked",
		Long: `List the keys of a topic of which messages are blocked, those with the most of
them first: how many there are, how long the oldest has been due, and the message
for which they wait: it is ready, leased, or was put off. One that is dead bars
its key, until it is requeued, purged or replaced: see the setting on_dead.`,
		Example: `  bellhop keys ledger
  bellhop keys ledger --sort oldest --limit 5
  bellhop keys ledger --json | jq -r '.keys[].key'`,
		Args: takes("TOPIC"),
	})
	c.Flags().StringVar(&order, "sort", string(store.MostBlocked), "order: blocked, or oldest for the one that has waited longest first")
	c.Flags().IntVar(&limit, "limit", 20, "show at most so many keys, up to 500")
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{string(store.MostBlocked), string(store.OldestBlocked)}, cobra.ShellCompDirectiveNoFileComp)) // fails for no flag
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		keys, all, err := store.ListKeys(ctx, s.store, args[0], store.KeyOrder(order), limit)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(api.KeysOf(keys, all))
		case len(keys) == 0:
			fmt.Fprintln(a.out, "no message is blocked")
			return nil
		}
		a.printRows(keyRows(keys, a.now(ctx, s)), 0, 3)
		if more := all - int64(len(keys)); more > 0 {
			fmt.Fprintf(a.out, "\nand %s more; see --limit\n", text.Plural(more, "key"))
		}
		return nil
	})
}

// keyRows returns the table of keys.
func keyRows(keys []store.Key, now time.Time) [][]string {
	rows := [][]string{{"KEY", "BLOCKED", "OLDEST", "BEHIND"}}
	ago := func(t time.Time) string { return text.Distance(t, now) }
	for _, k := range keys {
		rows = append(rows, []string{k.Key, strconv.FormatInt(k.Blocked, 10), text.Relative(k.Oldest, now), text.Dash(api.Behind(k.Seats, ago))})
	}
	return rows
}

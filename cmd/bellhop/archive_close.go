package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/archive"
)

func (a *app) archiveCloseCommand() *cobra.Command {
	var yes bool
	c := a.jsonFlag(&cobra.Command{
		Use:   "close",
		Short: "Have Redis keep nothing for an archive any more",
		Long: `Have Redis keep nothing for an archive any more, for good or until a daemon with
BELLHOP_ARCHIVE_URL is elected again: what waits to be archived is removed. Take the
setting from all daemons first, and restart them. The database stays as it is.`,
		Example: `  bellhop archive close --yes`,
		Args:    takes(),
	})
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.withStore(c, func(ctx context.Context, s *session, _ []string) error {
		if err := a.confirmArchive(ctx, "Remove what waits to be archived for good?", yes); err != nil {
			return err
		}
		removed, err := s.store.CloseArchive(ctx)
		return a.printRemoved("closed, removed", archive.Change{Done: removed}, err)
	})
}

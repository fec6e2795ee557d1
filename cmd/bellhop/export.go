package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

func (a *app) exportCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "export FILE",
		Short: "Write all messages to a file, for another Redis, prefix or version",
		Long: `Write every message to FILE, or to standard output for "-", as a line of JSON:
those that are scheduled, ready or in a worker's hands, dead letters, and
broadcasts that wait. bellhop publish --file restores them elsewhere, with their
due times and all else that was known of them. They stay where they are.

The version of Bellhop that wrote what is in Redis exports it. Stop the daemons,
publishers and workers before: what moves meanwhile is exported all the same, but
what comes or goes meanwhile may be missing or come again. What a worker has in
hand is exported as due when its lease ends; where the worker is done with it, it
is handled a second time.

Not exported are named listeners and their places, broadcasts that were sent,
counters, settings of topics, and that one is paused. Which topics have settings
or are paused is told.

FILE is there only when all is in it; one of that name is replaced. Standard
output is whole only where the exit code is 0. Bodies may be secret: FILE is
readable to its owner alone.`,
		Example: `  bellhop export messages.jsonl
  BELLHOP_PREFIX=bellhop2 bellhop publish --file messages.jsonl
  bellhop export - | gzip > messages.jsonl.gz`,
		Args: takes("FILE"),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		return a.exportTo(ctx, s, args[0])
	})
}

// exportTo exports to a file, "-" for standard output; then all else is told on stderr.
func (a *app) exportTo(ctx context.Context, s *session, path string) error {
	if path == "-" {
		sum, err := a.exportAll(ctx, s, terminal.JSON(a.out))
		if err != nil {
			return err
		}
		a.out = a.err
		return a.exported(sum)
	}
	f, err := newWhole(path)
	if err != nil {
		return err
	}
	sum, err := a.exportAll(ctx, s, f)
	if err != nil {
		f.giveUp()
		return fmt.Errorf("%w\n%s was not written", err, path)
	}
	if err := f.keep(); err != nil {
		return err
	}
	return a.exported(sum)
}

// exportAll writes all messages, and tells where there is none: the prefix may be another.
func (a *app) exportAll(ctx context.Context, s *session, w io.Writer) (notify.Exported, error) {
	buffered := bufio.NewWriterSize(w, 1<<20)
	bar := a.progress("exporting", 1)
	sum, err := s.inspector.Export(ctx, buffered, func(done, all int) {
		bar.ChangeMax(max(done, all, 1))
		_ = bar.Set(done) // it only draws
	})
	_ = bar.Finish()
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil && sum.Total() == 0 {
		terminal.Printf(a.err, "bellhop: there is no message under the prefix %s at %s; is that BELLHOP_PREFIX right?\n", s.store.Prefix(), s.store.Where())
	}
	return sum, err
}

// exported tells what was exported, and what the operator should know of it.
func (a *app) exported(sum notify.Exported) error {
	if a.json {
		return a.printJSON(sum)
	}
	terminal.Printf(a.out, "exported %d: %d scheduled, %d ready, %d leased, %d dead, %d broadcasts\n",
		sum.Total(), sum.Scheduled, sum.Ready, sum.Leased, sum.Dead, sum.Broadcasts)
	tell := func(n int, what string) {
		if n > 0 {
			terminal.Printf(a.err, "bellhop: %d %s\n", n, what)
		}
	}
	tell(sum.Leased, "in workers' hands: exported as due when their leases end, and handled twice where a worker is done with them")
	tell(sum.Unplaced, "stood in no place: exported as due now")
	tell(sum.LeftOut, "left out: records that are no messages of ours; bellhop doctor names them")
	tell(len(sum.Paused), "paused, which is not exported; call bellhop pause where you publish this, for each of: "+strings.Join(sum.Paused, " "))
	tell(len(sum.Settings), "with settings, which are not exported; set them where you publish this, as bellhop topics settings tells them, for each of: "+strings.Join(sum.Settings, " "))
	return nil
}

// whole is a file that has its name only when all is in it.
type whole struct {
	*os.File
	path string
}

// newWhole begins a file beside where it will be.
func newWhole(path string) (*whole, error) {
	if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() {
		return nil, store.Faultf("file", "FILE %s: it is not a regular file; name another, or - for standard output", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return nil, err
	}
	return &whole{f, path}, nil
}

// keep gives the file its name, when it is on the disk.
func (w *whole) keep() error {
	err := w.Sync()
	if bad := w.Close(); err == nil {
		err = bad
	}
	if err == nil {
		err = os.Rename(w.Name(), w.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(w.Name()))
	}
	return err
}

// giveUp removes what was written.
func (w *whole) giveUp() {
	_ = w.Close()
	_ = os.Remove(w.Name()) // a .part that is left is not taken for whole
}

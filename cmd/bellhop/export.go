package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/terminal"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

func (a *app) exportCommand() *cobra.Command {
	c := a.jsonFlag(&cobra.Command{
		Use:   "export FILE",
		Short: "Write all messages to a file, for another Redis, prefix or version",
		Long: `Write every message to FILE, or to standard output for "-", as a line of JSON:
scheduled, ready and leased messages, dead letters, and scheduled broadcasts; before
them the schedules, each with how far it is, and the pushes, and behind them the
groups, with how their members ended. bellhop publish --file
restores them elsewhere, with their due times and everything else that is known of
them. Nothing is removed from Redis.

Export with the version of Bellhop that wrote the data. Stop daemons, publishers
and workers first: messages that change their state meanwhile are exported all the
same, but those that come or go, or are copied into branches, may be missing or come
again. A leased message is exported as due when its lease ends; if its worker finishes
it, it is handled a second time.

A schedule goes on elsewhere where it was: no occurrence is repeated, and of those
whose times pass until a daemon runs there it makes what its --missed says. One of
that name that is there already stays as it is. The same holds for pushes. What waits
for a group comes once the whole file was published, and nobody is left.

Not exported are named listeners and their positions, also those of pushes of
broadcasts, sent broadcasts, counters, kept results, ids that stay taken, topic
settings, and pauses of topics. Topics that have settings or are paused are reported.

FILE appears only when it is complete, and replaces a file of that name. Standard
output is complete only if the exit code is 0. FILE has the secrets of pushes, which
could not be restored without them, and bodies may be secret: only its owner can
read FILE. Delete it when it was published.`,
		Example: `  bellhop export messages.jsonl
  BELLHOP_PREFIX=bellhop2 bellhop publish --file messages.jsonl
  bellhop export - | gzip > messages.jsonl.gz`,
		Args: takes("FILE"),
	})
	return a.withStore(c, func(ctx context.Context, s *session, args []string) error {
		return a.exportTo(ctx, s, args[0])
	})
}

// exportTo exports to a file, "-" for standard output; then everything else goes to stderr.
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

// exportAll writes all there is, and warns if there is nothing: the prefix may be wrong.
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
	if err == nil && sum.Total()+sum.Schedules+sum.Pushes+sum.Groups == 0 {
		terminal.Printf(a.err, "bellhop: there is no message under the prefix %s at %s; check BELLHOP_PREFIX\n", s.store.Prefix(), s.store.Address())
	}
	return sum, err
}

// exported prints what was exported, and what to know about it.
func (a *app) exported(sum notify.Exported) error {
	if a.json {
		return a.printJSON(sum)
	}
	more := ""
	if sum.Schedules+sum.Pushes > 0 {
		more = fmt.Sprintf("; %d schedules, %d pushes", sum.Schedules, sum.Pushes)
	}
	if sum.Groups > 0 {
		more += fmt.Sprintf("; %d groups", sum.Groups)
	}
	terminal.Printf(a.out, "exported %d: %d scheduled, %d ready, %d leased, %d dead, %d broadcasts%s\n",
		sum.Total(), sum.Scheduled, sum.Ready, sum.Leased, sum.Dead, sum.Broadcasts, more)
	note := func(n int, what string) {
		if n > 0 {
			terminal.Printf(a.err, "bellhop: %d %s\n", n, what)
		}
	}
	note(sum.Leased, "leased: exported as due when their leases end, and handled twice if their workers finish them")
	note(sum.Unplaced, "in no place: exported as due first, or now")
	note(sum.LeftOut, "left out: foreign records; bellhop doctor names them")
	note(sum.Pushes, "pushes, of which FILE has the secrets: delete it when it was published")
	note(len(sum.Paused), "paused, which is not exported; call bellhop pause where you publish this, for each of: "+strings.Join(sum.Paused, " "))
	note(len(sum.Settings), "with settings, which are not exported; set them where you publish this, as bellhop topics settings shows them, for each of: "+strings.Join(sum.Settings, " "))
	return nil
}

// outputFile says what a flag takes that names the file for [app.exportList].
const outputFile = "`FILE`, which only its owner can read; it is replaced when all is written"

// exportList writes all messages of a list as lines of JSON, which bellhop publish --file takes: to standard output if path is empty, to a
// pipe or a device, or to a file, which stays as it was if that fails.
func (a *app) exportList(ctx context.Context, l *list, path string) error {
	if path == "" {
		_, err := a.exportLines(ctx, l, terminal.JSON(a.out))
		return err
	}
	if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() && !about.IsDir() {
		return a.exportInto(ctx, l, path)
	}
	f, err := newWhole(path)
	if err != nil {
		return err
	}
	n, err := a.exportLines(ctx, l, f)
	if missing, fault := partly(err); fault != nil || missing != nil && n == 0 {
		f.giveUp()
		return fmt.Errorf("%w\n%s was not written", err, path)
	}
	return a.printCount("exported", n, cmp.Or(f.keep(), err))
}

// exportInto writes all messages of a list to a pipe, once it has a reader, or to a device; then everything else goes to stderr.
func (a *app) exportInto(ctx context.Context, l *list, path string) error {
	type opened struct {
		*os.File
		err error
	}
	came := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		came <- opened{f, err}
	}()
	a.out = a.err
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case f := <-came:
		if f.err != nil {
			return f.err
		}
		n, err := a.exportLines(ctx, l, terminal.JSON(f))
		return a.printCount("exported", n, cmp.Or(err, f.Close()))
	}
}

// exportLines writes all messages of a list, and returns how many there are.
func (a *app) exportLines(ctx context.Context, l *list, w io.Writer) (n int, err error) {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	l.limit = 0
	err = l.each(ctx, a, func(page calls.Listing) error {
		for _, i := range page.Of.([]notify.Info) {
			if err := encoder.Encode(i.Line()); err != nil {
				return err
			}
		}
		n += page.N
		return nil
	})
	bad := buffered.Flush()
	if _, fault := partly(err); fault != nil {
		bad = fault
	}
	return n, cmp.Or(bad, err)
}

// whole is a file that gets its name only when it is complete.
type whole struct {
	*os.File
	path string
}

// newWhole creates the file under another name in the folder of path, or of the file to which that is a link.
func newWhole(path string) (*whole, error) {
	if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() {
		return nil, fault.New("file", "FILE %s: it is not a regular file; name another, or write to standard output", path)
	}
	if about, err := os.Lstat(path); err == nil && about.Mode()&os.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, fault.New("file", "FILE: it is a link that leads nowhere (%v); name a file", err)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return nil, err
	}
	return &whole{f, path}, nil
}

// keep syncs the file to the disk, and gives it its name.
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

// giveUp removes the file.
func (w *whole) giveUp() {
	_ = w.Close()
	_ = os.Remove(w.Name()) // a .part that is left is not mistaken for a complete file
}

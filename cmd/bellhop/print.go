package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

// printJSON prints a value as a line of JSON.
func (a *app) printJSON(value any) error { return printJSONTo(a.out, value) }

func printJSONTo(w io.Writer, value any) error {
	e := json.NewEncoder(terminal.JSON(w))
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printRows prints rows as text.LayOut lays them out.
func (a *app) printRows(rows [][]string, shrinkable ...int) {
	for _, line := range text.LayOut(rows, text.Columns(a.out), shrinkable...) {
		fmt.Fprintln(a.out, line)
	}
}

// progress returns a bar on stderr, which is drawn only on a terminal. If the
// size is unknown, -1, it is a spinner.
func (a *app) progress(what string, size int64, o ...progressbar.Option) *progressbar.ProgressBar {
	w := io.Discard
	if text.IsTerminal(a.err) {
		w = a.err
	}
	o = append(o, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(size > 0),
		progressbar.OptionSetSpinnerChangeInterval(0)) // each step turns the spinner: a goroutine that turned it would be a data race
	return progressbar.NewOptions64(size, o...)
}

// stamp returns a time as it is printed: in the local zone for people, on a
// terminal, and in UTC elsewhere, so that programs and machines agree.
func (a *app) stamp(t time.Time) string {
	if text.IsTerminal(a.out) {
		return t.Local().Format(text.StampLayout)
	}
	return t.UTC().Format(text.StampLayout)
}

// tellsWithin is how long Redis may take to tell the time.
var tellsWithin = 2 * time.Second // tests wait for longer

// now returns the time by Redis's clock, by which all times of messages are. It is zero if
// Redis does not tell it, and for JSON: what is printed then has no distances from it.
func (a *app) now(ctx context.Context, s *session) time.Time {
	if a.json {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, tellsWithin)
	defer cancel()
	now, err := s.store.Now(ctx)
	if err != nil {
		return time.Time{}
	}
	return now
}

// when returns a time and its distance from now; "-" for none.
func (a *app) when(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case now.IsZero():
		return a.stamp(t)
	}
	return a.stamp(t) + " (" + text.Relative(t, now) + ")"
}

// printCount prints how many dead letters were changed, also if err ended the work early.
func (a *app) printCount(what string, n int, err error) error {
	if err != nil && n == 0 {
		return err
	}
	if !a.json {
		terminal.Printf(a.out, "%s %d\n", what, n)
	} else if bad := a.printJSON(map[string]int{what: n}); err == nil {
		err = bad
	}
	return err
}

// ask asks a question. The error is refused unless the answer is yes, or that of ctx.
func (a *app) ask(ctx context.Context, question, refused string) error {
	terminal.Printf(a.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // a read cannot be interrupted
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case text := <-answer:
		if text != "y" && text != "yes" {
			return errors.New(refused)
		}
		return nil
	}
}

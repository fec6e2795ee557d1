package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/daemon/terminal"
)

// clear clears a terminal on which lines are shown again and again.
func (a *app) clear() {
	if !a.json && text.IsTerminal(a.out) {
		fmt.Fprint(a.out, "\x1b[2J")
	}
}

// headOf returns the lines above what is shown again and again: when it is, and of which store.
func (a *app) headOf(ctx context.Context, s *session) []string {
	now, _ := s.store.Now(ctx) // what is shown tells the fault
	return text.Wrap(terminal.Escape(fmt.Sprintf("%s  %s  prefix %s", a.stamp(now), s.store.Address(), s.store.Prefix())), text.Columns(a.out))
}

// redraw prints lines in place of those before on a terminal, and below them elsewhere.
func (a *app) redraw(lines []string) error {
	screen := []byte(strings.Join(lines, "\n") + "\n")
	if text.IsTerminal(a.out) {
		screen = inPlace(lines, a.out.(*os.File))
	}
	if _, err := a.out.Write(screen); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// inPlace returns lines that replace a terminal's content, and how many do not fit.
func inPlace(rows []string, to *os.File) []byte {
	width, height, err := term.GetSize(int(to.Fd()))
	if err == nil && height > 2 && len(rows) > height-1 {
		more := fmt.Sprintf("… and %d more", len(rows)-height+2)
		rows = append(rows[:height-2:height-2], more)
	}
	screen := []byte("\x1b[H")
	for _, row := range rows {
		if err == nil && width > 0 {
			row = text.Shorten(row, width)
		}
		screen = append(append(screen, row...), "\x1b[K\n"...)
	}
	return append(screen, "\x1b[J"...)
}

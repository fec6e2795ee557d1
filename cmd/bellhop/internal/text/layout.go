// Package text lays out what the command prints: tables and paragraphs that fit a terminal, numbers with nouns,
// times and durations as people say them.
package text

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/bellhopd/bellhop/daemon/terminal"
)

// Columns returns the width of a terminal. It is 0 for anything else, such as a
// pipe, where nothing is shortened or wrapped.
func Columns(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

const (
	Gap       = 2 // spaces between two columns of a table
	leastCell = 8 // width below which no cell is shortened
)

// LayOut returns a line for each of rows of equally many cells, aligned. If they are wider than a width above 0, that of a
// terminal, cells of the shrinkable columns are shortened. Cells may contain foreign text, and are quoted in place.
func LayOut(rows [][]string, width int, shrinkable ...int) []string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = terminal.Quote(cell)
		}
	}
	widths := Widths(rows)
	if width > 0 {
		narrow(widths, width, shrinkable)
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = align(row, widths)
	}
	return lines
}

// Widths returns the width of each column of rows.
func Widths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	return widths
}

// Total returns the width of a table with columns of these widths.
func Total(widths []int) int {
	total := Gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	return total
}

// narrow shrinks the widest of the shrinkable columns, until a row fits or all are leastCell wide.
func narrow(widths []int, width int, shrinkable []int) {
	for Total(widths) > width {
		widest := -1
		for _, i := range shrinkable {
			if widths[i] > leastCell && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// align returns a row whose cells have these widths.
func align(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = Shorten(cell, widths[i])
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+Gap))
	}
	return strings.TrimRight(b.String(), " ")
}

// Shorten returns a text with … in its middle if it is wider than most columns.
func Shorten(text string, most int) string {
	if uniseg.StringWidth(text) <= most {
		return text
	}
	head, rest := split(text, most/2)
	left := most - 1 - uniseg.StringWidth(head)
	for uniseg.StringWidth(rest) > left {
		_, rest, _, _ = uniseg.FirstGraphemeClusterInString(rest, -1)
	}
	return head + "…" + rest
}

// split returns as much of a text as fits into a width, and the rest.
func split(text string, columns int) (head, rest string) {
	rest = text
	for rest != "" {
		cluster, after, width, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
		if columns -= width; columns < 0 {
			break
		}
		head, rest = head+cluster, after
	}
	return head, rest
}

// Wrap breaks a text between words into lines of at most width columns, if width
// is positive. A wider word is not broken.
func Wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && uniseg.StringWidth(lines[last])+1+uniseg.StringWidth(word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Table prints lines whose cells are separated by tabs, aligned.
func Table(w io.Writer, fill func(w io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fill(t)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Fold wraps the paragraphs of a help to a width. One that is laid out by spaces or tabs stays.
func Fold(help string, width int) string {
	paragraphs := strings.Split(help, "\n\n")
	for i, text := range paragraphs {
		if !strings.Contains("\n"+text, "\n ") && !strings.Contains(text, "\t") { // else it is laid out
			paragraphs[i] = strings.Join(Wrap(text, width), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// Plural returns a number and a noun, with an s unless the number is 1.
func Plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OneLine returns a body on one line: unchanged if it is plain text, else quoted.
func OneLine(body []byte) string {
	s := strings.TrimSuffix(string(body), "\n")
	if terminal.Quote(s) == s {
		return s
	}
	return terminal.Quote(string(body))
}

// Dash returns "-" for an empty cell.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Thousands puts commas between Thousands.
func Thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

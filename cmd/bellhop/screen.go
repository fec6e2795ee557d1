package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/bellhopd/bellhop/daemon/terminal"
)

// columnsOf returns the width of a terminal. It is 0 for anything else, such as a
// pipe, where nothing is shortened or wrapped.
func columnsOf(stream any) int {
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
	gap       = 2 // spaces between two columns of a table
	leastCell = 8 // width below which no cell is shortened
)

// printRows prints rows of equally many cells, aligned. If they are wider than a
// terminal, cells of the shrinkable columns are shortened. Cells may contain
// foreign text.
func (a *app) printRows(rows [][]string, shrinkable ...int) {
	for _, line := range layOut(rows, columnsOf(a.out), shrinkable...) {
		fmt.Fprintln(a.out, line)
	}
}

// layOut returns the lines of printRows for a terminal of some width, 0 for none.
func layOut(rows [][]string, width int, shrinkable ...int) []string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = terminal.Quote(cell)
		}
	}
	widths := widthsOf(rows)
	if width > 0 {
		narrow(widths, width, shrinkable)
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = align(row, widths)
	}
	return lines
}

// widthsOf returns the width of each column of rows.
func widthsOf(rows [][]string) []int {
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

// totalWidth returns the width of a table with columns of these widths.
func totalWidth(widths []int) int {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	return total
}

// narrow shrinks the widest of the shrinkable columns, until a row fits or all are leastCell wide.
func narrow(widths []int, width int, shrinkable []int) {
	for totalWidth(widths) > width {
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
		cell = shorten(cell, widths[i])
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+gap))
	}
	return strings.TrimRight(b.String(), " ")
}

// shorten returns a text with … in its middle if it is wider than most columns.
func shorten(text string, most int) string {
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

// wrap breaks a text between words into lines of at most width columns, if width
// is positive. A wider word is not broken.
func wrap(text string, width int) []string {
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

// plural returns a number and a noun, with an s unless the number is 1.
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

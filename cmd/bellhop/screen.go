package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/rivo/uniseg"
	"golang.org/x/term"

	"github.com/bellhopd/bellhop/daemon/terminal"
)

// columnsOf returns how many columns a terminal has. It is 0 for what is none,
// such as a pipe: there nothing is cut or wrapped.
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
	leastCell = 8 // columns to which a cell is shortened at the most
)

// printRows prints rows of as many cells each, aligned. Where they are wider than
// a terminal, cells of the columns that may give way are shortened. Cells may be
// of others.
func (a *app) printRows(rows [][]string, mayGive ...int) {
	for _, line := range layOut(rows, columnsOf(a.out), mayGive...) {
		fmt.Fprintln(a.out, line)
	}
}

// layOut is printRows for a terminal of so many columns, 0 for none. It returns the lines.
func layOut(rows [][]string, room int, mayGive ...int) []string {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = terminal.Quote(cell)
		}
	}
	widths := widthsOf(rows)
	if room > 0 {
		narrow(widths, room, mayGive)
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = align(row, widths)
	}
	return lines
}

// widthsOf returns how wide each column of rows is.
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

// wide returns how wide a table of such columns is.
func wide(widths []int) int {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	return total
}

// narrow takes columns from the widest of those that may give way, until a row fits or they are at their least.
func narrow(widths []int, room int, mayGive []int) {
	for wide(widths) > room {
		widest := -1
		for _, i := range mayGive {
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

// shorten returns a text with … in its middle where it is wider than most columns.
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

// split returns what of a text fits into some columns, and the rest.
func split(text string, room int) (head, rest string) {
	rest = text
	for rest != "" {
		cluster, behind, width, _ := uniseg.FirstGraphemeClusterInString(rest, -1)
		if room -= width; room < 0 {
			break
		}
		head, rest = head+cluster, behind
	}
	return head, rest
}

// wrap breaks a text between words into lines that are no wider than room, where
// that is more than 0. A word that is wider stands whole.
func wrap(text string, room int) []string {
	if room <= 0 {
		return []string{text}
	}
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && uniseg.StringWidth(lines[last])+1+uniseg.StringWidth(word) <= room {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// plural returns a number and a noun, which is given an s where it is not one.
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

package script

import (
	"fmt"
	"strings"
)

// The widths of the columns of KeyTable: a longer text continues in the next line.
const (
	nameWidth = 22
	kindWidth = 7
	textWidth = 100
)

// KeyTable returns the table of all keys and channels for the documentation of this
// package.
func KeyTable() string {
	var b strings.Builder
	for _, r := range table {
		name, kind := r.title(), r.kind
		for _, line := range wrapped(r.text(), textWidth) {
			fmt.Fprintf(&b, "%-*s  %-*s  %s\n", nameWidth, name, kindWidth, kind, line)
			name, kind = "", ""
		}
	}
	return b.String()
}

// title returns the name that a row describes; that of a family ends with its kind in capitals.
func (r row) title() string {
	if r.public {
		return "PREFIX:" + r.name + strings.ToUpper(r.of)
	}
	return r.name + strings.ToUpper(r.of)
}

// text returns what a row holds, with its values or scores, and the format that brings it.
func (r row) text() string {
	text := r.holds
	if r.with != "" {
		text += " → " + r.with
	}
	if r.since > 0 {
		text += fmt.Sprintf("; from format %d on", r.since)
	}
	return text
}

// wrapped returns a text in lines of at most width, broken between words.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

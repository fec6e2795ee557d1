package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

const (
	mostShown = 64 << 10 // bytes of a body that a page shows
	mostKept  = 64 << 10 // bytes of the bodies of a message that is kept for other viewers
)

// A shownBody is a body as a page shows it.
type shownBody struct {
	As    string // text, json or hex
	Text  string
	Bytes int64 // of the whole body
	Cut   bool  // Text is of its first part
	Note  string
}

// bodyOf returns a body in a form; an empty one is the best that fits it.
func bodyOf(body []byte, as string) shownBody {
	b := shownBody{As: as, Bytes: int64(len(body))}
	if as != "text" && as != "json" && as != "hex" {
		b.As = fitting(body)
	}
	if b.As == "json" {
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			b.Text, b.Cut = cutText(laidOut(compact.Bytes(), mostShown+1))
			return b
		}
		b.As, b.Note = "text", "It is not JSON."
	}
	b.Cut = len(body) > mostShown
	if b.As == "hex" {
		b.Text = hex.Dump(body[:min(len(body), mostShown)])
		return b
	}
	b.Text, b.Cut = cutText(body)
	return b
}

// laidOut returns compact JSON with a line for each value. It stops soon after so many bytes:
// what is nested deeply is longer by thousands of times.
func laidOut(compact []byte, most int) []byte {
	var b bytes.Buffer
	depth, quoted := 0, false
	line := func() { b.WriteString("\n" + strings.Repeat("  ", depth)) }
	for i := 0; i < len(compact) && b.Len() < most; i++ {
		switch c := compact[i]; {
		case quoted:
			if b.WriteByte(c); c == '\\' {
				i++
				b.WriteByte(compact[i])
			}
			quoted = c != '"'
		case c == '{' || c == '[':
			if b.WriteByte(c); compact[i+1] == c+2 { // it is empty
				i++
				b.WriteByte(c + 2)
				continue
			}
			depth++
			line()
		case c == '}' || c == ']':
			depth--
			line()
			b.WriteByte(c)
		case c == ',':
			b.WriteByte(c)
			line()
		case c == ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
			quoted = c == '"'
		}
	}
	return b.Bytes()
}

// cutText returns the first part of a text, legible, and whether there is more.
func cutText(text []byte) (string, bool) {
	cut := len(text) > mostShown
	text = text[:min(len(text), mostShown)]
	if cut {
		for range utf8.UTFMax - 1 { // not through a character
			if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	return legible(string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))), cut
}

// fitting returns the form that shows a body best.
func fitting(body []byte) string {
	start := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(start) > 0 && (start[0] == '{' || start[0] == '[') && json.Valid(body):
		return "json"
	case utf8.Valid(body) && !bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }):
		return "text"
	}
	return "hex"
}

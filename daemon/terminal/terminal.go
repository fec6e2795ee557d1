// Package terminal prints foreign text without letting it control the terminal.
// Topics, ids, reasons, bodies and replies of Redis may contain anything: controls
// that move the cursor or ring the bell, marks that reverse the direction of writing,
// and line breaks. Each character that is not printable by [unicode.IsPrint] is shown
// as an escape of a Go string.
//
//	terminal.Printf(out, "%s died: %s\n", id, reason)
//	json.NewEncoder(terminal.JSON(out)).Encode(message)
package terminal

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Quote returns a foreign text on one line: unchanged if all its characters are
// printable, else as a Go string.
func Quote(text string) string {
	if isPrintable(text) {
		return text
	}
	return strconv.Quote(text)
}

// Escape returns a sentence of ours that may contain foreign text. It escapes only
// characters that are not printable, and joins lines with semicolons.
func Escape(sentence string) string {
	sentence = strings.ReplaceAll(sentence, "\n", "; ")
	var b strings.Builder
	for sentence != "" {
		_, n := utf8.DecodeRuneInString(sentence)
		if one := sentence[:n]; isPrintable(one) {
			b.WriteString(one)
		} else {
			quoted := strconv.Quote(one)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		sentence = sentence[n:]
	}
	return b.String()
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Printf is fmt.Fprintf with a format of ours and values that may be foreign: each
// text is quoted by [Quote], and each error is escaped by [Escape].
func Printf(w io.Writer, format string, values ...any) error {
	safe := make([]any, len(values))
	for i, v := range values {
		safe[i] = shown(v)
	}
	_, err := fmt.Fprintf(w, format, safe...)
	return err
}

// shown returns a value as Printf prints it.
func shown(value any) any {
	switch v := value.(type) {
	case string:
		return Quote(v)
	case error:
		return Escape(v.Error())
	case fmt.Stringer:
		return Quote(v.String())
	}
	switch reflect.ValueOf(value).Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return value
	}
	return Quote(fmt.Sprint(value))
}

// JSON returns a writer that escapes every character of JSON that is not printable.
// The JSON then means the same and is safe to show; encoding/json escapes few of them
// itself. The writer is not safe for concurrent use.
func JSON(w io.Writer) io.Writer { return &jsonWriter{to: w} }

type jsonWriter struct {
	to   io.Writer
	rest []byte // the beginning of a character of which the end has not been written yet
	safe []byte
}

// Write writes the complete characters of p.
func (w *jsonWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	w.safe = w.safe[:0]
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		if r < ' ' || unicode.IsPrint(r) { // between values JSON may have line ends; inside it has no ASCII controls
			w.safe = append(w.safe, text[:n]...)
		} else {
			w.safe = appendEscaped(w.safe, r)
		}
		text = text[n:]
	}
	w.rest = append(w.rest[:0], text...)
	if _, err := w.to.Write(w.safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// appendEscaped appends a character as a JSON escape.
func appendEscaped(to []byte, r rune) []byte {
	for _, unit := range utf16.Encode([]rune{r}) {
		to = fmt.Appendf(to, `\u%04x`, unit)
	}
	return to
}

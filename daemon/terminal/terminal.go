// Package terminal prints words of others so that a terminal only shows them.
// Topics, ids, reasons, bodies and what Redis answers may hold anything: controls
// that move the cursor or ring the bell, marks that turn a line around, and ends of
// lines that make one line two. Whatever is no printable character, by
// [unicode.IsPrint], is shown as Go writes it in a string.
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

// Quote returns a text of others on one line: as it is where each of its
// characters is printable, else as a string of Go.
func Quote(text string) string {
	if isPrintable(text) {
		return text
	}
	return strconv.Quote(text)
}

// Escape returns a sentence of ours that may repeat words of others: only what
// is not printable is written as in a string of Go. Its lines become one.
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

// Printf is fmt.Fprintf with a format of ours and values that may be others':
// each text among them is quoted by [Quote], and an error is escaped by [Escape].
func Printf(w io.Writer, format string, values ...any) error {
	safe := make([]any, len(values))
	for i, v := range values {
		safe[i] = shown(v)
	}
	_, err := fmt.Fprintf(w, format, safe...)
	return err
}

// shown returns a value as Printf passes it on.
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

// JSON returns a writer that passes on JSON with every character that is not
// printable escaped, so that it means the same and is safe to look at:
// encoding/json leaves most of them as they are. It is not safe for concurrent use.
func JSON(w io.Writer) io.Writer { return &jsonWriter{to: w} }

type jsonWriter struct {
	to   io.Writer
	rest []byte // of a character whose end was not written yet
	safe []byte
}

// Write passes on the characters of p that are whole.
func (w *jsonWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	w.safe = w.safe[:0]
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		if r < ' ' || unicode.IsPrint(r) { // JSON has controls of ASCII only between its values: the ends of lines
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

// appendEscaped appends a character as JSON escapes it.
func appendEscaped(to []byte, r rune) []byte {
	for _, unit := range utf16.Encode([]rune{r}) {
		to = fmt.Appendf(to, `\u%04x`, unit)
	}
	return to
}

package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// functions are those that templates may call.
var functions = template.FuncMap{
	"count":  grouped,
	"short":  short,
	"ago":    span,
	"soon":   soon,
	"moment": moment,
	"bytes":  sized,
	"once":   notify.NewID,
	"cell":   cell,
	"text":   textCell,
	"when":   timeCell,
	"since":  since,
}

// grouped returns a number with commas between groups of three digits.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	digits := len(text)
	if n < 0 {
		digits--
	}
	for i := 3; i < digits; i += 3 {
		at := len(text) - i - (i/3 - 1)
		text = text[:at] + "," + text[at:]
	}
	return text
}

// short returns a duration in its two largest units, and fractions of a second in
// milliseconds, so that it stands still while it grows.
func short(d time.Duration) string {
	switch {
	case d == math.MinInt64: // which has no positive
		return short(d + 1)
	case d < 0:
		return "-" + short(-d)
	case d < time.Second:
		return fmt.Sprintf("%.4g ms", float64(d.Microseconds())/1000)
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return inUnits(d, time.Minute, "min", time.Second, "s")
	case d < forecast.Day:
		return inUnits(d, time.Hour, "h", time.Minute, "min")
	}
	return inUnits(d, forecast.Day, "d", time.Hour, "h")
}

// inUnits returns a duration in two units, or in the larger one alone where the other is none.
func inUnits(d, large time.Duration, name string, small time.Duration, other string) string {
	text := fmt.Sprintf("%d %s", d/large, name)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, other)
	}
	return text
}

// span returns how far a time is before another, in years and days where it is a year.
func span(from, to time.Time) string {
	if years, days := record.Apart(from, to); years > 0 {
		return fmt.Sprintf("%d y %d d", years, days)
	}
	return short(to.Sub(from))
}

// soon returns when something is due, so that it stands still where much is.
func soon(now, due time.Time) string {
	switch left := due.Sub(now); {
	case left >= time.Second:
		return "in " + span(now, due)
	case left > -time.Second:
		return "now"
	default:
		return span(due, now) + " ago"
	}
}

// moment returns a time as an operator reads it; empty for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// sized returns a number of bytes.
func sized(n int64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, names := float64(n)/unit, "KMGT"
	for value >= unit && len(names) > 1 {
		value, names = value/unit, names[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, names[0])
}

// briefly is how many characters of a text a table shows.
const briefly = 100

// brief returns a foreign text as one short line.
func brief(text string) string {
	line := legible(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text))
	if runes := []rune(line); len(runes) > briefly {
		return string(runes[:briefly]) + "…"
	}
	return line
}

// legible returns a foreign text in which each character that does not show, or turns the
// text around it, is written as Go would.
func legible(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// dueText returns when a message is due, for the end of a sentence.
func dueText(due time.Time) string {
	if due.IsZero() {
		return ""
	}
	return ", due " + moment(due)
}

// plural returns a number with the word for one or for several.
func plural(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

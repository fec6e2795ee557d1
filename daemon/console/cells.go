package console

import (
	"cmp"
	"html/template"
	"strings"
	"time"
)

// A narrow page shows each row of a table as a card of two lines: its name and cells of the class at first, then the others behind their
// labels, but for those of the class nil, which say nothing.

// cell returns a figure of a table: a number, a duration, or text that is empty where there is none. Classes are those of one that says something.
func cell(label string, value any, classes ...string) template.HTML {
	return cellOf("n", label, "", value, classes...)
}

// textCell returns a text of a table, which may be empty.
func textCell(label, text string) template.HTML { return cellOf("", label, "", text) }

// timeCell returns how far a time is from now, with the time itself as its title.
func timeCell(label string, at, now time.Time) template.HTML {
	if at.IsZero() {
		return cell(label, "")
	}
	return cellOf("n", label, moment(at), soon(now, at))
}

func cellOf(class, label, title string, value any, classes ...string) template.HTML {
	text := figure(value)
	if text == "" || text == "–" || text == "0" {
		text, classes = cmp.Or(text, "–"), []string{"nil"}
	}
	attribute := func(name, value string) string {
		if value == "" {
			return ""
		}
		return " " + name + `="` + template.HTMLEscapeString(value) + `"`
	}
	class = strings.TrimSpace(class + " " + strings.Join(classes, " "))
	return template.HTML("<td" + attribute("class", class) + attribute("data-label", label) + attribute("title", title) + ">" + template.HTMLEscapeString(text) + "</td>")
}

// figure returns a value of a table as text; empty or 0: it says nothing.
func figure(value any) string {
	switch v := value.(type) {
	case int:
		return grouped(int64(v))
	case int64:
		return grouped(v)
	case *int64:
		if v != nil {
			return grouped(*v)
		}
	case time.Duration:
		if v != 0 {
			return short(v)
		}
	case string:
		return v
	}
	return ""
}

// since returns for how long something has been so; empty: it is not yet, or that is unknown.
func since(from, now time.Time) string {
	if from.IsZero() || from.After(now) {
		return ""
	}
	return span(from, now)
}

package archive

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// maxPart is the most bytes of a part of a reason or a body, and maxHeaders the most
// headers, that a query has; MaxPage the most rows of a page.
const (
	maxPart    = 1024
	maxHeaders = 20
	maxTopics  = 500
	MaxPage    = 1000
)

// A Query selects rows. All that is set must hold. Whoever may not read bodies should not
// be allowed to ask for a part of one either.
type Query struct {
	Topics  []notify.Pattern  // of which one must match; none: all
	ID      string            // whole
	State   string            // dead, dropped, acked or removed
	Reason  string            // a part of the reason
	Headers map[string]string // name, in any case, and whole value
	Body    string            // a part of the body
	From    time.Time         // ended then or later
	To      time.Time         // ended before
}

// States are the states of rows.
func States() []string { return []string{"dead", "dropped", "acked", "removed"} }

// Check returns a joined notify.Fault for what is wrong with a query.
func (q Query) Check() error {
	faults := []error{
		checkText("id", q.ID, record.MaxID), checkText("reason", q.Reason, maxPart), checkBody(q.Body), checkState(q.State),
		checkTime("from", q.From), checkTime("to", q.To),
	}
	if len(q.Topics) > maxTopics {
		faults = append(faults, fault.New("topics", "topics: there are %d; ask for up to %d", len(q.Topics), maxTopics))
	}
	if len(q.Headers) > maxHeaders {
		faults = append(faults, fault.New("headers", "headers: there are %d; ask for up to %d", len(q.Headers), maxHeaders))
	}
	for name, value := range q.Headers {
		faults = append(faults, fault.Renamed("headers", record.CheckHeader(name, value)))
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		faults = append(faults, fault.New("to", "to %s: it is not behind from, %s; give a later one", shown(q.To), shown(q.From)))
	}
	return errors.Join(faults...)
}

// checkText returns a Fault for a text that no row can have.
func checkText(field, text string, most int) error {
	switch {
	case len(text) > most:
		return fault.New(field, "%s: %d bytes; ask for up to %d", field, len(text), most)
	case !utf8.ValidString(text) || strings.Contains(text, "\x00"):
		return fault.New(field, "%s %q: use text without zero bytes", field, text)
	}
	return nil
}

func checkBody(part string) error {
	if len(part) > maxPart {
		return fault.New("body", "body: %d bytes; ask for a part of up to %d", len(part), maxPart)
	}
	return nil
}

func checkState(state string) error {
	if state == "" || slices.Contains(States(), state) {
		return nil
	}
	return fault.New("state", "state %.100q: use %s", state, strings.Join(States(), ", "))
}

func checkTime(field string, at time.Time) error {
	if !at.IsZero() && (at.Year() < 1 || at.Year() > 9999) {
		return fault.New(field, "%s %s: use a time up to the year 9999", field, shown(at))
	}
	return nil
}

func shown(t time.Time) string { return t.Format(time.RFC3339) }

// A selection is the condition of a statement, and its arguments.
type selection struct {
	where []string
	args  []any
}

// add adds a condition in which each ? stands for an argument.
func (s *selection) add(condition string, args ...any) {
	for _, arg := range args {
		s.args = append(s.args, arg)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(s.args)), 1)
	}
	s.where = append(s.where, condition)
}

// String returns the condition.
func (s *selection) String() string {
	if len(s.where) == 0 {
		return "true"
	}
	return strings.Join(s.where, " AND ")
}

// selection returns the condition of a query. Values are arguments, never text of the
// statement.
func (q Query) selection() *selection {
	s := &selection{}
	if len(q.Topics) > 0 {
		var names, patterns []string
		for _, p := range q.Topics {
			if topic, one := p.Topic(); one {
				names = append(names, topic)
			} else if p.String() != "" {
				patterns = append(patterns, expression(p))
			}
		}
		s.add("(topic = ANY (?::text[]) OR topic ~ ANY (?::text[]))", names, patterns)
	}
	for _, equal := range []struct{ column, value string }{{"id", q.ID}, {"state", q.State}} {
		if equal.value != "" {
			s.add(equal.column+" = ?", equal.value)
		}
	}
	if q.Reason != "" {
		s.add("strpos(reason, ?) > 0", q.Reason)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Headers)) { // in order, so that the driver knows the statement again
		s.add("EXISTS (SELECT FROM jsonb_each_text(headers) AS h WHERE lower(h.key) = lower(?) AND h.value = ?)", name, q.Headers[name])
	}
	if q.Body != "" {
		s.add("position(?::bytea IN body) > 0", []byte(q.Body))
	}
	if !q.From.IsZero() {
		s.add("ended >= ?", q.From)
	}
	if !q.To.IsZero() {
		s.add("ended < ?", q.To)
	}
	return s
}

// expression returns the regular expression of a pattern's topics.
func expression(p notify.Pattern) string {
	tokens := strings.Split(p.String(), ".")
	for i, token := range tokens {
		switch {
		case token == ">" && i == 0:
			tokens[i] = `[^.$].*`
		case token == ">":
			tokens[i] = `.+`
		case token == "*" && i == 0:
			tokens[i] = `[^.$][^.]*`
		case token == "*":
			tokens[i] = `[^.]+`
		default:
			tokens[i] = regexp.QuoteMeta(token)
		}
	}
	return "^" + strings.Join(tokens, `\.`) + "$"
}

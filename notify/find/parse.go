package find

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Bounds of a question.
const (
	MaxQuestion = 4096 // bytes
	maxTopics   = 32
	maxPart     = 128 // bytes of a part of a reason or a body: each byte of these may be compared with all of it
	maxHeaders  = 20
	maxStars    = 16 // of an id
)

const spaces = " \t\r\n"

// A Term is what a term begins with, and what it asks for.
type Term struct{ Begin, Asks string }

// Terms are all terms.
func Terms() []Term {
	return []Term{
		{"topic:", "of these topics, or of those of a pattern"},
		{"state:", "in states"},
		{"id:", "whose id is this, with * for any text"},
		{"key:", "with this key"},
		{"group:", "in this group, also of branches of the topics"},
		{"reason~", "that died of this"},
		{"header.NAME=", "with this header"},
		{"body~", "with this in the body"},
		{"due<", "due before a time"},
		{"due>", "due after a time"},
	}
}

const allTerms = "topic:order.* state:dead id:order-47* key:acct-7 group:import-7 reason~timeout header.NAME=VALUE body~4711 due<2026-12-01 due>-1h"

// Parse reads a question: see the package. The error is a notify.Fault of the field q, which
// tells the first character from which on the text makes no sense.
func Parse(text string) (Query, error) {
	if len(text) > MaxQuestion {
		return Query{}, fault.New("q", "q: %d bytes; ask with up to %d", len(text), MaxQuestion)
	}
	p := parser{text: text, seen: make(map[string]bool)}
	for p.skip(); p.at < len(text); p.skip() {
		if err := p.term(); err != nil {
			return Query{}, err
		}
	}
	if len(p.seen) == 0 {
		return Query{}, fault.New("q", "q: it is empty; ask with terms such as %s, or topic:> for all messages", allTerms)
	}
	return p.canonical(), nil
}

// canonical returns the question without what it says twice.
func (p *parser) canonical() Query {
	q := p.Query
	slices.SortFunc(q.topics, func(a, b notify.Pattern) int { return cmp.Compare(a.String(), b.String()) })
	q.topics = slices.CompactFunc(q.topics, func(a, b notify.Pattern) bool { return a.String() == b.String() })
	for i := range q.topics {
		if q.group != "" {
			q.topics[i] = q.topics[i].WithBranches()
		}
	}
	slices.Sort(q.states)
	q.states = slices.Compact(q.states)
	slices.SortFunc(q.headers, func(a, b header) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.value, b.value)) })
	q.headers = slices.Compact(q.headers)
	return q
}

// A parser reads one question.
type parser struct {
	Query
	text string
	at   int // the byte from which on it is not read yet
	seen map[string]bool
}

func (p *parser) skip() {
	for p.at < len(p.text) && strings.IndexByte(spaces, p.text[p.at]) >= 0 {
		p.at++
	}
}

// faultf returns a Fault about what stands at a byte.
func (p *parser) faultf(at int, format string, args ...any) error {
	word := p.text[at:]
	if end := strings.IndexAny(word, spaces); end > 0 {
		word = word[:end]
	}
	stands := fmt.Sprintf("%.60q", word)
	if at == len(p.text) {
		stands = "the end"
	}
	return fault.New("q", "q: at character %d stands %s: %s", utf8.RuneCountInString(p.text[:at])+1, stands, fmt.Sprintf(format, args...))
}

// term reads a term.
func (p *parser) term() error {
	begin := p.at
	name, sign, err := p.head()
	if err != nil {
		return err
	}
	if once := name + sign; !strings.HasPrefix(name, "header.") && p.seen[once] {
		return p.faultf(begin, "%s is there before; give it once", once)
	}
	p.seen[name+sign] = true
	start := p.at
	value, err := p.value()
	if err != nil {
		return err
	}
	if value == "" {
		return p.faultf(start, "the value of %s%s is missing; write it without a space before it", name, sign)
	}
	if wrong := p.set(name, sign, value); wrong != "" {
		return p.faultf(start, "%s", wrong)
	}
	return nil
}

// signs are the names of terms, and what may stand behind each.
var signs = map[string]string{"topic": ":", "state": ":", "id": ":", "key": ":", "group": ":", "reason": "~", "body": "~", "due": "<>"}

// headerName is the name of a header, a token of RFC 9110, behind header and a dot.
var headerName = regexp.MustCompile("^header\\.([!#$%&'*+.^_`|~0-9A-Za-z-]+)=")

// head reads the name of a term and the sign behind it.
func (p *parser) head() (name, sign string, err error) {
	rest := p.text[p.at:]
	if found := headerName.FindString(rest); found != "" {
		p.at += len(found)
		return found[:len(found)-1], "=", nil
	}
	end := strings.IndexAny(rest, spaces+`:~=<>"`)
	if end < 0 {
		end = len(rest)
	}
	name = rest[:end]
	if strings.HasPrefix(name, "header") {
		return "", "", p.faultf(p.at, "write header.NAME=VALUE, such as header.tenant=acme")
	}
	allowed, known := signs[name]
	if !known {
		return "", "", p.unknown(name, end < len(rest) && !strings.ContainsRune(spaces+`"`, rune(rest[end])))
	}
	if end == len(rest) || !strings.Contains(allowed, rest[end:end+1]) {
		return "", "", p.faultf(p.at+end, "behind %s stands %s", name, strings.Join(strings.Split(allowed, ""), " or "))
	}
	p.at += end + 1
	return name, rest[end : end+1], nil
}

// unknown returns the Fault of a word that is no term. It has a sign if it looks like one.
func (p *parser) unknown(name string, hasSign bool) error {
	if !hasSign {
		return p.faultf(p.at, "it is no term; write id:WORD* or body~WORD, with double quotes around what has spaces. Terms are %s", allTerms)
	}
	for _, known := range []string{"topic", "state", "id", "key", "group", "reason", "body", "due", "header"} {
		if near(strings.ToLower(name), known) {
			return p.faultf(p.at, "no term is called that; did you mean %s? Terms are %s", known, allTerms)
		}
	}
	return p.faultf(p.at, "no term is called that; terms are %s", allTerms)
}

// near reports whether a word becomes another one by up to two letters that are changed, added or left out.
func near(a, b string) bool {
	if len(a) > len(b)+2 {
		return false
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)] <= min(2, len(b)/2)
}

// value reads a value, in quotes or without.
func (p *parser) value() (string, error) {
	rest := p.text[p.at:]
	if !strings.HasPrefix(rest, `"`) {
		end := strings.IndexAny(rest, spaces+`"`)
		if end < 0 {
			end = len(rest)
		}
		p.at += end
		if end < len(rest) && rest[end] == '"' {
			return "", p.faultf(p.at, `put the whole value in double quotes, and \ before each quote in it`)
		}
		return rest[:end], nil
	}
	return p.inQuotes(rest)
}

// inQuotes reads a value in quotes.
func (p *parser) inQuotes(rest string) (string, error) {
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			if p.at += i + 1; p.at < len(p.text) && strings.IndexByte(spaces, p.text[p.at]) < 0 {
				return "", p.faultf(p.at, `put a space between terms, and \ before a quote in a value`)
			}
			return b.String(), nil
		case c == '\\' && (i+1 == len(rest) || rest[i+1] != '"' && rest[i+1] != '\\'):
			return "", p.faultf(p.at+i, `in quotes write \\ for a backslash, and \" for a quote`)
		case c == '\\':
			i++
			b.WriteByte(rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", p.faultf(len(p.text), "the quote at character %d is not closed; end the value with a double quote", utf8.RuneCountInString(p.text[:p.at])+1)
}

// set sets what a term asks for, and returns what is wrong with its value.
func (p *parser) set(name, sign, value string) (wrong string) {
	switch name {
	case "topic":
		return p.setTopics(value)
	case "state":
		return p.setStates(value)
	case "id":
		p.id = stars.ReplaceAllString(value, "*")
		return wrongID(p.id)
	case "key":
		p.key = value
		return wrongKey(value)
	case "group":
		p.group = value
		return wrongGroup(value)
	case "reason":
		p.reason = value
		return wrongPart(value)
	case "body":
		p.body = value
		return wrongPart(value)
	case "due":
		return p.setDue(sign, value)
	}
	return p.setHeader(strings.TrimPrefix(name, "header."), value)
}

func (p *parser) setTopics(value string) (wrong string) {
	texts := strings.Split(value, ",")
	if len(texts) > maxTopics {
		return fmt.Sprintf("there are %d topics; give up to %d", len(texts), maxTopics)
	}
	for _, text := range texts {
		pattern, err := notify.ParsePattern(text)
		if err != nil {
			return fmt.Sprintf("%.140q is no topic; use tokens of letters, digits, _ and - joined by single dots, * for any one, "+
				"> at the end for one or more, and commas between several", text)
		}
		p.topics = append(p.topics, pattern)
	}
	return ""
}

func (p *parser) setStates(value string) (wrong string) {
	for text := range strings.SplitSeq(value, ",") {
		state, err := record.ParseState(text)
		if err != nil {
			return fmt.Sprintf("%.60q is no state; use scheduled, ready, blocked, leased, dead or done, with commas between several", text)
		}
		p.states = append(p.states, state)
	}
	return ""
}

var (
	stars     = regexp.MustCompile(`\*+`)
	idGrammar = regexp.MustCompile(`^[A-Za-z0-9._~:*-]+$`)
)

func wrongID(id string) string {
	switch n := strings.Count(id, "*"); {
	case len(id)-n > record.MaxID:
		return fmt.Sprintf("an id has at most %d bytes", record.MaxID)
	case n > maxStars:
		return fmt.Sprintf("there are %d stars; use up to %d", n, maxStars)
	case !idGrammar.MatchString(id):
		return "an id has letters, digits and . _ ~ : - alone; * stands for any text"
	}
	return ""
}

func wrongKey(key string) string {
	if strings.Contains(key, "*") || wrongID(key) != "" {
		return fmt.Sprintf("a key has up to %d letters, digits and . _ ~ : - alone, and is asked for whole", record.MaxID)
	}
	return ""
}

func wrongGroup(group string) string {
	if _, _, err := record.SplitGroup("t:" + group); err != nil {
		return "a group has 1 to 128 letters, digits and . _ ~ : - alone, not ~ first, and is asked for whole, without its topic"
	}
	return ""
}

func wrongPart(value string) string {
	if len(value) > maxPart {
		return fmt.Sprintf("it has %d bytes; look for a part of up to %d", len(value), maxPart)
	}
	return ""
}

func (p *parser) setHeader(name, value string) (wrong string) {
	if err := record.CheckHeaders(map[string]string{name: value}); err != nil {
		return "no header has such a value: it is printable UTF-8 text"
	}
	if p.headers = append(p.headers, header{name, value}); len(p.headers) > maxHeaders {
		return fmt.Sprintf("that is one header too many; ask for up to %d", maxHeaders)
	}
	return ""
}

const howTimes = "write a day of UTC such as 2026-12-01, a time such as 2026-12-01T15:04:05Z, now, or how long from now, such as -1h, +30m or +2d"

// setDue sets a bound of the due time.
func (p *parser) setDue(sign, value string) (wrong string) {
	m, ok := readMoment(value)
	if !ok {
		return howTimes
	}
	if !m.at.IsZero() && (m.at.Before(time.UnixMilli(0)) || m.at.After(record.MaxDue)) {
		return "it is before 1970, or past the year 9999"
	}
	if sign == "<" {
		p.before = m
	} else {
		p.after = m
	}
	return ""
}

// readMoment reads a moment, and reports whether it is one.
func readMoment(value string) (*moment, bool) {
	if value == "now" {
		return &moment{text: "now"}, true
	}
	if strings.HasPrefix(value, "-") || strings.HasPrefix(value, "+") {
		in, err := fields.ParseDuration("q", value)
		return &moment{in: in, text: value}, err == nil
	}
	at, err := time.Parse(time.DateOnly, value)
	if err != nil {
		at, err = fields.ParseTime("q", value)
	}
	at = at.UTC()
	text := at.Format(time.RFC3339Nano)
	if at.Equal(at.Truncate(24 * time.Hour)) {
		text = at.Format(time.DateOnly)
	}
	return &moment{at: at, text: text}, err == nil && !at.IsZero()
}

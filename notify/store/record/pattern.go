package record

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A Pattern names a topic, or many: a token * stands for any one token, and >
// at the end for one or more (so do the subjects of NATS). A topic of the system, such
// as $dead.orders, is only named by a pattern that begins as it does, such as $dead.>.
// The zero Pattern matches nothing.
type Pattern struct {
	text     string
	tokens   []string // nil if text is a topic
	branches bool     // it names the branches of what it names, too
}

// ParsePattern reads a pattern such as prices, prices.* or prices.>. The error is a
// Fault.
func ParsePattern(text string) (Pattern, error) {
	if !strings.ContainsAny(text, "*>") {
		return Pattern{text: text}, fault.Renamed("pattern", CheckAnyTopic(text))
	}
	of, dead := strings.CutPrefix(text, DeadPrefix)
	if len(of) > MaxTopic {
		return Pattern{}, fault.New("pattern", "pattern: %d bytes; at most %d are allowed", len(of), MaxTopic)
	}
	if strings.Contains(of, "@") {
		return Pattern{}, fault.New("pattern", "pattern %q: write a branch out, such as order.paid@mail", text)
	}
	tokens := strings.Split(of, ".")
	for i, token := range tokens {
		last := i == len(tokens)-1
		if token != "*" && (token != ">" || !last) && CheckTopic(token) != nil {
			return Pattern{}, fault.New("pattern", "pattern %q: use tokens of letters, digits, _ and - joined by single dots, * in the place of any one token, and > at the end for one or more", text)
		}
	}
	if dead {
		tokens = slices.Insert(tokens, 0, strings.TrimSuffix(DeadPrefix, "."))
	}
	return Pattern{text: text, tokens: tokens}, nil
}

// WithBranches returns the pattern that names what this one does, and all branches of it.
func (p Pattern) WithBranches() Pattern {
	p.branches = true
	return p
}

// String returns the pattern as it was read.
func (p Pattern) String() string { return p.text }

// Topic returns the topic, if the pattern names only one.
func (p Pattern) Topic() (topic string, ok bool) { return p.text, p.tokens == nil && p.text != "" }

// Match reports whether the pattern names a topic.
func (p Pattern) Match(topic string) bool {
	if of, _ := SplitBranch(topic); p.branches && of != topic && p.Match(of) {
		return true
	}
	if p.tokens == nil {
		return topic == p.text && topic != ""
	}
	if strings.HasPrefix(topic, "$") != strings.HasPrefix(p.text, "$") {
		return false
	}
	for i, token := range p.tokens {
		if token == ">" {
			return topic != ""
		}
		part, rest, more := strings.Cut(topic, ".")
		if part == "" || token != "*" && token != part {
			return false
		}
		if topic = rest; !more {
			return i == len(p.tokens)-1
		}
	}
	return false
}

// Takes reports whether a push of the pattern takes a topic's messages: as Match, but a pattern of many topics takes no branch. Those who had the
// topic's own messages would take those of its branches away.
func (p Pattern) Takes(topic string) bool {
	_, branch := SplitBranch(topic)
	return p.Match(topic) && (branch == "" || p.text == topic)
}

// Covers reports whether the pattern names every topic that another one names.
func (p Pattern) Covers(other Pattern) bool {
	if topic, one := other.Topic(); one {
		return p.Match(topic)
	}
	if strings.HasPrefix(other.text, "$") != strings.HasPrefix(p.text, "$") {
		return false
	}
	for i, token := range p.tokens {
		switch {
		case i >= len(other.tokens):
			return false
		case token == ">":
			return true
		case other.tokens[i] == ">", token != "*" && token != other.tokens[i]:
			return false
		}
	}
	return len(p.tokens) > 0 && len(p.tokens) == len(other.tokens)
}

// Overlaps reports whether some topic could be named by the pattern and by another one.
func (p Pattern) Overlaps(other Pattern) bool {
	if topic, one := p.Topic(); one {
		return other.Match(topic)
	}
	if topic, one := other.Topic(); one {
		return p.Match(topic)
	}
	if strings.HasPrefix(other.text, "$") != strings.HasPrefix(p.text, "$") {
		return false
	}
	for i, token := range p.tokens {
		switch {
		case i >= len(other.tokens):
			return false
		case token == ">", other.tokens[i] == ">":
			return true
		case token != "*" && other.tokens[i] != "*" && token != other.tokens[i]:
			return false
		}
	}
	return len(p.tokens) > 0 && len(p.tokens) == len(other.tokens)
}

// JustBehind, appended to a name, makes the next name that there can be.
const JustBehind = "\x00"

// Names is a range of topics' names, From included and To excluded.
type Names struct{ From, To string }

// names returns a range that has all names that the pattern matches: those that
// begin as the pattern does up to its first wildcard.
func (p Pattern) names() Names {
	if topic, one := p.Topic(); one && p.branches {
		return Names{From: topic, To: topic + "A"} // the byte after an @
	} else if one {
		return Names{From: topic, To: topic + JustBehind}
	}
	begin := p.text[:strings.IndexAny(p.text, "*>")]
	if begin == "" {
		return ordinary
	}
	return Names{From: begin, To: begin[:len(begin)-1] + "/"} // the byte after a dot
}

// ordinary is a range that has all names but those of the system.
var ordinary = Names{From: "%", To: "\xff"} // the byte after a $

// NamesOf returns ranges that have all names that some patterns match, in order and
// without overlap; without patterns all but those of the system.
func NamesOf(patterns []Pattern) []Names {
	if len(patterns) == 0 {
		return []Names{ordinary}
	}
	spans := make([]Names, 0, len(patterns))
	for _, p := range patterns {
		spans = append(spans, p.names())
	}
	slices.SortFunc(spans, func(a, b Names) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	merged := spans[:1]
	for _, s := range spans[1:] {
		if last := &merged[len(merged)-1]; s.From <= last.To {
			last.To = max(last.To, s.To)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

package notify

import (
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
)

// A Pattern names a topic, or many: a token * stands for any one token, and >
// at the end for one or more (so do the subjects of NATS). The zero Pattern
// matches nothing.
type Pattern struct {
	text   string
	tokens []string // nil where text is a topic
}

// ParsePattern reads a pattern such as prices, prices.* or prices.>. The error
// is a Fault that says what is wrong.
func ParsePattern(text string) (Pattern, error) {
	if !strings.ContainsAny(text, "*>") {
		return Pattern{text: text}, store.Renamed("pattern", CheckTopic(text))
	}
	if len(text) > MaxTopic {
		return Pattern{}, Faultf("pattern", "pattern: %d bytes; at most %d are allowed", len(text), MaxTopic)
	}
	tokens := strings.Split(text, ".")
	for i, token := range tokens {
		last := i == len(tokens)-1
		if token != "*" && (token != ">" || !last) && CheckTopic(token) != nil {
			return Pattern{}, Faultf("pattern", "pattern %q: use tokens of letters, digits, _ and - joined by single dots, * in the place of any one token, and > at the end for one or more", text)
		}
	}
	return Pattern{text, tokens}, nil
}

// String returns the pattern as it was read.
func (p Pattern) String() string { return p.text }

// Topic returns the topic, if the pattern names only one.
func (p Pattern) Topic() (topic string, ok bool) { return p.text, p.tokens == nil && p.text != "" }

// Match reports whether the pattern names a topic.
func (p Pattern) Match(topic string) bool {
	if p.tokens == nil {
		return topic == p.text && topic != ""
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

// Covers reports whether the pattern names every topic that another one names.
func (p Pattern) Covers(other Pattern) bool {
	if topic, one := other.Topic(); one {
		return p.Match(topic)
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

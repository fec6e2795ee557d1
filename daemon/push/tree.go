package push

import (
	"strings"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// A tree finds the target of a topic among those of patterns, of which only those of one push may name the same topic. The zero tree has
// none.
type tree struct {
	next map[string]*tree // by the next token
	here *target          // of a pattern that ends here
	rest *target          // of one that goes on with a >
}

// add adds the target of a pattern.
func (n *tree) add(p record.Pattern, t *target) {
	for token := range strings.SplitSeq(p.String(), ".") {
		if token == ">" {
			n.rest = t
			return
		}
		if n.next == nil {
			n.next = make(map[string]*tree)
		}
		if n.next[token] == nil {
			n.next[token] = &tree{}
		}
		n = n.next[token]
	}
	n.here = t
}

// of returns the target of a topic; nil if no pattern takes it.
func (n *tree) of(topic string) *target {
	if _, branch := record.SplitBranch(topic); branch != "" {
		return nil // no pattern of many topics takes one
	}
	if topic == "" {
		return n.here
	}
	token, rest, _ := strings.Cut(topic, ".")
	for _, way := range []string{token, "*"} {
		if next := n.next[way]; next != nil {
			if t := next.of(rest); t != nil {
				return t
			}
		}
	}
	return n.rest
}

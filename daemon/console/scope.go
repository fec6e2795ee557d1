package console

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A scope is the topics that a viewer sees and that a pattern names.
type scope struct {
	patterns []notify.Pattern // that name them all, and maybe others
	sees     func(topic string) bool
	filter   notify.Pattern // > without a filter
	key      string         // the same for all viewers of the same topics
}

// has reports whether a topic is in the scope.
func (s scope) has(topic string) bool {
	return record.CheckAnyTopic(topic) == nil && s.filter.Match(topic) && s.sees(topic)
}

// scope returns the topics that a viewer sees of those that a pattern names; empty: of all.
// The error is a Fault.
func (v *visit) scope(pattern string) (scope, error) {
	filter, err := notify.ParsePattern(cmp.Or(pattern, ">"))
	if err != nil {
		return scope{}, err
	}
	s := scope{sees: v.Sees, filter: filter}
	for _, own := range v.Patterns {
		switch {
		case v.Everything, own.Covers(filter):
			s.patterns = []notify.Pattern{filter}
			s.key = filter.String()
			return s, nil
		case own.Overlaps(filter):
			s.patterns = append(s.patterns, own)
		}
	}
	texts := make([]string, len(s.patterns))
	for i, p := range s.patterns {
		texts[i] = p.String()
	}
	slices.Sort(texts)
	s.key = filter.String() + " of " + strings.Join(texts, ",")
	return s, nil
}

// A topicsPart is the names of a table of topics, in its order.
type topicsPart struct {
	names  []string
	next   string // name behind which the next page begins, where the order is by name
	covers string
}

// notableIn returns the names of lists that are in a scope, each once.
func notableIn(in scope, known map[string]bool, lists [][]notify.Notable) (names []string) {
	for _, list := range lists {
		for _, n := range list {
			if !known[n.Topic] && !strings.HasPrefix(n.Topic, "$") && in.has(n.Topic) {
				known[n.Topic] = true
				names = append(names, n.Topic)
			}
		}
	}
	return names
}

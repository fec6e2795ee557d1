package notify

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify/store"
)

const (
	namesPage  = 1000 // names read in one call
	rangesPage = 500  // ranges of names looked at in one call
	mostLooked = 2000 // names looked at for a page of topics, where patterns leave many out
)

// A span is a range of names: from its first one on, up to one that is no more of it.
type span = store.Names

// A topic is a span of its own: nothing comes between a name and the same with a NUL behind.
const justBehind = "\x00"

// span returns the names among which all are that the pattern names: those that
// begin as it does up to its first wildcard.
func (p Pattern) span() span {
	if topic, one := p.Topic(); one {
		return span{From: topic, To: topic + justBehind}
	}
	begin := p.text[:strings.IndexAny(p.text, "*>")]
	if begin == "" {
		return span{To: "\xff"}
	}
	return span{From: begin, To: begin[:len(begin)-1] + "/"} // which is what comes behind a dot
}

// spansOf returns the names among which all are that some patterns name, in
// order and none twice.
func spansOf(patterns []Pattern) []span {
	if len(patterns) == 0 {
		return []span{{To: "\xff"}}
	}
	spans := make([]span, 0, len(patterns))
	for _, p := range patterns {
		spans = append(spans, p.span())
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
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

// A lookup goes through the names of topics in order.
type lookup struct {
	store    *Store
	patterns []Pattern // none: all
	spans    []span    // that are left
	looked   int
}

func (p *Publisher) lookup(after string, patterns []Pattern) *lookup {
	l := &lookup{store: p.store, patterns: patterns, spans: spansOf(patterns)}
	if after != "" {
		l.goOnBehind(after)
	}
	return l
}

// goOnBehind leaves out what comes before a name, and that.
func (l *lookup) goOnBehind(name string) {
	l.spans = slices.DeleteFunc(l.spans, func(s span) bool { return s.To <= name+justBehind })
	if len(l.spans) > 0 {
		l.spans[0].From = max(l.spans[0].From, name+justBehind)
	}
}

// next returns the next names that are wanted, after it looked at some at the
// most, and the last one that it looked at: "" at the end. What is foreign is left out.
func (l *lookup) next(ctx context.Context, most int) (names []string, last string, err error) {
	ranges := min(len(l.spans), rangesPage)
	looked, err := l.store.Only().TopicNames(ctx, most, l.spans[:ranges])
	if err != nil {
		return nil, "", err
	}
	l.looked += len(looked)
	for _, last = range looked {
		if l.wants(last) {
			names = append(names, last)
		}
	}
	if len(looked) == most {
		l.goOnBehind(last)
	} else {
		l.spans = l.spans[ranges:]
	}
	return names, last, nil
}

func (l *lookup) wants(topic string) bool {
	return CheckTopic(topic) == nil &&
		(len(l.patterns) == 0 || slices.ContainsFunc(l.patterns, func(p Pattern) bool { return p.Match(topic) }))
}

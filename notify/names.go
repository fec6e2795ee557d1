package notify

import (
	"context"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
)

const (
	namesPage  = 1000 // names read in one call
	rangesPage = 500  // ranges of names read in one call
	mostRead   = 2000 // names read for a page of topics if patterns leave many out
)

// A lookup goes through the names of topics in order.
type lookup struct {
	store    *Store
	patterns []Pattern     // none: all
	spans    []store.Names // not read yet
	read     int           // names
}

func (i *Inspector) lookup(after string, patterns []Pattern) *lookup {
	l := &lookup{store: i.store, patterns: patterns, spans: store.NamesOf(patterns)}
	if after != "" {
		l.goOnBehind(after)
	}
	return l
}

// goOnBehind skips a name and all before it.
func (l *lookup) goOnBehind(name string) {
	l.spans = slices.DeleteFunc(l.spans, func(s store.Names) bool { return s.To <= name+store.JustBehind })
	if len(l.spans) > 0 {
		l.spans[0].From = max(l.spans[0].From, name+store.JustBehind)
	}
}

// next reads up to most names. It returns those that are wanted, without foreign ones,
// and the last one that it read: "" at the end.
func (l *lookup) next(ctx context.Context, most int) (names []string, last string, err error) {
	ranges := min(len(l.spans), rangesPage)
	read, err := l.store.Only().TopicNames(ctx, most, l.spans[:ranges])
	if err != nil {
		return nil, "", err
	}
	l.read += len(read)
	for _, last = range read {
		if l.wants(last) {
			names = append(names, last)
		}
	}
	if len(read) == most {
		l.goOnBehind(last)
	} else {
		l.spans = l.spans[ranges:]
	}
	return names, last, nil
}

func (l *lookup) wants(topic string) bool {
	return store.CheckAnyTopic(topic) == nil &&
		(len(l.patterns) == 0 || slices.ContainsFunc(l.patterns, func(p Pattern) bool { return p.Match(topic) }))
}

package notify

import (
	"context"
	"errors"
	"slices"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	namesPage  = 1000 // names read in one call
	rangesPage = 500  // ranges of names read in one call
	mostRead   = 2000 // names read for a page of topics if patterns leave many out
)

// A lookup goes through the names of topics of all shards in order.
type lookup struct {
	patterns []Pattern      // none: all
	spans    []record.Names // not read yet
	read     int            // names

	shards  []store.Shard // those that answer
	missing error         // a MissingError of the others; nil: there are none
}

// lookup returns a lookup behind a name. The error is that of the connection.
func (i *Inspector) lookup(ctx context.Context, after string, patterns []Pattern) (*lookup, error) {
	shards, err := i.store.Shards(ctx)
	l := &lookup{patterns: patterns, spans: record.NamesOf(patterns), shards: shards}
	if after != "" {
		l.goOnBehind(after)
	}
	return l, err
}

// goOnBehind skips a name and all before it.
func (l *lookup) goOnBehind(name string) {
	l.spans = slices.DeleteFunc(l.spans, func(s record.Names) bool { return s.To <= name+record.JustBehind })
	if len(l.spans) > 0 {
		l.spans[0].From = max(l.spans[0].From, name+record.JustBehind)
	}
}

// next reads up to most names of each shard. It returns those that are wanted, without
// foreign ones, and the last one that it read: "" at the end. It notes shards that do not
// answer, and goes on without them; if none answers it returns the error of the first.
func (l *lookup) next(ctx context.Context, most int) (names []string, last string, err error) {
	ranges := min(len(l.spans), rangesPage)
	read, more, err := l.names(ctx, most, l.spans[:ranges])
	if err != nil {
		return nil, "", err
	}
	l.read += len(read)
	for _, last = range read {
		if l.wants(last) {
			names = append(names, last)
		}
	}
	if more {
		l.goOnBehind(last)
	} else {
		l.spans = l.spans[ranges:]
	}
	return names, last, nil
}

// names returns the first names in some ranges, sorted, and whether there may be more:
// then at least most, and none behind a name that a shard may have and was not read.
func (l *lookup) names(ctx context.Context, most int, ranges []record.Names) (all []string, more bool, err error) {
	pages, err := store.GatherFrom(ctx, l.shards, func(ctx context.Context, shard store.Shard) ([]string, error) {
		return shard.TopicNames(ctx, most, ranges)
	})
	if err = l.leaveOut(err); err != nil {
		return nil, false, err
	}
	upTo := ""
	for _, page := range pages {
		all = append(all, page...)
		if len(page) == most && (!more || page[most-1] < upTo) {
			upTo, more = page[most-1], true
		}
	}
	if len(pages) > 1 {
		slices.Sort(all)
		all = slices.Compact(all)
	}
	if end, there := slices.BinarySearch(all, upTo); more && there {
		all = all[:end+1]
	}
	return all, more, nil
}

// leaveOut leaves out the shards that a MissingError names from now on. It returns any
// other error.
func (l *lookup) leaveOut(err error) error {
	var missing *store.MissingError
	if !errors.As(err, &missing) {
		return err
	}
	l.missing = store.Missing(l.missing, err)
	l.shards = slices.DeleteFunc(l.shards, func(s store.Shard) bool { return slices.Contains(missing.Shards, s.Number()) })
	return nil
}

func (l *lookup) wants(topic string) bool {
	return record.CheckAnyTopic(topic) == nil &&
		(len(l.patterns) == 0 || slices.ContainsFunc(l.patterns, func(p Pattern) bool { return p.Match(topic) }))
}

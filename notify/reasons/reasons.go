// Package reasons tells what dead letters died of.
package reasons

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	perPage = 1000   // reasons that one call reads
	most    = 10_000 // different reasons that are counted
	length  = 200    // bytes of a reason that count
)

// others counts all further reasons, under the topic "*".
const others = "other reasons"

// A Reason is why dead letters of a topic died, and how many did.
type Reason struct {
	Topic  string `json:"topic"`
	Reason string `json:"reason"` // with # for each number and name in it, such as order-4711
	Dead   int64  `json:"dead"`   // letters
}

// Count counts all dead letters of a store by topic and reason, the most frequent first.
// Reasons count as one if they differ only in words of four or more letters and digits
// that contain a digit: "no such order 4711" becomes "no such order #". After 10,000
// reasons, all further ones are counted as "other reasons" of the topic "*". Dead
// letters that come or go meanwhile may be missing. Count calls on, which may be
// nil, with the total after each page. The error is a notify.Fault for a nil store, or that
// of the connection; or a notify.MissingError beside what was counted, which lacks letters
// of those shards.
func Count(ctx context.Context, s *notify.Store, on func(total int)) ([]Reason, error) {
	if err := store.CheckStore(s); err != nil {
		return nil, err
	}
	all := census{counted: make(map[Reason]int64), on: on}
	_, err := store.Gather(ctx, s, func(ctx context.Context, shard store.Shard) (struct{}, error) {
		return struct{}{}, all.visit(ctx, shard)
	})
	if err != nil {
		err = fmt.Errorf("count dead letters: %w", err)
	}
	if err != nil && !store.IsPartial(err) {
		return nil, err
	}
	return byCount(all.counted), err
}

// A census counts the dead letters of all shards.
type census struct {
	on func(total int) // nil: nobody wants to know

	mu      sync.Mutex
	counted map[Reason]int64
	total   int
}

// visit counts the dead letters of a shard.
func (c *census) visit(ctx context.Context, shard store.Shard) error {
	for cursor := uint64(0); ; {
		page, next, err := shard.Reasons(ctx, cursor, perPage)
		if err != nil {
			return err
		}
		c.add(page)
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// add counts a page.
func (c *census) add(page []store.Buried) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, dead := range page {
		kind := kindOf(dead.Member, dead.Reason)
		if _, known := c.counted[kind]; !known && len(c.counted) >= most {
			kind = Reason{Topic: "*", Reason: others}
		}
		c.counted[kind]++
	}
	c.total += len(page)
	if c.on != nil {
		c.on(c.total)
	}
}

// nameWords matches words with a digit: they name one thing, not a kind of things.
var nameWords = regexp.MustCompile(`[0-9A-Za-z]*[0-9][0-9A-Za-z]*`)

// kindOf returns the Reason that a dead letter counts for. A foreign member has the
// topic _.
func kindOf(member, reason string) Reason {
	topic, _, ours := strings.Cut(member, ":")
	if !ours {
		topic = "_"
	}
	reason = store.Headline(reason)
	reason = strings.ToValidUTF8(reason[:min(len(reason), length)], "")
	return Reason{Topic: topic, Reason: nameWords.ReplaceAllStringFunc(reason, func(word string) string {
		if len(word) < 4 {
			return word
		}
		return "#"
	})}
}

// Of returns the Reason that a dead letter counts for.
func Of(letter notify.Info) Reason {
	kind := kindOf(record.Member(letter.Topic, letter.ID), letter.Reason)
	kind.Dead = 1
	return kind
}

// byCount returns the counted reasons, the most frequent first.
func byCount(counted map[Reason]int64) []Reason {
	reasons := make([]Reason, 0, len(counted))
	for kind, n := range counted {
		kind.Dead = n
		reasons = append(reasons, kind)
	}
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Dead, a.Dead), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Reason, b.Reason))
	})
	return reasons
}

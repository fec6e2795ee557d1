package model_test

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// A config is a way in which calls may have happened so far: the state that they led to,
// and which of the calls that are under way have happened.
type config struct {
	state
	happened uint64
}

// A search looks for an order of the calls on one id in which a model gives their
// answers. It keeps all ways in which what ended so far may have happened, and when a
// call ends, lets calls happen until that one has (G. Lowe, Testing for
// linearizability, 2017). A call that was not answered need not have happened.
type search struct {
	open  [64]*call // calls under way
	free  uint64
	slots map[*call]int
	ways  map[config]bool
}

// An edge is the begin or the end of a call.
type edge struct {
	at    int64
	isEnd bool
	call  *call
}

// check returns an error unless there is such an order.
func check(calls []call) error {
	edges := make([]edge, 0, 2*len(calls))
	for i := range calls {
		c := &calls[i]
		edges = append(edges, edge{c.Begin, false, c}, edge{c.End, true, c})
	}
	slices.SortStableFunc(edges, func(a, b edge) int {
		if a.at == b.at && a.isEnd != b.isEnd {
			return map[bool]int{false: -1, true: 1}[a.isEnd]
		}
		return cmp.Compare(a.at, b.at)
	})
	s := search{free: ^uint64(0), slots: make(map[*call]int), ways: map[config]bool{{}: true}}
	for i, e := range edges {
		if !e.isEnd {
			if s.free == 0 {
				return fmt.Errorf("more than 64 calls on one id are under way")
			}
			slot := bits.TrailingZeros64(s.free)
			s.free &^= 1 << slot
			s.open[slot], s.slots[e.call] = e.call, slot
			continue
		}
		before := s.ways
		if s.end(e.call); len(s.ways) == 0 {
			return wrong(before, edges[:i+1])
		}
	}
	return nil
}

// end lets a call that ends have happened in all ways.
func (s *search) end(c *call) {
	slot := s.slots[c]
	bit := uint64(1) << slot
	ended, seen := make(map[config]bool), make(map[config]bool)
	var happen func(config)
	happen = func(way config) {
		if way.happened&bit != 0 {
			way.happened &^= bit
			ended[way] = true
			return
		}
		if seen[way] {
			return
		}
		seen[way] = true
		for i, other := range s.open {
			if other == nil || way.happened&(1<<i) != 0 {
				continue
			}
			for _, from := range way.lapsed(other) {
				if to, right := from.after(other); right {
					happen(config{to, way.happened | 1<<i})
				}
			}
		}
	}
	for way := range s.ways {
		happen(way)
		if !c.Answered {
			ended[config{way.state, way.happened &^ bit}] = true
		}
	}
	s.ways, s.open[slot] = ended, nil
	s.free |= bit
	delete(s.slots, c)
}

// wrong returns the error of a call whose answer no order explains.
func wrong(ways map[config]bool, edges []edge) error {
	last := edges[len(edges)-1].call
	text := fmt.Sprintf("no order of the calls explains the answer of the last one:\n%+v\nBefore it ended the id may have been:\n", *last)
	for way := range ways {
		text += fmt.Sprintf("%+v\n", way)
	}
	text += "Calls before:\n"
	for _, e := range edges[max(0, len(edges)-60) : len(edges)-1] {
		if e.isEnd || e.call.End >= last.Begin {
			text += fmt.Sprintf("%v %+v\n", e.isEnd, *e.call)
		}
	}
	return fmt.Errorf("%s", text)
}

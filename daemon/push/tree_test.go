package push

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The tree finds the target of a topic that its pattern matches, and none for others.
func TestTree(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	name := func(tokens ...string) string {
		parts := make([]string, 1+random.IntN(4))
		for i := range parts {
			parts[i] = tokens[random.IntN(len(tokens))]
		}
		return strings.Join(parts, ".")
	}
	for range 2000 {
		var n tree
		var patterns []record.Pattern
		for range 8 {
			text := name("a", "b", "c", "*")
			if random.IntN(3) == 0 {
				text += ".>"
			}
			p, err := record.ParsePattern(text)
			storetest.Must(t, err)
			overlaps := false
			for _, other := range patterns {
				overlaps = overlaps || p.Overlaps(other)
			}
			if !overlaps {
				patterns = append(patterns, p)
				n.add(p, &target{Push: store.Push{Name: text}})
			}
		}
		for range 50 {
			topic, want := name("a", "b", "c", "d"), ""
			for _, p := range patterns {
				if p.Match(topic) {
					want = p.String()
				}
			}
			got := n.of(topic)
			if got == nil && want != "" || got != nil && got.Name != want {
				t.Fatalf("%s of %v: got %v, want %q", topic, patterns, got, want)
			}
		}
	}
}

// BenchmarkTree measures how long it takes to find one of a thousand patterns.
func BenchmarkTree(b *testing.B) {
	var n tree
	for i := range 1000 {
		p, err := record.ParsePattern(fmt.Sprintf("order.%d.*", i))
		storetest.Must(b, err)
		n.add(p, &target{})
	}
	for b.Loop() {
		if n.of("order.500.paid") == nil {
			b.Fatal("it is not found")
		}
	}
}

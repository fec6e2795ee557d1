package reach

import (
	"fmt"
	"math/bits"
	"testing"
)

// The tags of eight shards, in even and in odd epochs.
func TestTags(t *testing.T) {
	golden := [2][]string{{"0/8.22", "1/8.3", "2/8.4", "3/8.23"}, {"0/8.26", "1/8.7", "2/8.8", "3/8.27"}}
	for epoch := range int64(4) {
		for k, want := range golden[epoch%2] {
			if got := tag(k, 8, epoch); got != want {
				t.Errorf("shard %d in epoch %d has the tag %s, want %s", k, epoch, got, want)
			}
		}
	}
	if got := tag(0, 1, 3); got != "0" {
		t.Errorf("the only shard has the tag %s", got)
	}
}

// On masters that hold equal parts of the slots none has more than one shard above the rest, and each has the same number where that is possible.
func TestTagsAreEven(t *testing.T) {
	for n := 8; n <= MaxShards; n *= 2 {
		for epoch := range int64(2) {
			at := make([]int, n) // the slots of the shards
			for k := range at {
				at[k] = slotOf(tag(k, n, epoch))
			}
			for _, masters := range []int{1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64} {
				most := (n + masters - 1) / masters
				if n%masters != 0 {
					most++
				}
				held := make([]int, masters)
				for _, slot := range at {
					held[slot*masters/slots]++
				}
				for _, shards := range held {
					if shards > most {
						t.Fatalf("%d shards on %d masters in epoch %d: %v", n, masters, epoch, held)
					}
				}
			}
		}
	}
}

// Each tag is short, of its own in both epochs, and in the middle of its part of the slots.
func FuzzTag(f *testing.F) {
	f.Add(uint8(0), uint8(3), int64(0))
	f.Add(uint8(255), uint8(8), int64(1))
	f.Fuzz(func(t *testing.T, k, power uint8, epoch int64) {
		n := 1 << (power%8 + 1)
		shard := int(k) % n
		epoch &= 1<<62 - 1
		got := tag(shard, n, epoch)
		if part := slots / n; slotOf(got)/part != shard || len(got) > 12 || got == tag(shard, n, epoch+1) {
			t.Errorf("shard %d of %d in epoch %d: %s", shard, n, epoch, got)
		}
	})
}

// A layout is read as it is written, and nothing else is one.
func FuzzLayoutIn(f *testing.F) {
	for _, text := range []string{"", "9 id", "9/8/0 id", "9/3/0 id", "9/1/0 id", "9/512/0 id", "8/8/0 id", "9/8/-1 id", "9/8 id", "9/08/0 id", "9/8/+1 id", "10 id"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, format, ok := layoutIn(text)
		if !ok {
			return
		}
		if l.shards < 1 || l.shards > MaxShards || bits.OnesCount(uint(l.shards)) != 1 || l.epoch < 0 || format < 1 {
			t.Errorf("%q is %+v of format %d", text, l, format)
		}
		if again, number, ok := layoutIn(l.mark(format) + "id"); !ok || again != l || number != format {
			t.Errorf("%q is %+v, and %q is %+v of format %d", text, l, l.mark(format), again, number)
		}
	})
}

// The values of a format key.
func TestLayoutIn(t *testing.T) {
	for text, want := range map[string]layout{"9 id": {shards: 1}, "9/8/0 id": {shards: 8}, "9/256/7 id": {256, 7}} {
		if got, format, ok := layoutIn(text); !ok || got != want || format != 9 {
			t.Errorf("%q is %+v of format %d, %v", text, got, format, ok)
		}
	}
	for _, text := range []string{"", "9", "9x id", "+9 id", "09 id", "0 id", "-9 id", "9/1/0 id", "9/3/0 id", "9/512/0 id", "9/8 id", "9/08/0 id", "9/8/-1 id", "9/8/x id", "9/8/0/1 id", "x"} {
		if got, format, ok := layoutIn(text); ok {
			t.Errorf("%q is %+v of format %d", text, got, format)
		}
	}
	if got := fmt.Sprint(layout{8, 3}.mark(9), layout{shards: 1}.mark(10)); got != "9/8/3 10 " {
		t.Errorf("the marks are %q", got)
	}
}

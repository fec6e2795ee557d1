package record_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// Ids of two processes sort by their milliseconds, and those of one ascend whatever its clock does.
func FuzzIDsSort(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0xff, 3}, int64(1763676000123))
	f.Add([]byte{0x80, 0x80, 0x80, 2}, int64(1<<36-3))
	f.Fuzz(func(t *testing.T, steps []byte, ms int64) {
		ms = ms & (1<<41 - 1) // leaves room before the year 2109
		var processes [2]record.IDs
		var last [2]string
		var reached [2]int64 // the latest clock of each process
		for i, step := range steps {
			at := i % 2
			ms = max(ms+int64(int8(step)), 0) // a step back sets both clocks back
			id := processes[at].Next(ms)
			if err := record.CheckID(id); err != nil || len(id) != 16 {
				t.Fatalf("id %q: %v", id, err)
			}
			if id <= last[at] {
				t.Fatalf("%q came after %q", id, last[at])
			}
			last[at], reached[at] = id, max(reached[at], ms)
			if got := record.TimeOfID(id); got.UnixMilli() != reached[at] {
				t.Fatalf("the time in %q is %v, want that of %d", id, got, reached[at])
			}
			if other := 1 - at; last[other] != "" && reached[at] != reached[other] && (reached[at] > reached[other]) != (id > last[other]) {
				t.Fatalf("%q of %d and %q of %d are in the wrong order", id, reached[at], last[other], reached[other])
			}
		}
	})
}

func TestTimeOfOtherTexts(t *testing.T) {
	for _, text := range []string{"", "order-4711", "id/is/of/16/byte", "+234567890123456"} {
		if got := record.TimeOfID(text); !got.IsZero() {
			t.Errorf("the time in %q is %v", text, got)
		}
	}
}

// Processes draw other random bits in the same millisecond, and each of the 54 bits is drawn.
func TestIDsAreRandom(t *testing.T) {
	seen := make(map[string]bool)
	drawn := make([]map[byte]bool, 16) // the characters at each place
	for range 10_000 {
		var process record.IDs
		id := process.Next(1763676000123)
		seen[id] = true
		for i := range drawn {
			if drawn[i] == nil {
				drawn[i] = make(map[byte]bool)
			}
			drawn[i][id[i]] = true
		}
	}
	if len(seen) != 10_000 {
		t.Errorf("only %d of 10000 ids are distinct", len(seen))
	}
	for i, characters := range drawn {
		if want := map[bool]int{true: 1, false: 64}[i < 7]; len(characters) != want {
			t.Errorf("place %d has %d characters, want %d", i, len(characters), want)
		}
	}
}

// When the random numbers of a millisecond are used up, ids go on in the next one.
func TestIDsOfAFullMillisecond(t *testing.T) {
	var one record.IDs
	for _, ms := range []int64{1763676000123, 1763676000191, 1<<36 - 1} {
		var other record.IDs
		first := one.Next(ms)
		one.Exhaust()
		if next, after := one.Next(ms), other.Next(ms+2); next <= first || next >= after {
			t.Errorf("%q, then %q, and two milliseconds later %q", first, next, after)
		}
		one = record.IDs{}
	}
}

// No id begins with a hyphen, which a command would take for a flag.
func TestIDsAreNoFlags(t *testing.T) {
	if id := record.NewID(); id[0] == '-' {
		t.Error(id)
	}
}

func TestIDsAreDistinct(t *testing.T) {
	const goroutines, each = 16, 62_500
	var all [goroutines][]string
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			for range each {
				all[i] = append(all[i], record.NewID())
			}
		})
	}
	running.Wait()
	for _, ids := range all {
		if !slices.IsSorted(ids) {
			t.Error("ids of one goroutine do not ascend")
		}
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(all[:]...)))
	if distinct := slices.Compact(sorted); len(distinct) != goroutines*each {
		t.Errorf("%d of %d ids are distinct", len(distinct), goroutines*each)
	}
}

func BenchmarkNewID(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			record.NewID()
		}
	})
}

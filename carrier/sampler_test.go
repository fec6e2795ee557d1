package carrier

import (
	"fmt"
	"testing"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What a sampler makes of the totals of beats, by Redis's clock in ms since a whole minute.
func TestSampler(t *testing.T) {
	t.Parallel()
	type beat struct {
		ms, published int64
		seconds       []int64 // of the sample: its time, how many it has, and what was published; nil: there is none
		minute        []int64
	}
	const minute = 1_795_449_600
	for name, beats := range map[string][]beat{
		"one a second": {
			{300, 5, nil, nil}, {1300, 7, []int64{0, 1, 2}, []int64{0, 1, 2}}, {2300, 7, []int64{1, 1, 0}, []int64{0, 2, 2}}, {3301, 10, []int64{2, 1, 3}, []int64{0, 3, 5}},
		},
		"several a second": {
			{300, 5, nil, nil}, {600, 6, nil, nil}, {1000, 7, []int64{0, 1, 2}, []int64{0, 1, 2}}, {1300, 8, nil, nil}, {2100, 8, []int64{1, 1, 1}, []int64{0, 2, 3}},
		},
		"a late one": {
			{1900, 0, nil, nil}, {5100, 8, []int64{4, 4, 8}, []int64{0, 4, 8}},
		},
		"a long rest": {
			{1900, 0, nil, nil}, {62000, 8, nil, nil}, {63000, 9, []int64{62, 1, 1}, []int64{60, 1, 1}},
		},
		"the next minute": {
			{58500, 0, nil, nil}, {59500, 1, []int64{58, 1, 1}, []int64{0, 1, 1}}, {60500, 3, []int64{59, 1, 2}, []int64{0, 2, 3}}, {61500, 4, []int64{60, 1, 1}, []int64{60, 1, 1}},
		},
		"the clock was set back": {
			{58500, 0, nil, nil}, {59500, 1, []int64{58, 1, 1}, []int64{0, 1, 1}}, {1000, 3, nil, nil}, {2000, 7, []int64{1, 1, 4}, []int64{0, 1, 4}},
		},
		"the clock was set forward": {
			{500, 0, nil, nil}, {1500, 1, []int64{0, 1, 1}, []int64{0, 1, 1}}, {7_200_000, 3, nil, nil}, {7_201_000, 7, []int64{7200, 1, 4}, []int64{7200, 1, 4}},
		},
		"redis lost some": {
			{500, 10, nil, nil}, {1500, 11, []int64{0, 1, 1}, []int64{0, 1, 1}}, {2500, 3, nil, nil}, {3500, 4, []int64{2, 1, 1}, []int64{0, 2, 2}},
		},
	} {
		var s sampler
		for i, b := range beats {
			s.note(minute*1_000_000+b.ms*1000, &store.Totals{Published: b.published}, func(at int64) store.Sample { return store.Sample{At: at} })
			var got [store.Rings][]int64
			for ring := store.Ring(0); s.next != nil && ring < store.Rings; ring++ {
				one := s.next[ring]
				got[ring] = []int64{one.At - minute, int64(one.Seconds), one.Published}
			}
			storetest.Same(t, fmt.Sprintf("%s, beat %d", name, i+1), [store.Rings][]int64{b.seconds, b.minute}, got)
		}
	}
}

// A sampler goes on with a minute that another one began.
func TestSamplerGoesOn(t *testing.T) {
	t.Parallel()
	const minute = 1_795_449_600
	var s sampler
	asked := 0
	old := func(at int64) store.Sample {
		asked++
		return store.Sample{At: at, Seconds: 20, Totals: store.Totals{Acked: 100}}
	}
	for i := range int64(3) {
		s.note((minute+30+i)*1_000_000, &store.Totals{Acked: 7 * i}, old)
	}
	want := store.Sample{At: minute, Seconds: 22, Totals: store.Totals{Acked: 114}}
	if got := s.next[store.Minutes]; got != want || asked != 1 {
		t.Errorf("got %+v, asked %d times", got, asked)
	}
}

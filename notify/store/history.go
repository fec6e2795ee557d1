package store

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// LateBuckets is how many buckets a Histogram has.
const LateBuckets = 44

// A Histogram is how many messages were how late when they were claimed. The first bucket
// is below 100 us; each other one is wider by the square root of two than the one before.
// The last one has no end.
type Histogram [LateBuckets]int64

// LateBound returns the lateness at which a bucket of a Histogram ends: the 44th, from 210 s on, has no end.
func LateBound(bucket int) time.Duration {
	return time.Duration(float64(100*time.Microsecond) * math.Exp2(float64(bucket)/2))
}

// Totals are what ever happened in a shard. They begin anew when Redis loses them.
type Totals struct {
	Published, Claimed, Acked, Died int64
	Late                            Histogram // of those claimed
}

// Add adds others.
func (t *Totals) Add(other *Totals) { t.combine(other, 1) }

// Since returns what happened since the totals were others. It reports false if any is less than it was.
func (t Totals) Since(other *Totals) (Totals, bool) {
	t.combine(other, -1)
	return t, min(t.Published, t.Claimed, t.Acked, t.Died, slices.Min(t.Late[:])) >= 0
}

func (t *Totals) combine(other *Totals, sign int64) {
	t.Published += sign * other.Published
	t.Claimed += sign * other.Claimed
	t.Acked += sign * other.Acked
	t.Died += sign * other.Died
	for i := range t.Late {
		t.Late[i] += sign * other.Late[i]
	}
}

// bucketNames are the names of the buckets in the hash of lateness, a character each.
const bucketNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijkl"

// totalsIn reads the totals at the end of a carry.
func totalsIn(r *script.Reply) *Totals {
	t := &Totals{Published: r.Number(), Acked: r.Number(), Died: r.Number()}
	for r.More() {
		name, n := r.Text(), r.Number()
		if i := strings.Index(bucketNames, name); len(name) == 1 && i >= 0 {
			t.Late[i] = n
			t.Claimed += n
		}
	}
	return t
}

// A Sample is what happened in some seconds in a row.
type Sample struct {
	At      int64 // in Unix seconds: the last second of a sample of Seconds, the beginning of the minute of one of Minutes
	Seconds int   // in which that happened: more than one if the carrier was kept from its beat
	Totals
}

// A Ring is a string of samples, one for each unit of its time, in which the newest take
// the places of the oldest.
type Ring int

// The rings of a shard.
const (
	Seconds Ring = iota // of an hour
	Minutes             // of a week
	Rings
)

// Unit returns the time of a sample in seconds.
func (r Ring) Unit() int64 { return [...]int64{1, 60}[r] }

// Samples returns how many samples the ring has.
func (r Ring) Samples() int64 { return [...]int64{3600, 7 * 24 * 60}[r] }

// bytes returns the length of the ring.
func (r Ring) bytes() int64 { return r.Samples() * sampleBytes }

// offset returns the place of the sample of a time.
func (r Ring) offset(at int64) int64 { return at / r.Unit() % r.Samples() * sampleBytes }

// key returns the key of the ring.
func (r Ring) key(k script.Keys) string { return [...]string{k.Seconds(), k.Minutes()}[r] }

// sampleBytes is the length of an encoded sample: its time in 4 bytes, the seconds in one,
// published, claimed, acked and died in 4 each, and a byte for each bucket. Both rings together take less than 1 MiB.
const sampleBytes = 4 + 1 + 4*4 + LateBuckets

// encode returns the sample in binary form. What is too large for its bytes becomes the largest.
func (s *Sample) encode() string {
	b := make([]byte, 0, sampleBytes)
	b = binary.BigEndian.AppendUint32(b, uint32(s.At))
	b = append(b, byte(min(s.Seconds, math.MaxUint8)))
	for _, n := range []int64{s.Published, s.Claimed, s.Acked, s.Died} {
		b = binary.BigEndian.AppendUint32(b, uint32(min(n, math.MaxUint32)))
	}
	for _, n := range s.Late {
		b = append(b, roughly(n))
	}
	return string(b)
}

// decodeSample returns the sample in the first sampleBytes bytes of a text.
func decodeSample(text string) (s Sample) {
	b := []byte(text[:sampleBytes])
	number := func(at int) int64 { return int64(binary.BigEndian.Uint32(b[at:])) }
	s = Sample{At: number(0), Seconds: int(b[4]), Totals: Totals{Published: number(5), Claimed: number(9), Acked: number(13), Died: number(17)}}
	for i := range s.Late {
		s.Late[i] = exactly(b[21+i])
	}
	return s
}

// roughly returns a number in a byte: exact below 16, else with an exponent of 5 bits and
// the 4 leading bits, rounded, of which the first is always set.
func roughly(n int64) byte {
	if n < 16 {
		return byte(max(n, 0))
	}
	e := bits.Len64(uint64(n)) - 4
	n += 1 << (e - 1)
	e = bits.Len64(uint64(n)) - 4
	return byte(min(int64(e+1)<<3|n>>e&7, math.MaxUint8))
}

// exactly returns the number that a byte stands for.
func exactly(b byte) int64 {
	if e := int64(b>>3) - 1; e > 0 {
		return int64(8|b&7) << e
	}
	return int64(b)
}

// History returns the samples of a ring from a time on and before another, both in Unix
// seconds: those that it has, the oldest first. The error is that of the connection.
func (s Shard) History(ctx context.Context, ring Ring, from, to int64) (all []Sample, err error) {
	unit, n := ring.Unit(), ring.Samples()
	last := max((to+unit-1)/unit, 0)
	for next := max((from+unit-1)/unit, last-n, 0); next < last; {
		first := next % n
		end := min(first+last-next, n)
		text, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (string, error) {
			return r.GetRange(ctx, ring.key(k), first*sampleBytes, end*sampleBytes-1).Result()
		})
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, nil // a key of the wrong type, which Walk finds, holds no sample
		}
		if err != nil {
			return nil, err
		}
		for ; first < end; first, next = first+1, next+1 {
			if at := next * unit; len(text) >= sampleBytes {
				if sample := decodeSample(text); sample.At == at {
					all = append(all, sample)
				}
				text = text[sampleBytes:]
			}
		}
	}
	return all, nil
}

// ForgetHistory removes the history of a shard, and has claims count no lateness. The
// error is that of the connection.
func (s Shard) ForgetHistory(ctx context.Context) error {
	_, err := reach.Read(ctx, s.Shard, func(r redis.UniversalClient, k script.Keys) (int64, error) {
		if n, err := r.HDel(ctx, k.Topics(), record.AllTopics+":history").Result(); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return n, err
		}
		return r.Del(ctx, k.Lateness(), k.Seconds(), k.Minutes()).Result()
	})
	return err
}

package history

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// anyTopic stands for all topics, of all shards.
const anyTopic = ""

// shardOf returns the number of a topic's shard: its CRC-32 modulo the number of shards.
func (c *checker) shardOf(topic string) int {
	return int(crc32.ChecksumIEEE([]byte(topic)) % uint32(max(c.bounds.Shards, 1)))
}

// concerns reports whether a fault hits the shard of a topic.
func (c *checker) concerns(w window, topic string) bool {
	return topic == anyTopic || w.hits(c.shardOf(topic))
}

// hits reports whether the fault hits a shard.
func (w *window) hits(shard int) bool { return len(w.shards) == 0 || slices.Contains(w.shards, shard) }

// numbers reads numbers with commas between.
func numbers(text string) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(one)
		if err != nil {
			return nil, fmt.Errorf("shards %q: use numbers with commas between", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// A term is an election of a shard's carrier.
type term struct {
	shard int
	epoch int64
}

// termsIn reads terms.
func termsIn(text string) (all []term, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		var t term
		if _, err := fmt.Sscanf(one, "%d:%d", &t.shard, &t.epoch); err != nil {
			return nil, fmt.Errorf("epochs %q: use SHARD:EPOCH with commas between", text)
		}
		all = append(all, t)
	}
	return all, nil
}

// terms returns the terms of the carrier that is the target of an operation.
func (o *op) terms() []term {
	all, _ := termsIn(either(o, func(r *Record) string { return r.Epochs })) // checked as it was read
	if epoch := o.epoch(); epoch > 0 {
		all = append(all, term{o.call.Shard, epoch})
	}
	return all
}

// starts returns where a listener stands in each shard by its Position or Bookmark. A
// bookmark of several shards is their number, a point, and in base64 the greatest position
// and how far that of each shard is behind it, as uvarints.
func (c *checker) starts(r *Record) ([]int64, error) {
	starts := make([]int64, max(c.bounds.Shards, 1))
	for i := range starts {
		starts[i] = r.Position
	}
	number, text, several := strings.Cut(r.Bookmark, ".")
	if !several {
		return starts, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || number != strconv.Itoa(len(starts)) {
		return nil, fmt.Errorf("bookmark %q: it is none of %d shards", r.Bookmark, len(starts))
	}
	var greatest uint64
	for i := -1; i < len(starts); i++ {
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, fmt.Errorf("bookmark %q: it ends early", r.Bookmark)
		}
		data = data[n:]
		if i < 0 {
			greatest = value
		} else {
			starts[i] = int64(greatest - value)
		}
	}
	return starts, nil
}

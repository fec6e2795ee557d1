package history

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/record"
)

// shardOf returns the number of a topic's shard: the CRC-32 modulo the number of shards of what is before a branch, and behind the beginning of a topic of
// deaths.
func (b *Bounds) shardOf(topic string) int {
	of, _, _ := strings.Cut(strings.TrimPrefix(topic, record.DeadPrefix), "@")
	return int(crc32.ChecksumIEEE([]byte(of)) % uint32(max(b.Shards, 1)))
}

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

// starts returns where a listener stands in each shard by its position or bookmark. A
// bookmark of several shards is their number, a point, and in base64 the greatest position
// and how far that of each shard is behind it, as uvarints.
func (b *Bounds) starts(position int64, bookmark string) ([]int64, error) {
	starts := make([]int64, max(b.Shards, 1))
	for i := range starts {
		starts[i] = position
	}
	number, text, several := strings.Cut(bookmark, ".")
	if !several {
		return starts, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || number != strconv.Itoa(len(starts)) {
		return nil, fmt.Errorf("bookmark %q: it is none of %d shards", bookmark, len(starts))
	}
	var greatest uint64
	for i := -1; i < len(starts); i++ {
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, fmt.Errorf("bookmark %q: it ends early", bookmark)
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

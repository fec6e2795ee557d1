package reach

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify/store/fault"
)

// MaxShards is the largest number of shards of a store.
const MaxShards = 256

// A layout is how many shards a store has, and which of their names they have by now: an
// epoch. The format key of a store of one shard does not name a layout.
type layout struct {
	shards int
	epoch  int64
}

// mark returns the beginning of the value of the format key: "FORMAT ", or for several
// shards "FORMAT/SHARDS/EPOCH ". A version that knows no shards refuses the latter.
func (l layout) mark() string {
	if l.shards == 1 {
		return formatMark
	}
	return fmt.Sprintf("%d/%d/%d ", Format, l.shards, l.epoch)
}

// layoutIn returns the layout that the value of a format key names, and whether the
// value is of this format. An empty one is that of a new store, of one shard.
func layoutIn(text string) (l layout, ok bool) {
	mark, _, _ := strings.Cut(text, " ")
	fields := strings.Split(mark, "/")
	if text == "" || len(fields) == 1 {
		return layout{shards: 1}, text == "" || strings.HasPrefix(text, formatMark)
	}
	if len(fields) != 3 || fields[0] != strconv.Itoa(Format) {
		return l, false
	}
	shards, errShards := strconv.Atoi(fields[1])
	epoch, errEpoch := strconv.ParseInt(fields[2], 10, 64)
	return layout{shards, epoch}, errShards == nil && errEpoch == nil && shards > 1 && epoch >= 0 && CheckShards(shards) == nil
}

// CheckShards returns a Fault unless a store may have n shards: a power of two up to
// MaxShards.
func CheckShards(n int) error {
	if n < 1 || n > MaxShards || bits.OnesCount(uint(n)) != 1 {
		return fault.New("shards", "shards %d: use a power of two, 1 to %d; or leave it out, for as many as the store has", n, MaxShards)
	}
	return nil
}

// slots is how many slots a Redis Cluster has.
const slots = 16384

// tag returns the hash tag of shard k of n in an epoch: k/n, or with .1, .2 and so on
// behind it. It is the first whose slot is in the middle half of the k-th of n equal parts
// of all slots, so that a Cluster spreads the shards evenly over its masters; in an odd
// epoch it is the second one, so that two layouts in a row share no key.
func tag(k, n int, epoch int64) string {
	if n == 1 {
		return "0"
	}
	part := slots / n
	least, most := k*part+part/4, (k+1)*part-part/4
	for x, pass := 0, epoch%2; ; x++ {
		name := fmt.Sprintf("%d/%d", k, n)
		if x > 0 {
			name += "." + strconv.Itoa(x)
		}
		if slot := slotOf(name); slot < least || slot >= most {
			continue
		}
		if pass == 0 {
			return name
		}
		pass--
	}
}

// slotOf returns the slot of a hash tag: its CRC-16 (XMODEM) modulo the number of slots, as
// the specification of Redis Cluster says.
func slotOf(tag string) int {
	var crc uint16
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// Format is the number of what a store may hold: its keys, and what stands in them. It is
// raised by one where this version would misread what an earlier one wrote, or that what this
// one writes: a process works only with a store of its own format, and refuses any other.
const Format = 9

// formatMark is the beginning of the value of the format key in a store of one shard.
var formatMark = strconv.Itoa(Format) + " "

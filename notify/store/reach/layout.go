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
// shards "FORMAT/SHARDS/EPOCH ".
func (l layout) mark(format int) string {
	if l.shards == 1 {
		return strconv.Itoa(format) + " "
	}
	return fmt.Sprintf("%d/%d/%d ", format, l.shards, l.epoch)
}

// layoutIn returns the layout and the format that the value of a format key names, and whether it
// names them at all.
func layoutIn(text string) (l layout, format int, ok bool) {
	l.shards = 1
	mark, _, _ := strings.Cut(text, " ")
	if n, err := fmt.Sscanf(mark, "%d/%d/%d", &format, &l.shards, &l.epoch); err != nil && n != 1 || CheckShards(l.shards) != nil {
		return layout{shards: 1}, 0, false
	}
	return l, format, strings.HasPrefix(text, l.mark(format)) && format > 0 && l.epoch >= 0
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

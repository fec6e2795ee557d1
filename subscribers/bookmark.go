package subscribers

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// maxBookmark is the length of the longest bookmark in bytes.
const maxBookmark = 4096

// A Bookmark says where a listener stands: one that begins After it misses nothing, and
// gets nothing again. It is one opaque word, which may be kept as text. That of a listener to one topic, and any in a
// store of one shard, is the position of a broadcast. Else it has the number of shards, a
// dot, and in the URL's base64 varints: the greatest position that the listener reached in
// any shard, then how far each one's is behind that.
type Bookmark string

// At returns the bookmark of a listener that stands at a position. It is good for one
// topic, and for any pattern in a store of one shard.
func At(p notify.Position) Bookmark { return Bookmark(p.String()) }

// Position returns the greatest position of a bookmark. Zero if it is none.
func (b Bookmark) Position() notify.Position {
	at, err := b.positions()
	if err != nil {
		return 0
	}
	return slices.Max(at)
}

// bookmarkOf returns the bookmark of a listener that stands at these positions: one, or
// one of each shard.
func bookmarkOf(at []notify.Position) Bookmark {
	if len(at) == 1 {
		return At(at[0])
	}
	greatest := slices.Max(at)
	bytes := binary.AppendUvarint(nil, uint64(greatest))
	for _, p := range at {
		bytes = binary.AppendUvarint(bytes, uint64(greatest-p))
	}
	return Bookmark(strconv.Itoa(len(at)) + "." + base64.RawURLEncoding.EncodeToString(bytes))
}

// positions returns where a bookmark stands: at one position, or at one in each shard. The
// error is a notify.Fault.
func (b Bookmark) positions() ([]notify.Position, error) {
	wrong := fault.New("bookmark", "bookmark %.100q: use one that a listener returned, or the position of a broadcast, such as 1732128000123-456", string(b))
	if len(b) > maxBookmark {
		return nil, fault.New("bookmark", "bookmark: %d bytes; at most %d are allowed", len(b), maxBookmark)
	}
	shards, text, many := strings.Cut(string(b), ".")
	if !many {
		p, err := record.ParsePosition(string(b))
		if err != nil {
			return nil, wrong
		}
		return []notify.Position{p}, nil
	}
	n, err := strconv.Atoi(shards)
	bytes, errText := base64.RawURLEncoding.DecodeString(text)
	if err != nil || errText != nil || n < 2 || n > reach.MaxShards {
		return nil, wrong
	}
	at := positionsIn(bytes, n)
	if at == nil || bookmarkOf(at) != b { // there is one way to write it
		return nil, wrong
	}
	return at, nil
}

// mostPosition is the greatest position that record.ParsePosition reads.
var mostPosition = uint64(record.MaxDue.UnixMicro()) + 999

// positionsIn decodes n positions; nil if there are not as many.
func positionsIn(bytes []byte, n int) []notify.Position {
	greatest, size := binary.Uvarint(bytes)
	if size <= 0 || greatest > mostPosition {
		return nil
	}
	bytes = bytes[size:]
	at := make([]notify.Position, n)
	for i := range at {
		behind, size := binary.Uvarint(bytes)
		if size <= 0 || behind > greatest {
			return nil
		}
		at[i], bytes = notify.Position(greatest-behind), bytes[size:]
	}
	if len(bytes) > 0 {
		return nil
	}
	return at
}

// A standing is where a listener to several shards stood before a page of one of them.
// Broadcasts and gaps of the page share it.
type standing struct {
	at    []notify.Position // in each shard
	shard int               // of the page
}

// bookmark returns the bookmark behind a position of the page. A nil standing is that of a
// listener to one shard.
func (s *standing) bookmark(p notify.Position) Bookmark {
	if s == nil {
		return At(p)
	}
	at := slices.Clone(s.at)
	at[s.shard] = p
	return bookmarkOf(at)
}

// Bookmark returns where the listener stands that handled the broadcast. That of a named
// listener, whose place Redis keeps, is the position, which is good for the topic.
func (b *Broadcast) Bookmark() Bookmark { return b.standing.bookmark(b.Position) }

// Bookmark returns where the listener stands that heeded the gap.
func (g Gap) Bookmark() Bookmark { return g.standing.bookmark(g.UpTo) }

// starts returns the positions behind which a listener begins, in each of a store's shards
// whose numbers are given. Those of now and of the beginning are zero. The error is a
// notify.Fault.
func (f From) starts(shards []int, of int) ([]notify.Position, error) {
	if !f.marked {
		return slices.Repeat([]notify.Position{f.after}, len(shards)), nil
	}
	at, err := Bookmark(f.text).positions()
	switch {
	case err != nil:
		return nil, fault.Renamed("from", err)
	case len(at) == 1 && len(shards) == 1:
		return at, nil
	case len(at) == 1:
		return nil, fault.New("from", "from %s: it is the position of one broadcast, and this store has %d shards; use the bookmark of a listener to the pattern, or a time", f.text, of)
	case len(at) != of:
		return nil, fault.New("from", "from %.100s: it is the bookmark of a store of %d shards, and this one has %d; use a bookmark of this store, or a time", f.text, len(at), of)
	}
	chosen := make([]notify.Position, len(shards))
	for i, number := range shards {
		chosen[i] = at[number]
	}
	return chosen, nil
}

package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/daemon/calls"
)

const (
	piece     = 6 << 10   // bytes of a body that are encoded at a time: a multiple of 3, for base64. Their JSON may be six times as long
	enough    = 16 << 10  // bytes of an answer from which on they are sent
	maxPooled = 128 << 10 // bytes of the largest buffer kept for the next answer
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// pieces write JSON to a client a piece at a time: for a client that reads slowly, or
// not at all, the daemon keeps the bodies that it has yet to send, and little more. A
// short answer has its length in its header.
type pieces struct {
	c       *call
	buffer  *bytes.Buffer
	encoder *json.Encoder // into the buffer
	began   bool          // the header is sent
	err     error         // of the connection
}

// newPieces returns pieces for an answer. began says that its header is sent already.
func newPieces(c *call, began bool) *pieces {
	p := &pieces{c: c, buffer: buffers.Get().(*bytes.Buffer), began: began}
	p.buffer.Reset()
	p.encoder = json.NewEncoder(p.buffer)
	p.encoder.SetEscapeHTML(false)
	return p
}

// text writes JSON.
func (p *pieces) text(text string) { p.buffer.WriteString(text) }

// value writes a value as JSON. The value must be encodable.
func (p *pieces) value(v any) {
	_ = p.encoder.Encode(v)               // cannot fail: into memory, from JSON
	p.buffer.Truncate(p.buffer.Len() - 1) // the end of the line
}

// object writes an object. A body other than nil becomes its last member.
func (p *pieces) object(v any, body []byte) {
	p.value(v)
	switch {
	case body == nil:
		p.sendEnough()
		return
	case utf8.Valid(body):
		p.buffer.Truncate(p.buffer.Len() - 1)
		p.text(`,"body":"`)
		p.string(body)
	default:
		p.buffer.Truncate(p.buffer.Len() - 1)
		p.text(`,"body_base64":"`)
		p.base64(body)
	}
	p.text(`"}`)
}

// string writes the JSON of a text without its quotes.
func (p *pieces) string(text []byte) {
	for len(text) > 0 && p.err == nil {
		n := min(piece, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		at := p.buffer.Len()
		_ = p.encoder.Encode(string(text[:n])) // into memory
		quoted := p.buffer.Bytes()[at:]
		copy(quoted, quoted[1:])
		p.buffer.Truncate(p.buffer.Len() - len("\"\"\n"))
		text = text[n:]
		p.sendEnough()
	}
}

// base64 writes the base64 of data without its quotes.
func (p *pieces) base64(data []byte) {
	for len(data) > 0 && p.err == nil {
		n := min(piece, len(data))
		p.buffer.Write(base64.StdEncoding.AppendEncode(p.buffer.AvailableBuffer(), data[:n]))
		data = data[n:]
		p.sendEnough()
	}
}

func (p *pieces) sendEnough() {
	if p.buffer.Len() >= enough {
		p.send()
	}
}

// send sends the buffer.
func (p *pieces) send() {
	if !p.began {
		p.began = true
		p.c.w.WriteHeader(http.StatusOK)
	}
	if p.err == nil {
		_, p.err = p.c.w.Write(p.buffer.Bytes())
	}
	p.buffer.Reset()
}

// end sends the rest. The error is that of the connection.
func (p *pieces) end() error {
	if !p.began {
		p.c.w.Header().Set("Content-Length", strconv.Itoa(p.buffer.Len()))
	}
	p.send()
	if p.buffer.Cap() <= maxPooled {
		buffers.Put(p.buffer)
	}
	return p.err
}

// members writes the members of an object behind others; nil has none.
func (p *pieces) members(of any) {
	if of == nil {
		return
	}
	at := p.buffer.Len()
	p.value(of)
	if p.buffer.Truncate(p.buffer.Len() - 1); p.buffer.Len() == at+1 {
		p.buffer.Truncate(at)
		return
	}
	p.buffer.Bytes()[at] = ','
}

// list answers with a listing.
func (c *call) list(l calls.Listing) error {
	c.w.Header().Set("Content-Type", "application/json")
	p := newPieces(c, false)
	p.text(`{"messages":[`)
	for i := 0; i < l.N && p.err == nil; i++ {
		if i > 0 {
			p.text(",")
		}
		p.object(l.One(i))
	}
	p.text("]")
	p.members(l.End)
	p.text("}\n")
	return p.end()
}

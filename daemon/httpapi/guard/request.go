package guard

import (
	"io"
	"net/http"
)

// brisk is how many bytes of a known client's body must come in the time of a slow one, or its
// connection may make way for another.
const brisk = 64 << 10

// A body is that of a request on a slot.
type body struct {
	io.ReadCloser
	slot  *Slot
	left  int64 // bytes to come; negative: nobody knows
	fresh int   // bytes since the slot was last told that they come
	whole bool  // it has come whole
}

// BeginRequest notes that the header of a request has come. It returns the request with a body
// that tells its slot what comes of it, and what notes that it is answered. The request itself
// keeps its body: by the type of that net/http sees how much of it a handler left. As long as
// nobody reads it, its connection stays among those that make way.
func BeginRequest(r *http.Request) (told *http.Request, end func()) {
	slot, _ := r.Context().Value(slotKey{}).(*Slot)
	switch {
	case slot == nil:
		return r, func() {}
	case r.ContentLength == 0:
		slot.begin(true)
		return r, func() { slot.end(true) }
	}
	slot.begin(false)
	b := &body{ReadCloser: r.Body, slot: slot, left: r.ContentLength}
	told = new(http.Request)
	*told = *r
	told.Body = b
	return told, func() { slot.end(b.whole) }
}

// Read reads some of the body.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	b.fresh += n
	switch {
	case b.whole:
	case err == io.EOF || b.left == 0:
		b.whole = true
		b.slot.arrive()
	case b.fresh >= brisk:
		b.fresh = 0
		b.slot.Refresh()
	}
	return n, err
}

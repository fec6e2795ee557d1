package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

const maxBulk = 16 << 20 // bytes of many messages

// body reads the whole body, of at most max bytes. Errors: errBodyCut, errBodySlow,
// notify.ErrTooLarge, notify.ErrInvalid for an encoded body, guard.ErrBusy or errDraining.
func (c *call) body(max int) ([]byte, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, fault.New("Content-Encoding", "content encoding %.100q: a body is kept as it is; send it plain, or name the coding in a Bellhop-Header of your own", coding)
	}
	if c.r.ContentLength > int64(max) {
		return nil, tooLarge(c.r.ContentLength, max)
	}
	if c.r.ContentLength == 0 || c.r.Body == http.NoBody {
		return nil, nil
	}
	most := int64(max)
	if c.r.ContentLength > 0 {
		most = c.r.ContentLength
	}
	if most > reserveFirst {
		if err := c.reserve(most); err != nil {
			return nil, err
		}
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.gate.timing.body)) // reading begins only now
	}
	data, err := c.readAll(max, most)
	var timeout net.Error
	switch {
	case errors.Is(err, guard.ErrBusy), errors.Is(err, errDraining):
		return nil, err
	case err == nil && len(data) > max:
		return nil, tooLarge(int64(len(data)), max)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, errBodySlow
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errBodyCut, err)
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // the deadline would end a poll
	return data, c.writeWithin(c.gate.timing.answer)                 // a slow body takes nothing of this time
}

// readList reads the whole body, as body does, of a list in JSON, and waits for the memory that
// the list becomes when it is read.
func (c *call) readList(max int) ([]byte, error) {
	data, err := c.body(max)
	if err != nil {
		return nil, err
	}
	return data, c.reserveList(2*int64(len(data)) + int64(min(bytes.Count(data, []byte{'{'}), maxLines))*elementBytes)
}

// readAll reads the body of at most most bytes, or one byte more than max of it. Its
// first bytes are reserved as small: these must have come before memory is reserved for
// the others, whatever a header announces.
func (c *call) readAll(max int, most int64) ([]byte, error) {
	first := min(most, guard.Small)
	if err := c.reserve(first); err != nil {
		return nil, err
	}
	if c.r.ContentLength == first {
		data := make([]byte, first)
		_, err := io.ReadFull(c.r.Body, data)
		return data, err
	}
	var buffer bytes.Buffer
	first = min(int64(max)+1, guard.Small)
	buffer.Grow(int(first) + bytes.MinRead)
	n, err := buffer.ReadFrom(io.LimitReader(c.r.Body, first))
	if err != nil || n < first {
		return buffer.Bytes(), err
	}
	if err := c.reserve(most); err != nil {
		return nil, err
	}
	if c.r.ContentLength > 0 {
		buffer.Grow(int(c.r.ContentLength-n) + bytes.MinRead) // or it would grow beyond the reservation
	}
	_, err = buffer.ReadFrom(io.LimitReader(c.r.Body, int64(max)+1-n))
	return buffer.Bytes(), err
}

func tooLarge(n int64, max int) error {
	return fault.Renamed("body", fmt.Errorf("%w: %d bytes or more; at most %d are allowed", notify.ErrTooLarge, n, max))
}

// noBody refuses a body where none belongs, rather than ignore it.
func (c *call) noBody() error {
	data, err := c.body(1)
	if len(data) > 0 || errors.Is(err, notify.ErrTooLarge) {
		err = fault.New("body", "body: none belongs here; give parameters in the query")
	}
	return err
}

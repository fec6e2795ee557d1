package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/subscribers"
)

// raw reports whether a claim asks for the body of one message as it is, with its other
// fields in headers. The query has been checked.
func (c *call) raw() bool { return c.given("as") }

// checkRaw refuses a claim of several messages with as=body, which answers with one.
func (o claimOptions) checkRaw() error {
	if o.As == "" || o.Max == 1 {
		return nil
	}
	return fault.New("max", "max %d: as=body answers with one message; leave max out", o.Max)
}

// answerNone answers a claim that got no message.
func (c *call) answerNone() error {
	if c.raw() {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.answer(http.StatusOK, api.Claimed{Messages: []api.Delivery{}})
}

// handRaw answers with the one claimed message, or with none. It buries a message that
// HTTP cannot carry unchanged, which would otherwise be delivered again and again.
func (c *call) handRaw(ctx context.Context, ds []subscribers.Delivery) error {
	if len(ds) == 0 {
		return c.answerNone()
	}
	d := ds[0]
	if err := api.Carriable(d.Record); err != nil && d.Receipt == 0 { // acknowledged already
		return fmt.Errorf("message %s cannot be answered with as=body: %w; claim it as JSON", d.ID, err)
	} else if err != nil {
		_, bad := d.Bury(ctx, fmt.Sprintf("cannot be claimed with as=body: %v; claim it as JSON", err))
		return errors.Join(bad, c.answerNone())
	}
	setRaw(c.w.Header(), d)
	c.w.WriteHeader(http.StatusOK)
	_, err := c.w.Write(d.Body)
	return err
}

// setRaw sets the headers of a message that is answered as it is. Its body may be
// anything, so browsers are told not to render it as a page.
func setRaw(h http.Header, d subscribers.Delivery) {
	h["Content-Type"] = nil // or net/http guesses one
	api.SetHeaders(h, d)
	h.Set("Content-Length", strconv.Itoa(len(d.Body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	if d.Receipt != 0 {
		h.Set("Bellhop-Receipt", strconv.FormatInt(int64(d.Receipt), 10))
	}
}

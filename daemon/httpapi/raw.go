package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify/asked"
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
	return c.answer(http.StatusOK, api.ClaimedOf(nil))
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

// documentRaw describes the answers of a claim with as=body.
func documentRaw(o *huma.Operation) {
	text, number := &huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeInteger}
	success := o.Responses["200"]
	success.Description = "Messages; with as=body the body of one message as it is, with its own content type."
	success.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	success.Headers = map[string]*huma.Param{
		"Bellhop-Topic":     {Description: "with as=body", Schema: text},
		"Bellhop-Id":        {Description: "with as=body", Schema: text},
		"Bellhop-Receipt":   {Description: "with as=body: acknowledges the message, or otherwise settles it; missing with ack=now", Schema: number},
		"Bellhop-Attempt":   {Description: "with as=body: 1 on first delivery", Schema: number},
		"Bellhop-Late-Ms":   {Description: "with as=body: from due to claimed, less the min_age of the claim", Schema: number},
		"Bellhop-Late":      {Description: "with as=body: true if it was claimed later than its late_after allows; else missing", Schema: text},
		"Bellhop-Due":       {Description: "with as=body: due time of this attempt", Schema: text},
		"Bellhop-First-Due": {Description: "with as=body: due time of the first attempt", Schema: text},
		"Bellhop-Published": {Description: "with as=body. Each header of the message follows as Bellhop-Header-NAME", Schema: text},
	}
	for _, one := range asked.Describe() {
		success.Headers[one.Header()] = &huma.Param{Description: "with as=body: " + one.Text, Schema: text}
	}
	o.Responses["204"] = &huma.Response{Description: "With as=body: no message came, not even within the wait."}
}

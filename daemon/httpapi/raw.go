package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/subscribers"
)

// raw reports whether a claim is answered with the body of one message as it is,
// and the rest of it in headers: what the query has was checked.
func (c *call) raw() bool { return c.given("as") }

// checkRaw refuses a claim of several messages of which only one can be handed over.
func (in *claimInput) checkRaw() error {
	if in.As == "" || in.Max == 1 {
		return nil
	}
	return store.Faultf("max", "max %d: as=body hands over one message; leave max out", in.Max)
}

// answerNone answers a claim that got nothing.
func (c *call) answerNone() error {
	if c.raw() {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.answer(http.StatusOK, api.ClaimedOf(nil))
}

// handRaw answers with the one message that was claimed, or with none. One that
// HTTP cannot carry is buried: it would come again and again, changed in silence.
func (c *call) handRaw(ctx context.Context, ds []subscribers.Delivery) error {
	if len(ds) == 0 {
		return c.answerNone()
	}
	d := ds[0]
	if err := carriable(d.Record); err != nil {
		_, bad := d.Bury(ctx, fmt.Sprintf("cannot be claimed with as=body: %v; claim it as JSON", err))
		return errors.Join(bad, c.answerNone())
	}
	setRaw(c.w.Header(), d)
	c.w.WriteHeader(http.StatusOK)
	_, err := c.w.Write(d.Body)
	return err
}

// carriable reports what of a record that was made by others than this program HTTP has no way to carry.
func carriable(r notify.Record) error {
	if err := store.CheckContentType(r.ContentType); err != nil {
		return err
	}
	for name, value := range r.Headers {
		if err := store.CheckHeader(name, value); err != nil {
			return err
		}
	}
	return nil
}

// setRaw sets the headers of a message that is handed over as it is. Its body may
// be anything, so a browser is told to make no page of it.
func setRaw(h http.Header, d subscribers.Delivery) {
	h["Content-Type"] = nil // or net/http guesses one
	if d.ContentType != "" {
		h.Set("Content-Type", d.ContentType)
	}
	h.Set("Content-Length", strconv.Itoa(len(d.Body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Bellhop-Topic", d.Topic)
	h.Set("Bellhop-Id", d.ID)
	h.Set("Bellhop-Receipt", strconv.FormatInt(int64(d.Receipt), 10))
	h.Set("Bellhop-Attempt", strconv.Itoa(d.Attempt))
	h.Set("Bellhop-Due", d.Due.UTC().Format(time.RFC3339Nano))
	if !d.FirstDue.IsZero() {
		h.Set("Bellhop-First-Due", d.FirstDue.UTC().Format(time.RFC3339Nano))
	}
	h.Set("Bellhop-Published", d.Published.UTC().Format(time.RFC3339Nano))
	for name, value := range d.Headers {
		h[keepHeader+name] = []string{value} // in the case that it was published in
	}
}

// documentRaw describes the answers of a claim with as=body.
func documentRaw(o *huma.Operation) {
	text, number := &huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeInteger}
	success := o.Responses["200"]
	success.Description = "Messages; with as=body the body of one as it is, of its own content type."
	success.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	success.Headers = map[string]*huma.Param{
		"Bellhop-Topic":     {Description: "with as=body", Schema: text},
		"Bellhop-Id":        {Description: "with as=body", Schema: text},
		"Bellhop-Receipt":   {Description: "with as=body: settles it", Schema: number},
		"Bellhop-Attempt":   {Description: "with as=body: 1 on first delivery", Schema: number},
		"Bellhop-Due":       {Description: "with as=body: since when it is ready", Schema: text},
		"Bellhop-First-Due": {Description: "with as=body: due time of the first attempt", Schema: text},
		"Bellhop-Published": {Description: "with as=body. Beside these there is Bellhop-Header-NAME for each header of the message", Schema: text},
	}
	o.Responses["204"] = &huma.Response{Description: "With as=body: there was no message, not even within the wait."}
}

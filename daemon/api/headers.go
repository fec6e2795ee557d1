package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// KeepHeader is what an HTTP header begins with that is kept with a message, or was; the name of it follows.
const KeepHeader = "Bellhop-Header-"

// Carriable returns what HTTP cannot carry of a record, which other programs may have written.
func Carriable(r notify.Record) error {
	if err := record.CheckContentType(r.ContentType); err != nil {
		return err
	}
	for name, value := range r.Headers {
		if err := record.CheckHeader(name, value); err != nil {
			return err
		}
	}
	return nil
}

// SetHeaders sets the headers of a message whose body is sent over HTTP as it is. The record is [Carriable].
func SetHeaders(h http.Header, d subscribers.Delivery) {
	if d.ContentType != "" {
		h.Set("Content-Type", d.ContentType)
	}
	h.Set("Bellhop-Topic", d.Topic)
	h.Set("Bellhop-Id", d.ID)
	h.Set("Bellhop-Attempt", strconv.Itoa(d.Attempt))
	h.Set("Bellhop-Late-Ms", strconv.FormatInt(Ms(d.Late()), 10))
	h.Set("Bellhop-Due", d.Due.UTC().Format(time.RFC3339Nano))
	if !d.FirstDue.IsZero() {
		h.Set("Bellhop-First-Due", d.FirstDue.UTC().Format(time.RFC3339Nano))
	}
	h.Set("Bellhop-Published", d.Published.UTC().Format(time.RFC3339Nano))
	for _, one := range asked.Attributes(&d.Record, d.Fence) {
		h.Set(one.Header(), one.Text)
	}
	for name, value := range d.Headers {
		h[KeepHeader+name] = []string{value} // keeps its upper and lower case
	}
}

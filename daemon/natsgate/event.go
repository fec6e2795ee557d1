package natsgate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/subscribers"
)

// timeFormat is RFC 3339 to the millisecond.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// eventHeader returns the headers of a message as an event in the binary mode
// of CloudEvents (NATS protocol binding 1.0.3), and the message's own headers. The
// source names the topic, since an id is unique only in its topic.
func eventHeader(source, topic, id string, due time.Time, of notify.Record, fence int64) nats.Header {
	h := nats.Header{}
	attribute := func(name, value string) { h.Set("ce-"+name, percentEncode(value)) }
	attribute("specversion", "1.0")
	attribute("id", id)
	attribute("source", source+"/"+topic)
	attribute("type", topic)
	attribute("time", due.UTC().Format(timeFormat))
	if of.ContentType != "" {
		attribute("datacontenttype", of.ContentType)
	}
	for _, one := range asked.Attributes(&of, fence) {
		h.Set(one.Header(), one.Text)
	}
	for name, value := range of.Headers {
		h.Set(api.KeepHeader+name, value)
	}
	return h
}

// deliveryHeader returns the headers of a claimed message: those of the event, and Bellhop's.
func (g *Gate) deliveryHeader(d *subscribers.Delivery) nats.Header {
	h := eventHeader(g.source(), d.Topic, d.ID, d.Due, d.Record, d.Fence)
	h.Set("Bellhop-Attempt", strconv.Itoa(d.Attempt))
	if !d.FirstDue.IsZero() {
		h.Set("Bellhop-First-Due", d.FirstDue.UTC().Format(timeFormat))
	}
	h.Set("Bellhop-Late-Ms", strconv.FormatInt(api.Ms(d.Late()), 10))
	if d.Receipt != 0 {
		h.Set("Bellhop-Lease-Until", d.Until().UTC().Format(timeFormat))
	}
	return h
}

// percentEncode encodes the characters that an attribute's header must not contain:
// spaces, quotes, percent signs, and all but printable ASCII.
func percentEncode(s string) string {
	plain := func(b byte) bool { return b > ' ' && b < 0x7f && b != '"' && b != '%' }
	var encoded strings.Builder
	for i := range len(s) {
		if plain(s[i]) {
			encoded.WriteByte(s[i])
		} else {
			fmt.Fprintf(&encoded, "%%%02X", s[i])
		}
	}
	return encoded.String()
}

// source returns the prefix of the sources of events.
func (g *Gate) source() string { return "/" + g.store.Prefix() }

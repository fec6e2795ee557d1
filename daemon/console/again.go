package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// againPath returns the address of the form that publishes once more what was published, maybe changed.
func againPath(topic, id string) string {
	return topicPath(topic) + "?again=" + url.QueryEscape(id) + "#publish"
}

// Again returns the address of the form that publishes the dead letter once more; empty: it is none, or the viewer may not.
func (m *messageView) Again() string {
	if !m.Dead() || m.Info.Fault != nil || !m.Publishes() {
		return ""
	}
	return againPath(m.Topic, m.ID)
}

// Bytes returns the address of the body as it is.
func (m *messageView) Bytes() string { return m.Path() + "/body" }

// refill fills the form of a topic with what a message of it was published as, if the address names one. What hinders that stands beside
// the form.
func (c *Console) refill(ctx context.Context, v *visit, topic string) {
	id := v.query("again")
	if id == "" || v.r.Method != http.MethodGet || accepts(v.r, "text/event-stream") || !v.Reads() {
		return
	}
	info, err := c.inspector.Inspect(ctx, topic, id)
	switch {
	case err != nil:
		v.Refused = c.faultFor(v.Viewer, err)
	case info.Fault != nil || fitting(info.Body) == "hex":
		v.Refused = &pageFault{Title: "That cannot be edited here", Detail: "The body of " + brief(id) + " is no text. Download it from its page, and publish it from a file."}
	default:
		v.r.PostForm = formOf(&info.Record)
	}
}

// formOf returns the fields of a form that publishes what a message was published as, but its id and its due time.
func formOf(r *notify.Record) url.Values {
	form := url.Values{"body": {string(r.Body)}}
	var headers []string
	for name, value := range r.Headers {
		headers = append(headers, name+": "+value)
	}
	slices.Sort(headers)
	form.Set("headers", strings.Join(headers, "\n"))
	var m notify.Message
	options := asked.Of(*r)
	fields.Fill(&m, &options)
	for _, f := range fields.In[notify.Message]() {
		if text := typedOf(reflect.ValueOf(m).FieldByIndex(f.Index)); text != "" {
			form.Set(f.Name, text)
		}
	}
	return form
}

// Further returns what the form has beside the fields that it always shows.
func (v *visit) Further() (all []named) {
	for _, f := range fields.In[notify.Message]() {
		always := slices.Contains([]string{"id", "delay", "due", "content_type"}, f.Name)
		if text := v.Written(f.Name); !always && text != "" {
			all = append(all, named{f.Name, text})
		}
	}
	return all
}

// download answers with the body of a message as it is, as a file.
func (c *Console) download(w http.ResponseWriter, r *http.Request) {
	viewer, err := c.viewer(r)
	if err == nil && viewer == nil {
		c.toLogin(w, r)
		return
	}
	v := &visit{Viewer: viewer, r: r}
	var info notify.Info
	if err == nil {
		var free func()
		free, err = v.reserve(pageBytes, "The body was not read", "Begin it again.")
		defer free()
	}
	if err == nil {
		var topic, id string
		if topic, id, err = messageOf(v); err == nil {
			info, err = c.inspector.Inspect(r.Context(), topic, id)
		}
	}
	if err != nil {
		c.fail(w, v, "", err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", info.ID)) // an id has no character that needs more
	_, _ = w.Write(info.Body)                                                              // an error means that the client is gone
}

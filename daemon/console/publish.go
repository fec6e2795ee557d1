package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"reflect"
	"strings"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A publishForm is the form to publish, as it was sent.
type publishForm struct{ Body, ID, Delay, Due, ContentType, Headers string }

// formOf returns a form as it was sent.
func formOf(sent url.Values) publishForm {
	return publishForm{
		Body: strings.ReplaceAll(sent.Get("body"), "\r\n", "\n"), ID: sent.Get("id"), Delay: sent.Get("delay"), Due: sent.Get("due"),
		ContentType: sent.Get("content_type"), Headers: strings.ReplaceAll(sent.Get("headers"), "\r\n", "\n"),
	}
}

// message returns the message that a form describes. The error joins a Fault for each field
// that cannot be read.
func (f publishForm) message(topic string) (notify.Message, error) {
	m := notify.Message{Topic: topic, Body: []byte(f.Body)}
	given := map[string]string{"id": f.ID, "delay": f.Delay, "due": f.Due, "content_type": f.ContentType}
	var faults []error
	for _, field := range fields.In[notify.Message]() {
		text := strings.TrimSpace(given[field.Name])
		if text == "" {
			continue
		}
		if other := strings.TrimSpace(given[field.Without]); other != "" {
			faults = append(faults, fault.New(field.Name, "%s and %s: both are given; give one of them", field.Without, field.Name))
		}
		faults = append(faults, field.Set(reflect.ValueOf(&m).Elem(), text))
	}
	var err error
	m.Headers, err = headersIn(f.Headers)
	return m, errors.Join(append(faults, err)...)
}

// headersIn reads headers, one NAME: VALUE a line.
func headersIn(text string) (map[string]string, error) {
	headers := make(map[string]string)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, whole := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !whole || twice {
			return nil, fault.New("headers", "header %.100q: write NAME: VALUE, a line for each name", line)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// publish publishes what a form describes. Without an id the form's own name is the id, so
// that a form that is sent again is refused by the store, too.
func (c *Console) publish(ctx context.Context, v *visit, topic string, broadcast bool) (string, int, error) {
	if err := cmp.Or(calls.Publish.Admits(v.Client), record.CheckTopic(topic), v.AllowTopic(topic)); err != nil {
		return "", 0, err
	}
	m, err := formOf(v.r.PostForm).message(topic)
	if err != nil {
		return "", 0, err
	}
	m.Broadcast = broadcast
	m.ID = cmp.Or(m.ID, v.r.PostForm.Get("once"))
	p, err := c.pub.Publish(ctx, m)
	if errors.Is(err, notify.ErrExists) {
		err = fault.New("id", "id %s: it is in use in this topic; give another one, or none", m.ID)
	}
	if err != nil {
		return "", 0, err
	}
	c.forget(topic)
	v.makes(topic, m.ID, broadcast)
	did := "Published "
	if broadcast {
		did = "Broadcast "
	}
	return did + m.ID + " to " + topic + ", " + p.State.String() + dueText(p.Due), 1, nil
}

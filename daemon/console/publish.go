package console

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// messageOf returns the message that a form describes by some fields, its body and its headers. The error joins a Fault for each field that
// cannot be read.
func (v *visit) messageOf(topic string, all []fields.Field) (notify.Message, error) {
	m := notify.Message{Topic: topic, Body: []byte(v.Written("body"))}
	bad := v.read(all, reflect.ValueOf(&m).Elem())
	var err error
	m.Headers, err = headersIn(v.Written("headers"))
	return m, errors.Join(bad, err)
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
	m, err := v.messageOf(topic, fields.In[notify.Message]())
	if err != nil {
		return "", 0, err
	}
	if err := v.AllowGroup(&m); err != nil {
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

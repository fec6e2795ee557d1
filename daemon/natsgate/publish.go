package natsgate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// publish returns what publishes a message for one worker, or a broadcast.
func (g *Gate) publish(broadcast bool) func(context.Context, request) (*nats.Msg, error) {
	return func(ctx context.Context, r request) (*nats.Msg, error) {
		m, err := messageOf(r, broadcast)
		if err != nil {
			return nil, err
		}
		if topic, _, _ := strings.Cut(m.AfterGroup, ":"); topic != "" && topic != m.Topic { // what else the client may use is known to NATS alone
			return nil, fault.New("after_group", "after_group %s: over NATS a message waits for groups of its own topic; publish it to %s, or over HTTP", m.AfterGroup, topic)
		}
		if of, branch := record.SplitBranch(m.Topic); branch != "" && m.Group != "" {
			return nil, fault.New("group", "group %s: over NATS no message of a branch joins a group of its topic; publish it to %s, or over HTTP", m.Group, of)
		}
		p, err := g.pub.Publish(ctx, m)
		if err != nil {
			return nil, api.PublishError(p, err)
		}
		return jsonMessage(api.PublicationOf(p)), nil
	}
}

// Headers of a request to publish.
const (
	ownHeader   = "bellhop-"     // prefix of the names of Bellhop's own headers
	contentType = "content-type" // of the body, or
	ceType      = "ce-datacontenttype"
)

// A setter reads a header of a request to publish.
type setter struct {
	set func(m *notify.Message, value string) error
	of  string // message: a broadcast has none
}

// headerOf returns the header of a field in lower case: of late_after bellhop-late-after.
func headerOf(f fields.Field) string { return ownHeader + strings.ReplaceAll(f.Name, "_", "-") }

// setters has the setter of each header, by its name in lower case.
var setters = makeSetters()

func makeSetters() map[string]setter {
	all := make(map[string]setter)
	for _, f := range fields.In[notify.Message]() {
		f = f.Lenient() // notify checks the range
		all[headerOf(f)] = setter{func(m *notify.Message, value string) error { return f.Set(reflect.ValueOf(m).Elem(), value) }, f.Of}
	}
	delete(all, ownHeader+"content-type") // NATS and CloudEvents have their own names for it
	all[contentType] = setter{set: func(m *notify.Message, value string) error {
		m.ContentType = value
		return nil
	}}
	all[ceType] = setter{set: func(m *notify.Message, value string) (err error) {
		if m.ContentType, err = url.PathUnescape(value); err != nil {
			return fault.New("content_type", "content type %.100q: write each literal %% as %%25", value)
		}
		return nil
	}}
	return all
}

// messageOf returns the message that a request publishes. The names of headers
// are read without regard to case, since clients differ in it. The error is a joined
// notify.Fault for each that is wrong.
func messageOf(r request, broadcast bool) (notify.Message, error) {
	m := notify.Message{Topic: r.name, Body: r.data, Broadcast: broadcast}
	seen := make(map[string]bool)
	var faults []error
	var wrong []string // the fields of these faults
	refuse := func(name string, err error) {
		faults = append(faults, err)
		wrong = append(wrong, strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(name), ownHeader), "-", "_"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		lower := strings.ToLower(name)
		header, known := setters[lower]
		carried := strings.HasPrefix(lower, strings.ToLower(api.KeepHeader))
		if !known && !strings.HasPrefix(lower, ownHeader) {
			continue // not Bellhop's
		}
		value, err := single(name, r.header[name], seen[lower])
		seen[lower] = true
		switch {
		case err != nil:
			refuse(name, err)
		case carried:
			if m.Headers == nil {
				m.Headers = make(map[string]string)
			}
			m.Headers[name[len(api.KeepHeader):]] = value
		case !known:
			refuse(name, fault.New(name, "header %.100q: it is unknown; use %s", name, knownHeaders(broadcast)))
		case broadcast && header.of != "":
			refuse(name, fault.New(name, "header %s: a broadcast has none; leave it out", name))
		default:
			if err := header.set(&m, value); err != nil {
				refuse(name, fault.Renamed(name, fmt.Errorf("header %s: %w", name, err)))
			}
		}
	}
	if seen[contentType] && seen[ceType] {
		refuse("content_type", fault.New("content_type", "headers Content-Type and %s: both are given; give one of them", ceType))
	}
	if len(faults) == 0 {
		return m, nil
	}
	return m, errors.Join(append(faults, m.Faults(wrong...))...)
}

// single returns the only value of a header.
func single(name string, values []string, seen bool) (string, error) {
	switch {
	case seen || len(values) > 1:
		return "", fault.New(name, "header %.100q: it is given twice; give it once", name)
	case values[0] == "" && !strings.HasPrefix(strings.ToLower(name), strings.ToLower(api.KeepHeader)):
		return "", fault.New(name, "header %.100q: it is empty; leave it out for the default", name)
	}
	return values[0], nil
}

// knownHeaders lists Bellhop's own headers.
func knownHeaders(broadcast bool) string {
	var names []string
	for _, f := range fields.In[notify.Message]() {
		if lower := headerOf(f); setters[lower].set != nil && (!broadcast || f.Of == "") {
			names = append(names, textproto.CanonicalMIMEHeaderKey(lower))
		}
	}
	return strings.Join(names, ", ") + " or " + api.KeepHeader + "NAME"
}

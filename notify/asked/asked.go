// Package asked has what the publisher of a message asked for, as JSON shows and keeps it and
// as people read it.
package asked

import (
	"fmt"
	"maps"
	"net/textproto"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// Options are what the publisher of a message asked for. Each field has the name of one of a
// [notify.Record]; durations are in whole milliseconds. The tags doc, example and enum are
// for the OpenAPI document, label is for people.
type Options struct {
	Key         string            `json:"key,omitempty" label:"key" doc:"what it is about" example:"acct-7"`
	IfBusy      string            `json:"if_busy,omitempty" label:"if its key is busy" enum:"wait,drop" doc:"what becomes of it when it is due first, and another of its key is under way; missing: wait"`
	Group       string            `json:"group,omitempty" label:"group" doc:"the group of its topic in which it is" example:"import-7"`
	AfterGroup  string            `json:"after_group,omitempty" label:"after group" doc:"TOPIC:GROUP of that which it waits for, or waited for" example:"row.import:import-7"`
	OnDead      string            `json:"on_dead,omitempty" label:"if one of that is dead" enum:"stop,go" doc:"what a dead letter of that does; missing: stop"`
	MaxAttempts int               `json:"attempts,omitempty" label:"limit of attempts" doc:"its limit of attempts; missing: the default"`
	TTL         int64             `json:"ttl_ms,omitempty" label:"time to live" doc:"its time to live" example:"86400000"`
	Lease       int64             `json:"lease_ms,omitempty" label:"lease" doc:"the lease that a claim of it gives; missing: that of the claim or of the topic's settings" example:"30000"`
	TryTimeout  int64             `json:"try_timeout_ms,omitempty" label:"try timeout" doc:"how long an attempt may take; missing: as long as its lease is extended" example:"300000"`
	Fail        notify.Fail       `json:"fail,omitempty" label:"if it fails" enum:"bury,drop" doc:"what becomes of it at its last failed attempt, and when it expires; missing: bury"`
	LateAfter   int64             `json:"late_after_ms,omitempty" label:"late after" doc:"how long after first_due a claim of it is too late; missing: never" example:"600000"`
	Late        notify.Late       `json:"late,omitempty" label:"if it is late" enum:"bury,drop" doc:"what becomes of it when it is claimed too late; missing: bury"`
	UniqueFor   int64             `json:"unique_for_ms,omitempty" label:"id taken for" doc:"how long its id stays taken after its end; missing: not at all" example:"3600000"`
	ContentType string            `json:"content_type,omitempty" label:"content type"`
	Headers     map[string]string `json:"headers,omitempty" label:"header" doc:"headers kept with it"`
}

// Of returns what was asked for by a record.
func Of(r notify.Record) (o Options) {
	fields.Fill(&o, &r)
	return o
}

// Into sets what was asked for in a record.
func (o Options) Into(r *notify.Record) { fields.Fill(r, &o) }

// Delivered is what a handler gets of that, beside the body.
type Delivered struct {
	Key         string            `json:"key,omitempty" doc:"what the message is about; missing: it has no key" example:"acct-7"`
	Fence       int64             `json:"fence,omitempty" doc:"a number that is greater than those of all deliveries of the key before, so that what a late worker writes can be told: UPDATE … SET fence = F WHERE fence < F; missing: it has no key" example:"1795761174263330"`
	Group       string            `json:"group,omitempty" doc:"the group of its topic in which it is; missing: none" example:"import-7"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

// DeliveredOf returns what a handler gets of what was asked for by a record, and the fence of
// its delivery; 0: it has none.
func DeliveredOf(r *notify.Record, fence int64) Delivered {
	return Delivered{Key: r.Key, Fence: fence, Group: r.Group, ContentType: r.ContentType, Headers: r.Headers}
}

// attributes are the fields of Delivered that have no form of their own in headers and in
// variables.
var attributes = sync.OnceValue(func() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Delivered]()), func(f reflect.StructField) bool {
		return f.Name == "ContentType" || f.Name == "Headers"
	})
})

// nameOf returns the name of a field in JSON.
func nameOf(f reflect.StructField) string { return strings.TrimSuffix(f.Tag.Get("json"), ",omitempty") }

// Attributes returns the attributes of a record and of its delivery that are given, for headers
// and variables.
func Attributes(r *notify.Record, fence int64) (all []Named) {
	of := reflect.ValueOf(DeliveredOf(r, fence))
	for _, f := range attributes() {
		if value := of.FieldByIndex(f.Index); !value.IsZero() {
			all = append(all, Named{nameOf(f), fmt.Sprint(value.Interface())})
		}
	}
	return all
}

// Describe returns what each attribute is.
func Describe() (all []Named) {
	for _, f := range attributes() {
		all = append(all, Named{nameOf(f), f.Tag.Get("doc")})
	}
	return all
}

// Header returns the name of a header: of max_wait Bellhop-Max-Wait.
func (n Named) Header() string {
	return textproto.CanonicalMIMEHeaderKey("bellhop-" + strings.ReplaceAll(n.Name, "_", "-"))
}

// A Named is one thing that was asked for, as people read it.
type Named struct{ Name, Text string }

// Named returns what was asked for, each header by itself.
func (o Options) Named() (all []Named) {
	of := reflect.ValueOf(o)
	for field, value := range of.Fields() {
		label := field.Tag.Get("label")
		switch {
		case value.IsZero():
		case value.Kind() == reflect.Map:
			for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
				all = append(all, Named{label + " " + name, o.Headers[name]})
			}
		case strings.HasSuffix(nameOf(field), "_ms"):
			all = append(all, Named{label, fault.Short(time.Duration(value.Int()) * time.Millisecond)})
		case value.CanInt():
			all = append(all, Named{label, strconv.FormatInt(value.Int(), 10)})
		default:
			all = append(all, Named{label, value.String()})
		}
	}
	return all
}

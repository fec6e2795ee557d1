package history

import (
	"math"
	"strings"
)

// never is a time that never comes; times can be added to it.
const never = math.MaxInt64 / 4

// An op is an operation or an event. An event has no end.
type op struct {
	call, end *Record
}

func (o *op) from() int64 { return o.call.At }

func (o *op) phase() Phase {
	if o.end == nil {
		return Unknown
	}
	return o.end.Phase
}

// maybe reports whether the operation may have happened.
func (o *op) maybe() bool { return o.phase() != No }

// ok reports whether the operation happened for certain.
func (o *op) ok() bool { return o.phase() == OK }

// to returns the latest time at which the operation may have happened.
func (o *op) to() int64 {
	if o.phase() == Unknown {
		return never
	}
	return o.end.At
}

// ended returns when the end was recorded, whatever its phase.
func (o *op) ended() int64 {
	if o.end == nil {
		return never
	}
	return o.end.At
}

// either returns a field of the end, or of the call if it is zero there.
func either[T comparable](o *op, field func(*Record) T) T {
	var zero T
	if o.end != nil {
		if v := field(o.end); v != zero {
			return v
		}
	}
	return field(o.call)
}

func (o *op) offset() int64   { return either(o, func(r *Record) int64 { return r.Offset }) }
func (o *op) loss() int64     { return either(o, func(r *Record) int64 { return r.Loss }) }
func (o *op) waited() bool    { return either(o, func(r *Record) bool { return r.Waited }) }
func (o *op) halfway() bool   { return either(o, func(r *Record) bool { return r.Halfway }) }
func (o *op) epoch() int64    { return either(o, func(r *Record) int64 { return r.Epoch }) }
func (o *op) due() int64      { return either(o, func(r *Record) int64 { return r.Due }) }
func (o *op) outcome() string { return either(o, func(r *Record) string { return r.Outcome }) }
func (o *op) state() string   { return either(o, func(r *Record) string { return r.State }) }
func (o *op) forgotten() bool { return either(o, func(r *Record) bool { return r.Forgotten }) }

// records returns the records of the operation.
func (o *op) records() []Record {
	if o.end == nil {
		return []Record{*o.call}
	}
	return []Record{*o.call, *o.end}
}

// topics returns the topics of a claim.
func (o *op) topics() []string {
	if o.call.Topics == "" {
		return []string{o.call.Topic}
	}
	return strings.Split(o.call.Topics, ",")
}

// terms returns the terms of the carrier that is the target of an operation.
func (o *op) terms() []term {
	all, _ := termsIn(either(o, func(r *Record) string { return r.Epochs })) // checked as it was read
	if epoch := o.epoch(); epoch > 0 {
		all = append(all, term{o.call.Shard, epoch})
	}
	return all
}

// stops reports whether a call marked a leased message for certain, which is cancelled when its lease ends.
func (o *op) stops() bool { return o.call.Stop && o.ok() && o.state() == "leased" }

// isNext reports whether a publish was acknowledged as that of a successor.
func (o *op) isNext() bool { return o.ok() && o.state() == "leased" }

// replaces reports whether a publish may have removed the version before it.
func (o *op) replaces() bool {
	switch {
	case o.ok():
		return o.outcome() == "replaced" || o.outcome() == "moved"
	case o.phase() == Unknown:
		return o.call.Mode == "replace" || o.call.Mode == "debounce"
	}
	return false
}

// receiptOf returns the receipt that a call uses.
func receiptOf(settle *op) int64 {
	if settle.call.Op == Extend {
		return settle.call.Was
	}
	return settle.call.Receipt
}

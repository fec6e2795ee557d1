package fields

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// Check returns a joined fault.Fault for each named field of a struct whose value is outside
// the limits in its tags, and for each two that exclude each other. A zero value is none, but
// behind a pointer. An embedded struct checks itself. In one for a broadcast no field that is
// of a message may be set.
func Check[T any](of *T, broadcast bool) error {
	var faults []error
	value := reflect.ValueOf(of).Elem()
	all := In[T]()
	for i := range all {
		f := &all[i]
		field := value.FieldByIndex(f.Index)
		switch {
		case field.IsZero(), len(f.Index) > 1:
		case broadcast && f.Of == "message":
			faults = append(faults, fault.New(f.Name, "%s %s: a broadcast has none; leave it out", f.Name, shown(field)))
		default:
			if err := f.check(reflect.Indirect(field)); err != nil {
				faults = append(faults, err)
			}
			if f.Without != "" && isSet(all, f.Without, value) {
				faults = append(faults, fault.New(f.Name, "%s and %s: both are given; give one of them", f.Without, f.Name))
			}
		}
	}
	return errors.Join(faults...)
}

// shown returns a value as a sentence has it.
func shown(value reflect.Value) string {
	if value.Kind() == reflect.String {
		return fmt.Sprintf("%.100q", value.String())
	}
	return fmt.Sprint(value)
}

// isSet reports whether the field of a name is set.
func isSet(all []Field, name string, of reflect.Value) bool {
	for i := range all {
		if all[i].Name == name {
			return !of.FieldByIndex(all[i].Index).IsZero()
		}
	}
	return false
}

// check reports what is wrong with a value.
func (f *Field) check(value reflect.Value) error {
	switch {
	case f.lasts:
		return f.within(time.Duration(value.Int()))
	case f.number:
		return f.between(value.Int())
	case value.Kind() == reflect.String:
		return f.text(value.String())
	}
	switch is := value.Interface().(type) {
	case time.Time:
		return f.from1970(is)
	case record.Rate:
		return fault.Within(f.Name, f.Name, is, record.Rate(f.min), record.Rate(f.max))
	}
	return nil
}

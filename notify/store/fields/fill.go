package fields

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Fill sets the fields of a struct that another struct has by the same names in Go, but
// those named in except and embedded ones. A duration becomes whole milliseconds in an int64,
// and text in a string, empty for zero; milliseconds become a duration. Fill panics where
// two fields of a name cannot be converted, which any test shows.
func Fill[To, From any](to *To, from *From, except ...string) {
	into, of := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, c := range copiesOf(into.Type(), of.Type()) {
		if !slices.Contains(except, c.name) {
			c.set(into.Field(c.to), of.Field(c.from))
		}
	}
}

// A copied is a field that two structs have.
type copied struct {
	name     string
	to, from int // indexes
	set      func(to, from reflect.Value)
}

var copies sync.Map // []copied of a [2]reflect.Type

func copiesOf(to, from reflect.Type) []copied {
	key := [2]reflect.Type{to, from}
	if known, ok := copies.Load(key); ok {
		return known.([]copied)
	}
	var all []copied
	for i := range to.NumField() {
		into := to.Field(i)
		for j := range from.NumField() {
			of := from.Field(j)
			if into.Name == of.Name && into.IsExported() && !into.Anonymous && !of.Anonymous {
				all = append(all, copied{into.Name, i, j, setterOf(into, of)})
			}
		}
	}
	known, _ := copies.LoadOrStore(key, all)
	return known.([]copied)
}

// setterOf returns a function that sets a field from another one.
func setterOf(to, from reflect.StructField) func(to, from reflect.Value) {
	duration := reflect.TypeFor[time.Duration]()
	switch {
	case to.Type == from.Type:
		return reflect.Value.Set
	case from.Type == duration && to.Type.Kind() == reflect.Int64:
		return func(to, from reflect.Value) { to.SetInt(time.Duration(from.Int()).Milliseconds()) }
	case to.Type == duration && from.Type.Kind() == reflect.Int64:
		return func(to, from reflect.Value) { to.SetInt(int64(time.Duration(from.Int()) * time.Millisecond)) }
	case from.Type == duration && to.Type.Kind() == reflect.String:
		return func(to, from reflect.Value) {
			if to.SetString(""); from.Int() != 0 {
				to.SetString(time.Duration(from.Int()).String())
			}
		}
	}
	return func(reflect.Value, reflect.Value) {
		panic(fmt.Sprintf("field %s: %v does not become %v", to.Name, from.Type, to.Type))
	}
}

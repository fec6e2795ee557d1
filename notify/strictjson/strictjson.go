// Package strictjson reads JSON as encoding/json does, but refuses what encoding/json
// changes or ignores silently: invalid UTF-8, half of a surrogate pair, a key that is
// given twice, an unknown field, and anything after the value.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// An Error is an error in JSON, with the field that it is in, if any.
type Error struct {
	Field string // such as body or restore.died; empty: the JSON as a whole
	Text  string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// errorf returns the Error of a field.
func errorf(field, format string, args ...any) error {
	return &Error{Field: field, Text: fmt.Sprintf(format, args...)}
}

// FieldOf returns the field of an error of this package, or whole if the error has
// none.
func FieldOf(err error, whole string) string {
	var e *Error
	if errors.As(err, &e) && e.Field != "" {
		return e.Field
	}
	return whole
}

// Decode reads one JSON object into a struct, which may hold defaults. The error is
// in terms of JSON, not of Go, and quotes at most 100 bytes of it at a time.
func Decode(data []byte, into any) error {
	if err := shape(data); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fault(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errFollows
	}
	return Check(data)
}

// fault turns an error of encoding/json into one in terms of JSON.
func fault(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var at *time.ParseError
	const unknown = "json: unknown field "
	switch text := err.Error(); {
	case errors.As(err, &kind):
		return errorf(kind.Field, "%.100s is a JSON %.100s, and should be %s", kind.Field, kind.Value, kindOf(kind.Type))
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not JSON")
	case errors.As(err, &at):
		return fmt.Errorf("%.100q is not a time; write one such as 2030-01-02T15:04:05Z", at.Value)
	case strings.HasPrefix(text, unknown):
		name, _ := strconv.Unquote(text[len(unknown):])
		return errorf(name, "the field %.100q is unknown", name)
	default:
		return fmt.Errorf("%.100s", text)
	}
}

// kindOf returns the kind of JSON that a Go type reads.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a string"
}

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
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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

// Elements returns the elements of one JSON array of objects, each as Decode reads it. An
// error belongs to the element that would be next, and is the last.
func Elements[T any](data []byte) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := opening(decoder, data); err != nil {
			yield(*new(T), err)
			return
		}
		for decoder.More() {
			var next T
			err := element(decoder, data, &next)
			if !yield(next, err) || err != nil {
				return
			}
		}
		if err := ending(decoder); err != nil {
			yield(*new(T), err)
		}
	}
}

// opening reads the beginning of an array.
func opening(decoder *json.Decoder, data []byte) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	token, err := decoder.Token()
	if err != nil {
		return fault(err)
	}
	if token != json.Delim('[') {
		return errors.New("it is not a JSON array")
	}
	return nil
}

// element reads the next element.
func element(decoder *json.Decoder, data []byte, into any) error {
	raw := bytes.TrimLeft(data[decoder.InputOffset():], " \t\r\n,")
	if raw[0] != '{' {
		return errNotObject
	}
	if err := decoder.Decode(into); err != nil {
		return fault(err)
	}
	return Check(raw)
}

// ending reads the end of an array, and of the JSON.
func ending(decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil {
		return fault(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON array")
	}
	return nil
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
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
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

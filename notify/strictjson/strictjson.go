// Package strictjson reads JSON as encoding/json does, and refuses what that
// changes in silence: bytes that are no UTF-8, half a surrogate pair, a key that is
// given twice, a field that is unknown, and what follows the value.
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

// An Error says what is wrong with JSON, and in which field where it is in one.
type Error struct {
	Field string // such as body, or restore.died; empty: the JSON as a whole
	Text  string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// errorf returns the Error of a field.
func errorf(field, format string, args ...any) error {
	return &Error{Field: field, Text: fmt.Sprintf(format, args...)}
}

// FieldOf returns the field that an error of this package is about, or, where it
// is about none, what the JSON is called as a whole.
func FieldOf(err error, whole string) string {
	var e *Error
	if errors.As(err, &e) && e.Field != "" {
		return e.Field
	}
	return whole
}

// Decode reads one JSON object into a struct, which may hold defaults. The error
// says what is wrong in the words of who wrote it, and repeats little of it.
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

// fault says what is wrong with JSON that encoding/json does not read.
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
		return fmt.Errorf("%.100q is no time; write one such as 2030-01-02T15:04:05Z", at.Value)
	case strings.HasPrefix(text, unknown):
		name, _ := strconv.Unquote(text[len(unknown):])
		return errorf(name, "the field %.100q is unknown", name)
	default:
		return fmt.Errorf("%.100s", text)
	}
}

// kindOf says of which kind the JSON of a type is.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a string"
}

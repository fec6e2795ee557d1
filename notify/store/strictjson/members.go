package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// A Member is a name in a JSON object with its raw value.
type Member struct {
	Name  []byte
	Value []byte // raw, without surrounding space
}

// Members calls each with the members of one JSON object, for a caller that reads every
// one by itself in order to report all errors. The error is about the object as a whole,
// as that of Decode; each is not called then.
func Members(data []byte, each func(Member)) error {
	if err := shape(data); err != nil {
		return err
	}
	if !json.Valid(data) {
		var first json.RawMessage
		if err := json.NewDecoder(bytes.NewReader(data)).Decode(&first); err != nil {
			return fault(err)
		}
		return errFollows
	}
	s := scan(data)
	defer s.release()
	return s.each(each)
}

// each reads an object, and calls f with its members.
func (s *scanner) each(f func(Member)) error {
	s.wanted = true
	if err := s.value(); err != nil {
		return err
	}
	for _, member := range s.members {
		f(member)
	}
	return nil
}

// shape returns an error if data cannot be one JSON object.
func shape(data []byte) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	if first := bytes.TrimSpace(data); len(first) == 0 || first[0] != '{' {
		return errNotObject
	}
	return nil
}

var (
	errNotUTF8   = errors.New("it is not UTF-8")
	errNotObject = errors.New("it is not a JSON object")
	errFollows   = errors.New("something follows the JSON object")
)

// IsNull reports whether the value is null, which means no value.
func (m Member) IsNull() bool { return string(m.Value) == "null" }

// Text returns the text of a string. It may share memory with the JSON that was read.
// The error is an Error.
func (m Member) Text() ([]byte, error) {
	if m.Value[0] != '"' {
		return nil, m.is("a string")
	}
	if bytes.IndexByte(m.Value, '\\') < 0 {
		return m.Value[1 : len(m.Value)-1], nil
	}
	var text string
	err := json.Unmarshal(m.Value, &text)
	return []byte(text), err
}

// List returns a list of strings, with null as the empty string. The error is an Error, and quotes none of them.
func (m Member) List() (texts []string, err error) {
	if json.Unmarshal(m.Value, &texts) != nil {
		return nil, m.is("a list of strings")
	}
	return texts, nil
}

// Number returns a number as it is written. The error is an Error.
func (m Member) Number() ([]byte, error) {
	if m.Value[0] != '-' && (m.Value[0] < '0' || m.Value[0] > '9') {
		return nil, m.is("a whole number")
	}
	return m.Value, nil
}

// Bool returns true or false. The error is an Error.
func (m Member) Bool() ([]byte, error) {
	if m.Value[0] != 't' && m.Value[0] != 'f' {
		return nil, m.is("true or false")
	}
	return m.Value, nil
}

// Texts returns an object of strings, with null as the empty string. The error is an
// Error.
func (m Member) Texts() (map[string]string, error) {
	if m.Value[0] != '{' {
		return nil, m.is("an object")
	}
	s := scan(m.Value)
	defer s.release()
	texts := make(map[string]string)
	var wrong error
	err := s.each(func(inner Member) {
		var text []byte
		if !inner.IsNull() {
			var err error
			text, err = Member{m.Name, inner.Value}.Text()
			wrong = cmp.Or(wrong, err)
		}
		texts[string(inner.Name)] = string(text)
	})
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	return texts, nil
}

// is returns the Error of a value that is of another kind than it should be.
func (m Member) is(want string) error {
	kinds := map[byte]string{'"': "string", '{': "object", '[': "array", 't': "bool", 'f': "bool"}
	kind, ok := kinds[m.Value[0]]
	if !ok {
		kind = "number"
	}
	return errorf(string(m.Name), "%.100s is a JSON %s, and should be %s", m.Name, kind, want)
}

// Decode reads the member into a struct, as if it were the only one of the object.
func (m Member) Decode(into any) error {
	name, err := json.Marshal(string(m.Name))
	if err != nil {
		return err
	}
	err = Decode(bytes.Join([][]byte{{'{'}, name, {':'}, m.Value, {'}'}}, nil), into)
	if err != nil && FieldOf(err, "") == "" {
		err = errorf(string(m.Name), "%.100s: %v", m.Name, err)
	}
	return err
}

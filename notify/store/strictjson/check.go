package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

var errSurrogate = errors.New(`it has half of a surrogate pair, such as \ud83d alone; write both, or the character itself`)

// Check reports what encoding/json would change silently in valid JSON of valid
// UTF-8. As in encoding/json, keys that differ only in case are the same key.
func Check(data []byte) error {
	s := scan(data)
	defer s.release()
	return s.value()
}

// A scanner reads valid JSON.
type scanner struct {
	json []byte
	at   int
	keys [][]byte // of all objects around the current position

	members []Member // of the outermost object, if wanted
	wanted  bool
}

// scanners keep their slices for the next call: a bulk of lines needs one for each line.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

func scan(data []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.json = data
	return s
}

// release makes the scanner available to others, without what it read.
func (s *scanner) release() {
	clear(s.keys[:cap(s.keys)])
	clear(s.members[:cap(s.members)])
	if *s = (scanner{keys: s.keys[:0], members: s.members[:0]}); cap(s.keys)+cap(s.members) <= mostKept {
		scanners.Put(s)
	}
}

// mostKeys is how many keys an object may have, many more than any that is read: each may be an error of its own, which is much longer.
const mostKeys = 1000

// mostKept is how many keys and members a scanner may have room for and be kept.
const mostKept = 256

// peek skips space and returns the next byte.
func (s *scanner) peek() byte {
	for strings.IndexByte(" \t\r\n", s.json[s.at]) >= 0 {
		s.at++
	}
	return s.json[s.at]
}

// skip skips space and the next byte.
func (s *scanner) skip() {
	s.peek()
	s.at++
}

func (s *scanner) value() (err error) {
	switch s.peek() {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		_, _, err = s.text()
		return err
	}
	for s.at < len(s.json) && strings.IndexByte(" \t\r\n,]}", s.json[s.at]) < 0 {
		s.at++
	}
	return nil
}

func (s *scanner) array() error {
	for s.skip(); s.peek() != ']'; {
		if err := s.value(); err != nil {
			return err
		}
		if s.peek() == ',' {
			s.skip()
		}
	}
	s.skip()
	return nil
}

func (s *scanner) object() error {
	outer := len(s.keys)
	for s.skip(); s.peek() != '}'; {
		if err := s.key(); err != nil {
			return err
		}
		if len(s.keys)-outer > mostKeys {
			return errorf("", "an object has more than %d keys; give what is needed", mostKeys)
		}
		name := s.keys[len(s.keys)-1]
		s.skip() // the colon
		s.peek()
		begin := s.at
		if err := s.value(); err != nil {
			return err
		}
		if s.wanted && outer == 0 {
			s.members = append(s.members, Member{name, s.json[begin:s.at]})
		}
		if s.peek() == ',' {
			s.skip()
		}
	}
	s.skip()
	keys := s.keys[outer:]
	s.keys = s.keys[:outer]
	return twice(keys)
}

// key reads a key.
func (s *scanner) key() error {
	raw, escaped, err := s.text()
	if err != nil {
		return err
	}
	name := raw[1 : len(raw)-1]
	if escaped {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		name = []byte(text)
	}
	s.keys = append(s.keys, name)
	return nil
}

// text reads a string with its quotes, and reports whether it contains escapes.
func (s *scanner) text() (raw []byte, escaped bool, err error) {
	begin := s.at
	for s.at++; s.json[s.at] != '"'; s.at++ {
		if s.json[s.at] != '\\' {
			continue
		}
		escaped = true
		if s.at++; s.json[s.at] == 'u' && !s.whole() {
			return nil, true, errSurrogate
		}
	}
	s.at++
	return s.json[begin:s.at], escaped, nil
}

// whole skips the digits after \u, and the second half of a surrogate pair. It reports
// false if a half is missing.
func (s *scanner) whole() bool {
	first := s.unit()
	if !utf16.IsSurrogate(first) {
		return true
	}
	if !bytes.HasPrefix(s.json[s.at+1:], []byte(`\u`)) {
		return false
	}
	s.at += 2
	return utf16.DecodeRune(first, s.unit()) != unicode.ReplacementChar
}

// unit reads the four digits after the u.
func (s *scanner) unit() rune {
	n, _ := strconv.ParseUint(string(s.json[s.at+1:s.at+5]), 16, 32) // the JSON is valid
	s.at += 4
	return rune(n)
}

// twice returns an error if a key occurs twice.
func twice(keys [][]byte) error {
	slices.SortFunc(keys, compare)
	for i := 1; i < len(keys); i++ {
		a, b := keys[i-1], keys[i]
		switch {
		case compare(a, b) != 0:
		case bytes.Equal(a, b):
			return errorf(string(a), "the key %.100q is given twice; give it once", a)
		default:
			return errorf(string(a), "the keys %.100q and %.100q differ only in case; give one of them", min(string(a), string(b)), max(string(a), string(b)))
		}
	}
	return nil
}

// compare compares two texts, ignoring case.
func compare(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		first, n := utf8.DecodeRune(a)
		second, m := utf8.DecodeRune(b)
		if order := cmp.Compare(fold(first), fold(second)); order != 0 {
			return order
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// fold returns the smallest character that differs from r only in case.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToUpper(r)
	}
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}

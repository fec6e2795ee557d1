package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

type line struct {
	Topic   string            `json:"topic"`
	Max     int               `json:"max"`
	Due     *time.Time        `json:"due"`
	Data    []byte            `json:"data"`
	Headers map[string]string `json:"headers"`
	Inner   struct {
		Died string `json:"died"`
	} `json:"inner"`
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		` {"topic":"😀 \ud83d\ude00 \ufffd \\ud83d \"","headers":{"a":"1","b":"2"},"max":3,"due":null} ` + "\n": "",
		`{"headers":{},"inner":{"died":"x"},"topic":"died","data":""}`:                                         "",
		`{"topic":"a","topic":"b"}`:                        `the key "topic" is given twice`,
		`{"topic":"a","Topic":"b"}`:                        `the keys "Topic" and "topic" differ only in case`,
		`{"topic":"a","max":1,"\u0074opic":"b"}`:           `the key "topic" is given twice`,
		`{"max":1,"data":"","max":2,"topic":"a"}`:          `the key "max" is given twice`,
		`{"died":"a"}`:                                     `the field "died" is unknown`,
		`{"inner":{"died":"a","DIED":"b"}}`:                `the keys "DIED" and "died" differ only in case`,
		"{\"inner\":{\"died\":\"a\",\"\u0044ied\":\"b\"}}": `the keys "Died" and "died" differ only in case`,
		"{\"headers\":{\"s\":\"a\",\"\u017f\":\"b\"}}":     `differ only in case`,
		`{"headers":{"a":"1","b":"","a":"2"}}`:             `the key "a" is given twice`,
		`{"headers":{"a":"\ud83d"}}`:                       "half of a surrogate pair",
		`{"headers":{"\ud83d":"a"}}`:                       "half of a surrogate pair",
		`{"topic":"\ude00\ud83d"}`:                         "half of a surrogate pair",
		`{"topic":"\ud83dx"}`:                              "half of a surrogate pair",
		`{"topic":"\ud83d\n"}`:                             "half of a surrogate pair",
		`{"topic":"\ud83d\ud83d\ude00"}`:                   "half of a surrogate pair",
		`{"topic":"\\\uDFFF"}`:                             "half of a surrogate pair",
		"{\"topic\":\"\xed\xa0\xbd\"}":                     "it is not UTF-8",
		"":                                                 "it is not a JSON object",
		`[{}]`:                                             "it is not a JSON object",
		`{"topic":"a"`:                                     "it is not JSON",
		`{"topic":"a",}`:                                   "it is not JSON",
		`{}{}`:                                             "something follows the JSON object",
		`{"max":1.5}`:                                      "max is a JSON number 1.5, and should be a whole number",
		`{"headers":{"a":{}}}`:                             "should be a string",
		`{"headers":"a"}`:                                  "headers is a JSON string, and should be an object",
		`{"inner":{"died":1}}`:                             "inner.died is a JSON number, and should be a string",
		`{"due":"tomorrow"}`:                               `"tomorrow" is not a time; write one such as 2030-01-02T15:04:05Z`,
		`{"data":"!"}`:                                     "illegal base64",
	} {
		err := strictjson.Decode([]byte(text), &line{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// An error is short, however large the JSON is.
func TestErrorsAreShort(t *testing.T) {
	const size = 1 << 20
	huge, deep := strings.Repeat("9", size), strings.Repeat("[", size)
	many := strings.Repeat(`"a":1,`, size/8)
	for _, text := range []string{
		`{"max":` + huge + `}`, `{"` + huge + `":1}`, `{"due":"` + huge + `"}`, `{"data":"` + huge + `!"}`, `{"topic":` + huge + `}`,
		`{"headers":{"` + huge + `":"","` + huge + `":""}}`, `{"headers":` + deep, `{"headers":{` + many + `"b":1}}`, `{"inner":{"` + huge + `":1}}`,
		`{"due":"0001-01-01T00:00:00.` + huge + `Z"}x`, `{"headers":{"x` + huge + `":"","X` + huge + `":""}}`,
	} {
		if err := strictjson.Decode([]byte(text), &line{}); err == nil || len(err.Error()) > 500 {
			t.Errorf("%.40s… of %d bytes: got %.600v", text, len(text), err)
		}
	}
}

// Check finds every key that encoding/json reads twice, and nothing else.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":{"b":[{"c":1,"c":2}]}}`, `[{"a":1},{"a":1}]`, `"\ud800"`, `{"a":"\\ud800"}`, ` [ 1 , -2e3 , true , null ] `,
		`{"a":"}","b":"\"","\u0061":0}`, `{"":{},"":[]}`, `{"K":1,"k":2}`, `1`, `{"a":1 ,"b" : [ ] }`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || !utf8.Valid(data) || bytes.Count(data, []byte{':'}) > 1000 {
			t.Skip()
		}
		var whole string
		lone := json.Unmarshal(data, &whole) == nil && strings.Count(whole, "\ufffd") > strings.Count(string(data), "\ufffd")+strings.Count(strings.ToLower(string(data)), `\ufffd`)
		err := strictjson.Check(data)
		if doubled := doubled(t, data); err == nil && (doubled || lone) {
			t.Errorf("%q is right, doubled: %v, a lone surrogate: %v", data, doubled, lone)
		} else if err != nil && !doubled && !bytes.Contains(bytes.ToLower(data), []byte(`\ud`)) {
			t.Errorf("%q is refused: %v", data, err)
		}
	})
}

// doubled reports, by the tokens of encoding/json, whether an object has a key twice.
func doubled(t *testing.T, data []byte) bool {
	type level struct {
		object, value bool // it is an object; a value comes next
		keys          []string
	}
	levels := []level{{}}
	for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return false
		}
		if err != nil {
			t.Skip(err)
		}
		top := &levels[len(levels)-1]
		if name, ok := token.(string); ok && top.object && !top.value {
			for _, other := range top.keys {
				if strings.EqualFold(name, other) {
					return true
				}
			}
			top.keys, top.value = append(top.keys, name), true
			continue
		}
		top.value = false
		switch token {
		case json.Delim('{'), json.Delim('['):
			levels = append(levels, level{object: token == json.Delim('{')})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		}
	}
}

// An object has a bound of keys, wherever it is: each may be an error of its own.
func TestManyKeys(t *testing.T) {
	var keys []string
	for i := range 1001 {
		keys = append(keys, fmt.Sprintf(`"%d":1`, i))
	}
	most, more := "{"+strings.Join(keys[:1000], ",")+"}", "{"+strings.Join(keys, ",")+"}"
	members := func(strictjson.Member) {}
	for text, fits := range map[string]bool{most: true, `{"a":` + most + `}`: true, more: false, `{"a":` + more + `}`: false, `{"a":[` + more + `]}`: false} {
		if err := strictjson.Members([]byte(text), members); (err == nil) != fits || !fits && !strings.Contains(err.Error(), "more than 1000 keys") {
			t.Errorf("%.20s of %d bytes: %v", text, len(text), err)
		}
	}
}

func TestElements(t *testing.T) {
	const whole = `[{"topic":"a"},{"topic":"b"}]`
	for text, want := range map[string]string{
		whole: "a b",
		" [ {\"topic\":\"a\"}\n, {\"topic\":\"b\"} ] ": "a b",
		`[]`:                            "",
		`{}`:                            "it is not a JSON array",
		`"a"`:                           "it is not a JSON array",
		``:                              "it is not JSON",
		`[`:                             "it is not JSON",
		whole[:len(whole)-1]:            "a b it is not JSON",
		whole[:len(whole)-5]:            "a it is not JSON",
		whole + `]`:                     "a b something follows the JSON array",
		whole + whole:                   "a b something follows the JSON array",
		`[{"topic":"a"} {"topic":"b"}]`: "a it is not JSON",
		`[{"topic":"a"},null]`:          "a it is not a JSON object",
		`[{"topic":"a"},[]]`:            "a it is not a JSON object",
		`[{"topic":"a"},]`:              "a it is not a JSON object",
		`[{"topic":"a"},{"topic":1}]`:   "a topic is a JSON number, and should be a string",
		`[{"topic":"a"},{"x":1}]`:       `a the field "x" is unknown`,
		`[{"topic":"a"},{"topic":"","topic":""}]`: `a the key "topic" is given twice; give it once`,
		`[{"topic":"a"},{"topic":"\ud83d"}]`:      "a it has half of a surrogate pair, such as \\ud83d alone; write both, or the character itself",
		"[{\"topic\":\"\xff\"}]":                  "it is not UTF-8",
	} {
		var got []string
		for element, err := range strictjson.Elements[line]([]byte(text)) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, element.Topic)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"topic":"order.timeout","max":3,"headers":{"Trace":"0123456789"},"data":"` + strings.Repeat("QUJD", 30) + `"}`)
	for b.Loop() {
		if err := strictjson.Decode(data, &line{}); err != nil {
			b.Fatal(err)
		}
	}
}

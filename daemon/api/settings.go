package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
)

// Settings are what holds for a topic.
type Settings struct {
	Topic        string   `json:"topic" example:"mail" doc:"* stands for all topics that have no settings of their own"`
	Attempts     int      `json:"attempts" example:"5" doc:"limit of attempts of a message that has none of its own"`
	LeaseMs      int64    `json:"lease_ms" example:"60000" doc:"lease of a claim that names none"`
	BackoffMinMs int64    `json:"backoff_min_ms" example:"1000" doc:"bound of the random wait after the first attempt that failed"`
	BackoffMaxMs int64    `json:"backoff_max_ms" example:"600000" doc:"bound of the random wait after many"`
	Paused       bool     `json:"paused" doc:"nothing is handed out"`
	Own          []string `json:"own" nullable:"false" doc:"names of those that are set for the topic; the others are the defaults" example:"[\"attempts\",\"lease\"]"`
}

// SettingsOf returns what holds for a topic as it is told.
func SettingsOf(topic string, s notify.TopicSettings) Settings {
	return Settings{
		Topic: topic, Attempts: s.Attempts, LeaseMs: Ms(s.Lease),
		BackoffMinMs: Ms(s.BackoffMin), BackoffMaxMs: Ms(s.BackoffMax),
		Paused: s.Paused, Own: append([]string{}, s.Own...),
	}
}

// A SettingApart is a setting that is otherwise than it should be.
type SettingApart struct{ Name, Has, Wanted string }

// SettingsApart returns which settings a change would change, with both values as they are written.
func SettingsApart(change notify.SettingsChange, has notify.Settings) (all []SettingApart) {
	wanted, there := reflect.ValueOf(change), reflect.ValueOf(has)
	for _, f := range fields.In[notify.SettingsChange]() {
		to, is := wanted.FieldByIndex(f.Index), there.FieldByIndex(f.Index)
		if !to.IsNil() && !to.Elem().Equal(is) {
			all = append(all, SettingApart{Name: f.Name, Has: written(is), Wanted: written(to.Elem())})
		}
	}
	return all
}

// Setting returns a setting as it is written.
func Setting(f fields.Field, of notify.Settings) string {
	return written(reflect.ValueOf(of).FieldByIndex(f.Index))
}

// written returns a value as it is given.
func written(value reflect.Value) string {
	if d, ok := value.Interface().(time.Duration); ok {
		return store.Short(d)
	}
	return fmt.Sprint(value.Interface())
}

// A SettingText is a setting that is to be changed.
type SettingText struct {
	Name string
	Text *string // nil: the default shall hold again
}

// ReadSettings reads changes of settings that are given as text, of a topic or of
// notify.AllTopics. The error is a joined notify.Fault for each that is wrong.
func ReadSettings(topic string, given []SettingText) (notify.SettingsChange, error) {
	var r settingsReader
	for _, one := range given {
		r.read(one.Name, func(fields.Field) (*string, error) { return one.Text, nil })
	}
	return r.end(topic)
}

// DecodeSettings is ReadSettings for one JSON object, where null has the default
// hold again (RFC 7396): a number is a JSON number, and a duration a string.
func DecodeSettings(topic string, data []byte) (notify.SettingsChange, error) {
	if first := bytes.TrimSpace(data); !utf8.Valid(data) || !json.Valid(data) || first[0] != '{' {
		return notify.SettingsChange{}, store.Faultf("settings", `settings: they are not a JSON object; write one such as {"attempts":5,"lease":null}`)
	}
	var r settingsReader
	members := json.NewDecoder(bytes.NewReader(data))
	_, _ = members.Token() // the brace; it is valid
	for members.More() {
		name, _ := members.Token()
		var value json.RawMessage
		_ = members.Decode(&value)
		r.read(name.(string), func(f fields.Field) (*string, error) { return textIn(f, value) })
	}
	return r.end(topic)
}

// settingKinds are what the JSON of a setting is, by its type in Go.
var settingKinds = map[reflect.Type]struct{ is, write string }{
	reflect.TypeFor[*int]():           {"number", "write a whole number, such as %s"},
	reflect.TypeFor[*time.Duration](): {"string", "write a string, such as %q"},
	reflect.TypeFor[*bool]():          {"boolean", "write true or false"},
}

// textIn returns the text in the JSON of a setting; nil for null.
func textIn(f fields.Field, value json.RawMessage) (*string, error) {
	is, wanted := kindOf(value), settingKinds[reflect.TypeFor[notify.SettingsChange]().FieldByIndex(f.Index).Type]
	switch {
	case is == "null":
		return nil, nil
	case is != wanted.is:
		write := wanted.write
		if strings.Contains(write, "%") {
			write = fmt.Sprintf(write, f.Example)
		}
		return nil, store.Faultf(f.Name, "%s: it is a JSON %s; %s, or null for the default", f.Name, is, write)
	}
	text := string(value)
	if is == "string" {
		_ = json.Unmarshal(value, &text) // it is valid
	}
	return &text, nil
}

// kindOf says what a JSON value is.
func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// mostSettingFaults is how many faults of one change are told: an answer should
// not be many times as long as what it answers.
const mostSettingFaults = 20

// A settingsReader gathers changes, and what is wrong with them.
type settingsReader struct {
	change notify.SettingsChange
	given  []string
	faults []error
	more   int // settings behind those that are too many faults
}

// read reads the change of one setting.
func (r *settingsReader) read(name string, textOf func(fields.Field) (*string, error)) {
	if len(r.faults) == mostSettingFaults {
		r.more++
	} else if err := r.set(name, textOf); err != nil {
		r.faults = append(r.faults, err)
	}
}

func (r *settingsReader) set(name string, textOf func(fields.Field) (*string, error)) error {
	f, err := settingField(name)
	if err != nil {
		return err
	}
	if slices.Contains(r.given, name) {
		return store.Faultf(name, "%s: it is given twice; give it once", name)
	}
	r.given = append(r.given, name)
	text, err := textOf(f)
	if err != nil {
		return err
	}
	change := r.change
	into := reflect.ValueOf(&change).Elem()
	if text == nil {
		into.FieldByIndex(f.Index).Set(reflect.New(into.FieldByIndex(f.Index).Type().Elem()))
	} else if err := f.Set(into, *text); err != nil {
		return err
	}
	r.change = change
	return nil
}

// end returns the change. The faults that show in several settings are told with those of each.
func (r *settingsReader) end(topic string) (notify.SettingsChange, error) {
	if len(r.given) == 0 && len(r.faults) == 0 {
		return r.change, store.Faultf("settings", "settings: none is given; give one or more of %s", strings.Join(SettingNames(), ", "))
	}
	if r.more > 0 {
		r.faults = append(r.faults, store.Faultf("settings", "settings: %d more were not read", r.more))
	}
	if least, most := r.change.BackoffMin, r.change.BackoffMax; least != nil && most != nil && *most > 0 && *least > *most {
		r.faults = append(r.faults, store.Faultf("backoff_max", "backoff_max %v: it is less than backoff_min, %v; give a longer one", store.Short(*most), store.Short(*least)))
	}
	if topic == notify.AllTopics {
		r.faults = append(r.faults, r.change.CheckForAll())
	}
	return r.change, errors.Join(r.faults...)
}

// SettingNames returns the names of all settings.
func SettingNames() (names []string) {
	for _, f := range fields.In[notify.SettingsChange]() {
		names = append(names, f.Name)
	}
	return names
}

const (
	mostOfName = 100 // bytes of a name that is unknown, as it is told
	alike      = 3   // changes that make one name of another at the most where that may have been meant
)

// settingField returns the field of a setting. The error is a notify.Fault of a name that is none.
func settingField(name string) (fields.Field, error) {
	for _, f := range fields.In[notify.SettingsChange]() {
		if f.Name == name {
			return f, nil
		}
	}
	name = strings.ToValidUTF8(name[:min(len(name), mostOfName)], "")
	names, meant := SettingNames(), ""
	if near := Nearest(name, names); levenshtein.ComputeDistance(name, near) <= alike {
		meant = "did you mean " + near + "? "
	}
	return fields.Field{}, store.Faultf(name, "setting %q: it is unknown; %suse %s", name, meant, strings.Join(names, ", "))
}

// Nearest returns the name that takes the fewest changes to become from.
func Nearest(from string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(from, a) - levenshtein.ComputeDistance(from, b)
	})
}

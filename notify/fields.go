package notify

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/bellhopd/bellhop/notify/fields"
)

// grammars are those that tags of fields name.
var grammars = map[string]fields.Grammar{
	"topic": CheckTopic, "topic or *": checkSettable, "id": CheckID, "media type": CheckContentType,
	"pattern": func(text string) error {
		_, err := ParsePattern(text)
		return err
	},
}

// FieldOf returns the description of a field that is given by a name: what its tags say.
func FieldOf(name string, field reflect.StructField) fields.Field {
	return fields.Of(name, field, grammars)
}

// MessageFields returns the fields of a Message that are given by name: those that
// have a tag field.
func MessageFields() []fields.Field { return slices.Clone(messageFields()) }

var messageFields = sync.OnceValue(func() []fields.Field { return fieldsOf(reflect.TypeFor[Message]()) })

// SettingFields returns the fields of a SettingsChange.
func SettingFields() []fields.Field { return fieldsOf(reflect.TypeFor[SettingsChange]()) }

func fieldsOf(described reflect.Type) (all []fields.Field) {
	for field := range described.Fields() {
		if name := field.Tag.Get("field"); name != "" {
			all = append(all, FieldOf(name, field))
		}
	}
	return all
}

// ParseDuration reads a duration of a named field, such as 90s, 1h30m or 1d12h: see fields.ParseDuration.
func ParseDuration(field, text string) (time.Duration, error) {
	return fields.ParseDuration(field, text)
}

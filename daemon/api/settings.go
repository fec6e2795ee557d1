package api

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/strictjson"
)

// Settings are the effective settings of a topic.
type Settings struct {
	Topic        string     `json:"topic" example:"mail" doc:"* for the defaults of topics without settings of their own"`
	Attempts     int        `json:"attempts" example:"5" doc:"limit of attempts of a message without a limit of its own"`
	LeaseMs      int64      `json:"lease_ms" example:"60000" doc:"lease of a claim that gives none"`
	BackoffMinMs int64      `json:"backoff_min_ms" example:"1000" doc:"upper bound of the random wait after the first failed attempt"`
	BackoffMaxMs int64      `json:"backoff_max_ms" example:"600000" doc:"upper bound of the random wait after many failed attempts"`
	ArchiveAcked bool       `json:"archive_acked" doc:"what is acknowledged goes to the archive, too, if there is one"`
	Paused       bool       `json:"paused" doc:"no message is handed out"`
	PausedUntil  *time.Time `json:"paused_until,omitempty" doc:"when the pause ends; missing: there is none, or it has no end"`
	History      bool       `json:"history" doc:"when, by whom and why each of the last 10 attempts of a message failed is kept"`

	KeyConcurrency int    `json:"key_concurrency" example:"1" doc:"how many messages of one key are ready or leased at once"`
	OnRetry        string `json:"on_retry" enum:"block,pass" doc:"whether a message that failed or was put off keeps the next of its key back"`
	OnDead         string `json:"on_dead" enum:"go,stop" doc:"whether a message that died keeps all of its key back"`

	Concurrency int    `json:"concurrency" example:"200" doc:"how many messages of the topic are leased at once; 0: without a limit"`
	Rate        string `json:"rate" example:"1000/s" doc:"how many messages of the topic are claimed in a second, a minute or an hour: N/s, N/m or N/h; none: without a limit"`
	Burst       int    `json:"burst" example:"50" doc:"how many messages are claimed at once after a rest; 0: there is no rate"`

	Branches    string `json:"branches" example:"mail,points" doc:"names of branches, into each of which what is ready is copied, joined by commas; empty: the topic has none"`
	BranchTTLMs int64  `json:"branch_ttl_ms" example:"604800000" doc:"how long after its due time a copy that nobody handled expires; 0: it stays"`

	Own []string `json:"own" nullable:"false" doc:"names of the settings set for the topic; the others are defaults" example:"[\"attempts\",\"lease\"]"`
}

// SettingsOf returns the settings of a topic in their JSON form.
func SettingsOf(topic string, s notify.TopicSettings) Settings {
	return Settings{
		Topic: topic, Attempts: s.Attempts, LeaseMs: Ms(s.Lease),
		BackoffMinMs: Ms(s.BackoffMin), BackoffMaxMs: Ms(s.BackoffMax),
		ArchiveAcked: s.ArchiveAcked, Paused: s.Paused, PausedUntil: Given(s.PausedUntil), History: s.History,
		KeyConcurrency: s.KeyConcurrency, OnRetry: s.OnRetry, OnDead: s.OnDead,
		Concurrency: s.Concurrency, Rate: s.Rate.String(), Burst: s.Burst, Branches: s.Branches, BranchTTLMs: Ms(s.BranchTTL), Own: append([]string{}, s.Own...),
	}
}

// A SettingApart is a setting whose value is not the wanted one.
type SettingApart struct{ Name, Has, Wanted string }

// SettingsApart returns the settings that a change would change, with both values as text.
func SettingsApart(change notify.SettingsChange, has notify.Settings) (all []SettingApart) {
	wanted, there := reflect.ValueOf(change), reflect.ValueOf(has)
	for _, f := range fields.In[notify.SettingsChange]() {
		to, is := wanted.FieldByIndex(f.Index), there.FieldByIndex(f.Index)
		if !to.IsNil() && written(to.Elem()) != written(is) {
			all = append(all, SettingApart{Name: f.Name, Has: written(is), Wanted: written(to.Elem())})
		}
	}
	return all
}

// Setting returns the value of a setting as text.
func Setting(f fields.Field, of notify.Settings) string {
	return written(reflect.ValueOf(of).FieldByIndex(f.Index))
}

// written returns a value as text, as a user writes it.
func written(value reflect.Value) string {
	if d, is := value.Interface().(time.Duration); is && d > 0 {
		return fault.Short(d)
	}
	if value.IsZero() && value.Kind() != reflect.Bool {
		return "none"
	}
	return fmt.Sprint(value.Interface())
}

// A SettingText is the change of a setting, as text.
type SettingText struct {
	Name string
	Text *string // nil: back to the default
}

// ReadSettings reads changes, as text, of settings of a topic or of notify.AllTopics. The
// error joins a notify.Fault for each wrong one.
func ReadSettings(topic string, given []SettingText) (notify.SettingsChange, error) {
	var r settingsReader
	for _, one := range given {
		r.read(one.Name, func(fields.Field) (*string, error) { return one.Text, nil })
	}
	return r.end(topic)
}

// DecodeSettings is ReadSettings for one JSON object, in which null restores the
// default (RFC 7396). A number is a JSON number, and a duration a string.
func DecodeSettings(topic string, data []byte) (notify.SettingsChange, error) {
	var r settingsReader
	err := strictjson.Members(data, func(m strictjson.Member) {
		r.read(string(m.Name), func(f fields.Field) (*string, error) {
			texts, err := f.TextsIn(m)
			switch {
			case err != nil:
				return nil, fault.New(f.Name, "%w, or null for the default", err)
			case m.IsNull():
				return nil, nil
			}
			return &texts[0], nil
		})
	})
	if err != nil {
		return notify.SettingsChange{}, fault.New(strictjson.FieldOf(err, "settings"), `settings: %w; write one such as {"attempts":5,"lease":null}`, err)
	}
	return r.end(topic)
}

// maxSettingFaults is how many faults of one change are reported: an answer should not
// be many times as long as its request.
const maxSettingFaults = 20

// A settingsReader collects changes and their faults.
type settingsReader struct {
	change notify.SettingsChange
	given  []string
	faults []error
	more   int // settings not read because there were too many faults
}

// read reads the change of one setting.
func (r *settingsReader) read(name string, textOf func(fields.Field) (*string, error)) {
	if len(r.faults) == maxSettingFaults {
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
		return fault.New(name, "%s: it is given twice; give it once", name)
	}
	r.given = append(r.given, name)
	text, err := textOf(f)
	if err != nil {
		return err
	}
	if text == nil {
		r.change.Default = append(r.change.Default, name)
		return nil
	}
	change := r.change
	if err := f.Set(reflect.ValueOf(&change).Elem(), *text); err != nil {
		return err
	}
	r.change = change
	return nil
}

// end returns the change. It adds the faults of settings together to those of each.
func (r *settingsReader) end(topic string) (notify.SettingsChange, error) {
	if len(r.given) == 0 && len(r.faults) == 0 {
		return r.change, fault.New("settings", "settings: none is given; give one or more of %s", strings.Join(fields.Names[notify.SettingsChange](), ", "))
	}
	if r.more > 0 {
		r.faults = append(r.faults, fault.New("settings", "settings: %d more were not read", r.more))
	}
	check := r.change.Check
	if topic == notify.AllTopics {
		check = r.change.CheckForAll
	}
	return r.change, errors.Join(append(r.faults, check())...)
}

const (
	maxName  = 100 // bytes of an unknown name that an error repeats
	maxTypos = 3   // most edits between an unknown name and the one that is suggested
)

// gone are settings that there were, and why they are not missed.
var gone = map[string]string{"ring_only": "messages are always handed over, but for those of a topic with a concurrency or a rate; leave it out"}

// settingField returns the field of a setting. The error for an unknown name is a notify.Fault.
func settingField(name string) (fields.Field, error) {
	if f, is := fields.Named[notify.SettingsChange](name); is {
		return f, nil
	}
	if why, ok := gone[name]; ok {
		return fields.Field{}, fault.New(name, "setting %q: it is gone, since %s", name, why)
	}
	name = strings.ToValidUTF8(name[:min(len(name), maxName)], "")
	names, meant := fields.Names[notify.SettingsChange](), ""
	if near := Nearest(name, names); levenshtein.ComputeDistance(name, near) <= maxTypos {
		meant = "did you mean " + near + "? "
	}
	return fields.Field{}, fault.New(name, "setting %q: it is unknown; %suse %s", name, meant, strings.Join(names, ", "))
}

// Nearest returns the name with the fewest edits between it and from.
func Nearest(from string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(from, a) - levenshtein.ComputeDistance(from, b)
	})
}

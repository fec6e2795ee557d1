package store

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

// Settings are the settings of a topic.
type Settings struct {
	Attempts     int           // limit of attempts of a message that has none of its own
	Lease        time.Duration // of a claim that names none
	BackoffMin   time.Duration // upper bound of the random wait after the first failed attempt; it doubles with each
	BackoffMax   time.Duration // upper bound of the random wait after many
	ArchiveAcked bool          // what is acknowledged goes to the archive, too, if there is one
	Paused       bool          // nothing is handed out
	History      bool          // of attempts that failed it is kept when, by whom and why

	KeyConcurrency int    // messages of a key that are ready or leased at once
	OnRetry        string // block: a message that failed, was put off or whose lease ended keeps its seat; pass: the next of its key goes
	OnDead         string // go: the next of a dead letter's key goes; stop: none does until that is requeued, purged or replaced

	Concurrency int         // messages of the topic that are leased at once; 0: without a limit
	Rate        record.Rate // of claims; 0: without a limit
	Burst       int         // messages that may be claimed at once after a rest; 0: there is no rate

	Branches  string        // names of branches, joined by commas: each is a topic, TOPIC@NAME, and gets a copy of each message that is ready
	BranchTTL time.Duration // how long after its due time a copy expires; 0: never, but for the message's own ttl
}

// The settings that hold if neither a topic nor its store has them.
const (
	DefaultAttempts   = 10
	DefaultLease      = 30 * time.Second
	DefaultBackoffMin = time.Second
	DefaultBackoffMax = 10 * time.Minute
)

// DefaultSettings are these defaults as Settings.
var DefaultSettings = Settings{Attempts: DefaultAttempts, Lease: DefaultLease, BackoffMin: DefaultBackoffMin, BackoffMax: DefaultBackoffMax, History: true, KeyConcurrency: 1, OnRetry: "block", OnDead: "go"}

// A SettingsChange changes settings: nil leaves a setting as it is. It has a field for
// each field of [Settings], in their order. The tags hold a setting's name in JSON, HTTP
// and flags, and its limits.
type SettingsChange struct {
	Attempts     *int           `field:"attempts" minimum:"1" maximum:"1000000" example:"5" doc:"limit of attempts of a message that has none of its own"`
	Lease        *time.Duration `field:"lease" shortest:"100ms" longest:"24h" example:"30s" doc:"lease of a claim that names none; messages that are leased already keep theirs"`
	BackoffMin   *time.Duration `field:"backoff_min" shortest:"1ms" longest:"8784h" example:"1s" doc:"upper bound of the random wait after the first failed attempt; it doubles with each"`
	BackoffMax   *time.Duration `field:"backoff_max" shortest:"1ms" longest:"8784h" example:"10m" doc:"upper bound of the random wait after many"`
	ArchiveAcked *bool          `field:"archive_acked" example:"true" doc:"what is acknowledged goes to the archive, too, if there is one"`
	Paused       *bool          `field:"paused" of:"topic" example:"true" doc:"nothing is handed out"`
	History      *bool          `field:"history" example:"false" doc:"when, by whom and why each of the last 10 attempts of a message failed is kept, which is the default"`

	KeyConcurrency *int    `field:"key_concurrency" minimum:"1" maximum:"100" example:"2" doc:"how many messages of one key are ready or leased at once"`
	OnRetry        *string `field:"on_retry" enum:"block,pass" example:"pass" doc:"a message that failed or was put off: block keeps the next of its key back until it is done, pass lets that go"`
	OnDead         *string `field:"on_dead" enum:"go,stop" example:"stop" doc:"a message that died: go lets the next of its key go, stop keeps all of them back until it is requeued, purged or replaced"`

	Concurrency *int         `field:"concurrency" of:"topic" minimum:"1" maximum:"100000" example:"200" doc:"how many messages of the topic are leased at once, by all its subscribers"`
	Rate        *record.Rate `field:"rate" of:"topic" minimum:"1" maximum:"3600000000" example:"1000/s" doc:"how many messages of the topic are claimed in a second (/s), a minute (/m) or an hour (/h)"`
	Burst       *int         `field:"burst" of:"topic" minimum:"1" maximum:"1000000" example:"50" doc:"how many messages are claimed at once after a rest, where there is a rate; by default as many as that allows in 50 ms, at least 1"`

	Branches  *string        `field:"branches" of:"topic" is:"branches" maxLength:"1100" pattern:"^([+-]?[A-Za-z0-9_-]+|[A-Za-z0-9_-]+(,[A-Za-z0-9_-]+)*)?$" example:"mail,points" doc:"names of branches: each message that is ready is copied into all of them, and worked as the topic TOPIC@NAME; +NAME adds one, -NAME removes one"`
	BranchTTL *time.Duration `field:"branch_ttl" of:"topic" shortest:"1s" longest:"8784h" example:"168h" doc:"how long after its due time a copy that nobody handled becomes a dead letter of its branch; by default it stays"`

	Default []string // names of settings that return to the default
}

// burstTime is the time whose messages may be claimed at once, unless a burst is set.
const burstTime = 50 * time.Millisecond

// burstOf returns how many messages may be claimed at once at a rate, unless that is set.
func burstOf(r record.Rate) int {
	if r == 0 {
		return 0
	}
	return max(int(r/record.Rate(time.Hour/burstTime)), 1)
}

// TopicSettings are the settings of a topic.
type TopicSettings struct {
	Settings
	Own         []string  // names of the settings that the topic has itself; the others are the store's, or DefaultSettings
	PausedUntil time.Time // when a pause ends; zero: there is none, or it has no end
}

// ErrSettings is the error of settings that are not what this package writes.
var ErrSettings = errors.New("unreadable settings")

// A setting is one field of Settings. Its value is a number: a duration in ms; true is 1; of
// words their place, from 0 on. Of a text it is that.
type setting struct {
	fields.Field          // of SettingsChange; its Index is that in Settings, too
	isText                bool
	least, most, fallback int64
}

// pauseEnd is when a pause ends, in ms. It is written as a setting, behind the others, and changed by [PauseUntil] alone.
var pauseEnd = setting{Field: fields.Field{Name: "paused_until"}, least: 1, most: record.MaxDueMs}

// settings are all settings, in the order in which they are written.
var settings = func() (all []setting) {
	for _, f := range fields.In[SettingsChange]() {
		fallback := reflect.ValueOf(DefaultSettings).FieldByIndex(f.Index)
		one := setting{Field: f, isText: fallback.Kind() == reflect.String && f.Enum() == nil}
		one.least, one.most = f.Range()
		if !one.isText {
			one.fallback = one.numberIn(fallback)
		}
		if f.IsTruth() && one.isOfTopic() { // it is not set if it is false
			one.least = 1
		}
		all = append(all, one)
	}
	return all
}()

// isOfTopic reports whether all topics together cannot have the setting.
func (s setting) isOfTopic() bool { return s.Of == "topic" }

// numberIn returns the value of a setting as a number; less than 0 if it is none.
func (s setting) numberIn(field reflect.Value) int64 {
	switch value := field.Interface().(type) {
	case string:
		return int64(slices.Index(s.Enum(), value))
	case time.Duration:
		return value.Milliseconds()
	case bool:
		if value {
			return 1
		}
		return 0
	}
	return field.Int()
}

// set sets a setting to what scripts wrote.
func (s setting) set(field reflect.Value, text string) {
	if s.isText {
		field.SetString(text)
		return
	}
	n, _ := strconv.ParseInt(text, 10, 64) // isSetting has read it
	switch field.Interface().(type) {
	case string:
		field.SetString(s.Enum()[n])
	case time.Duration:
		field.SetInt(n * int64(time.Millisecond))
	case bool:
		field.SetBool(n == 1)
	default:
		field.SetInt(n)
	}
}

// changed calls on with each setting that c changes, and its new value.
func (c SettingsChange) changed(on func(setting, reflect.Value)) {
	for _, one := range settings {
		if to := reflect.ValueOf(c).FieldByIndex(one.Index); !to.IsNil() {
			on(one, to.Elem())
		}
	}
}

// written returns the names of the settings that c changes, each with its new value as
// scripts write it: empty is the default.
func (c SettingsChange) written() (all []any) {
	c.changed(func(one setting, to reflect.Value) {
		if one.isText {
			all = append(all, one.Name, to.String())
			return
		}
		all = append(all, one.Name, one.numberIn(to))
	})
	for _, name := range c.Default {
		all = append(all, name, "")
	}
	return all
}

// Check returns a joined Fault for each setting that is out of range, or is unknown, and for a backoff that is upside down.
func (c SettingsChange) Check() error {
	faults := []error{fields.Check(&c, false)}
	for _, name := range c.Default {
		if _, is := fields.Named[SettingsChange](name); !is {
			faults = append(faults, fault.New(name, "setting %.100q: it is unknown, so it has no default; leave it out", name))
		}
	}
	least, most := c.BackoffMin, c.BackoffMax
	if least != nil && most != nil && fields.Check(&SettingsChange{BackoffMin: least, BackoffMax: most}, false) == nil {
		faults = append(faults, checkBackoff(*least, *most))
	}
	return errors.Join(faults...)
}

// checkBackoff returns a Fault for bounds of a backoff that are upside down.
func checkBackoff(least, most time.Duration) error {
	if most >= least {
		return nil
	}
	return fault.New("backoff_max", "backoff_max %v: it is less than backoff_min, %v; set both, backoff_max the longer", fault.Short(most), fault.Short(least))
}

// CheckForAll is Check for settings of all topics, which cannot be paused or limited together.
func (c SettingsChange) CheckForAll() error {
	faults := []error{c.Check()}
	c.changed(func(one setting, _ reflect.Value) {
		if one.isOfTopic() {
			faults = append(faults, fault.New(one.Name, "%[1]s: it is not for all topics together; set it for each one", one.Name))
		}
	})
	return errors.Join(faults...)
}

// valuesOf reads settings, as scripts write them, by name. It skips unreadable
// ones, and returns an ErrSettings.
func valuesOf(text string) (values map[string]string, err error) {
	values = make(map[string]string)
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		if isSetting(name, value) {
			values[name] = value
		} else {
			err = fmt.Errorf("%w: %.100q", ErrSettings, word)
		}
	}
	return values, err
}

func isSetting(name, value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	is := func(one setting) bool {
		return one.Name == name && (one.isText || err == nil && n >= one.least && n <= one.most)
	}
	return is(pauseEnd) || slices.ContainsFunc(settings, is)
}

func init() { script.Define(luaSettings()) }

// luaSettings returns the settings as Lua: a list, which has each by its name, too; the default burst, in us; and the longest pause, in ms.
func luaSettings() string {
	var list, names strings.Builder
	for i, one := range append(slices.Clone(settings), pauseEnd) {
		fmt.Fprintf(&list, "{ name = '%[1]s', pattern = ' %[1]s=(%%S+)', least = %d, most = %d, fallback = %d, is_text = %t },\n", one.Name, one.least, one.most, one.fallback, one.isText)
		fmt.Fprintf(&names, "SETTINGS.%s = SETTINGS[%d]\n", one.Name, i+1)
	}
	return "local SETTINGS = {\n" + list.String() + "}\n" + names.String() + fmt.Sprintf("local BURST, LONGEST_PAUSE = %d, %d\n", burstTime.Microseconds(), LongestPause.Milliseconds())
}

package httpapi

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

// limits are which values of a parameter are in range, by the tags minimum and
// maximum of a number, shortest and longest of a duration, maxLength and enum of a text.
type limits struct {
	min, max          int64
	shortest, longest time.Duration
	maxLength         int
	enum              []string
}

// limitsOf returns the limits that a field's tags set. It panics where a tag is
// none: that shows in the first test.
func limitsOf(field reflect.StructField) limits {
	number := func(tag string, fallback int64) int64 {
		n, err := strconv.ParseInt(cmp.Or(field.Tag.Get(tag), strconv.FormatInt(fallback, 10)), 10, 64)
		if err != nil {
			panic(fmt.Sprintf("tag %s of %s: %v", tag, field.Name, err))
		}
		return n
	}
	duration := func(tag string, fallback time.Duration) time.Duration {
		d, err := time.ParseDuration(cmp.Or(field.Tag.Get(tag), fallback.String()))
		if err != nil {
			panic(fmt.Sprintf("tag %s of %s: %v", tag, field.Name, err))
		}
		return d
	}
	l := limits{
		min: number("minimum", math.MinInt64), max: number("maximum", math.MaxInt64),
		shortest: duration("shortest", math.MinInt64), longest: duration("longest", math.MaxInt64),
		maxLength: int(number("maxLength", math.MaxInt32)),
	}
	if names := field.Tag.Get("enum"); names != "" {
		l.enum = strings.Split(names, ",")
	}
	return l
}

// text reports what is wrong with a text.
func (p param) text(text string) error {
	switch {
	case p.is != "": // whose check says it better
		return p.check(text)
	case len(text) > p.maxLength:
		return notify.Faultf(p.name, "%s: %d bytes; at most %d are allowed", p.name, len(text), p.maxLength)
	case p.enum != nil && !slices.Contains(p.enum, text):
		return notify.Faultf(p.name, "%s %.100q: use %s", p.name, text, strings.Join(p.enum, ", "))
	}
	return nil
}

// number reads a number within the limits.
func (p param) number(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err == nil && n >= p.min && n <= p.max {
		return n, nil
	}
	want := "write a whole number"
	switch {
	case p.max < math.MaxInt64:
		want = fmt.Sprintf("write a whole number from %d to %d", p.min, p.max)
	case p.min > math.MinInt64:
		want = fmt.Sprintf("write a whole number, %d or more", p.min)
	}
	return 0, notify.Faultf(p.name, "%s %.100q: %s", p.name, text, want)
}

// duration reads a duration within the limits.
func (p param) duration(text string) (time.Duration, error) {
	d, err := notify.ParseDuration(p.name, text)
	switch {
	case err != nil:
		return 0, err
	case d >= p.shortest && d <= p.longest:
		return d, nil
	case p.longest < math.MaxInt64:
		return 0, notify.Faultf(p.name, "%s %v: use %v to %v", p.name, d, p.shortest, p.longest)
	}
	return 0, notify.Faultf(p.name, "%s %v: use %v or more", p.name, d, p.shortest)
}

// time reads a time that a message can be due at.
func (p param) time(text string) (time.Time, error) {
	t, err := api.ParseTime(p.name, text)
	switch {
	case err != nil && strings.Contains(text, " "):
		return t, fmt.Errorf("%w; in a query + stands for a space, write it as %%2B", err)
	case err != nil:
		return t, err
	case t.Before(time.UnixMilli(0)):
		return t, notify.Faultf(p.name, "%s %.100s: it is before 1970", p.name, text)
	case t.After(notify.MaxDue):
		return t, notify.Faultf(p.name, "%s %.100s: it is past the year 9999", p.name, text)
	}
	return t, nil
}

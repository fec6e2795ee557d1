package runner

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/text"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/subscribers"
)

// environment returns the variables that describe a message or a broadcast. Their
// names do not begin with BELLHOP_: the command may call bellhop, which rejects
// unknown settings. The error, of two headers with one variable, is a subscribers.ErrBury.
func environment(topic, id string, attempt int, due time.Time, r notify.Record, fence int64) ([]string, error) {
	env := []string{
		"MESSAGE_TOPIC=" + topic,
		"MESSAGE_ID=" + id,
		"MESSAGE_ATTEMPT=" + strconv.Itoa(attempt),
		"MESSAGE_DUE=" + due.UTC().Format(text.StampLayout),
		"MESSAGE_CONTENT_TYPE=" + r.ContentType,
	}
	if !r.FirstDue.IsZero() { // a broadcast has none
		env = append(env, "MESSAGE_FIRST_DUE="+r.FirstDue.UTC().Format(text.StampLayout))
	}
	for _, one := range asked.Attributes(&r, fence) {
		env = append(env, "MESSAGE_"+strings.ToUpper(one.Name)+"="+one.Text)
	}
	names := make(map[string]string, len(r.Headers)) // by their variables
	for name, value := range r.Headers {
		key := "MESSAGE_HEADER_" + variable(name)
		if other, twice := names[key]; twice {
			return nil, fmt.Errorf("the headers %.100s and %.100s have the same variable %.100s (%w)", min(name, other), max(name, other), key, subscribers.ErrBury)
		}
		names[key] = name
		env = append(env, key+"="+value)
	}
	return env, nil
}

// variable returns a header's name in upper case, with _ for all but letters and digits, so that a shell can read it.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

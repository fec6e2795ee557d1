package calls_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A caller makes calls in process, as a client with all rights to some topics.
type caller struct {
	t       *testing.T
	service *calls.Service
	calls.Client
}

// newCaller returns one that may use all topics.
func newCaller(t *testing.T, store *notify.Store) caller {
	t.Helper()
	service, err := calls.NewService(store, nil, nil)
	storetest.Must(t, err)
	return caller{t, service, calls.Anybody("all")}
}

// of returns a caller of the same service that may use some topics, by patterns with commas.
func (c caller) of(topics string) caller {
	c.t.Helper()
	c.Client = calls.Client{Name: topics, Rights: calls.AllRights, Searches: new(calls.Searches)}
	for _, text := range strings.Split(topics, ",") {
		p, err := notify.ParsePattern(text)
		storetest.Must(c.t, err)
		c.Patterns = append(c.Patterns, p)
	}
	return c
}

// do makes a call with parameters in JSON, and the body of a call that has one. It returns the answer, or the problem, in JSON.
func (c caller) do(name, params, body string) string {
	c.t.Helper()
	call, request := calls.Named(name), &calls.Request{Client: &c.Client, Body: []byte(body)}
	reply, err := call.Do(c.t.Context(), c.service, request, func(input reflect.Value) error {
		return calls.ReadJSON(call.Params(), "", []byte(params), input)
	})
	if err != nil {
		reply = api.ProblemOf(err)
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	storetest.Must(c.t, encoder.Encode(reply))
	return text.String()
}

// says makes a call whose answer must have some texts.
func (c caller) says(name, params, body string, texts ...string) {
	c.t.Helper()
	got := c.do(name, params, body)
	for _, text := range texts {
		if !strings.Contains(got, text) {
			c.t.Errorf("to a client of %s %s %s %.200s answers without %q: %.2000s", c.Name, name, params, body, text, got)
		}
	}
}

// The settings of all topics need a client that may use all; * as a pattern is each topic of one word.
func TestSettingsOfAllTopics(t *testing.T) {
	t.Parallel()
	all := newCaller(t, storetest.Open(t))
	for _, topics := range []string{"order.>,mail", "*", "*,*.>"} {
		some := all.of(topics)
		some.says("settings", `{"topic":"*"}`, "", "urn:bellhop:forbidden")
		some.says("changeSettings", `{"topic":"*"}`, `{"attempts":5}`, "urn:bellhop:forbidden")
	}
	all.says("settings", `{"topic":"*"}`, "", `"attempts":10,`)
	all.of(">").says("changeSettings", `{"topic":"*"}`, `{"attempts":5}`, `"attempts":5,`)
}

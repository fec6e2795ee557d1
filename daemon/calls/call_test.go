package calls_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A call whose parameters name a topic is refused before it does anything, unless its client may use that. All others are known here,
// since each has to judge by itself what it shows.
func TestCallsAllowTopics(t *testing.T) {
	pattern, err := notify.ParsePattern("others")
	storetest.Must(t, err)
	client := &calls.Client{Name: "keeper", Rights: []calls.Right{calls.MayAdmin}, Patterns: []notify.Pattern{pattern}}
	var judging []string
	for _, call := range calls.Table() {
		if _, named := call.Input.FieldByName("Topic"); !named {
			judging = append(judging, call.Name)
			continue
		}
		_, err := call.Do(t.Context(), nil, &calls.Request{Client: client}, func(input reflect.Value) error {
			input.FieldByName("Topic").SetString("orders")
			return nil
		})
		if !errors.Is(err, api.ErrForbidden) {
			t.Errorf("%s: %v, want %v", call.Name, err, api.ErrForbidden)
		}
	}
	want := []string{
		"act", "advance", "carrier", "clock", "deletePush", "find", "getOutbox", "history", "listAllSchedules", "listPushes", "listRefused", "listTopics", "pausePush", "pruneArchive", "purgeRefused", "putPush", "resumePush", "retryRefused", "rotateSecret", "showPush", "testPush", "upgrade", "workers",
	}
	if !slices.Equal(judging, want) {
		t.Errorf("these name no topic: %q, want %q", judging, want)
	}
}

// A call is refused before its parameters are read, unless its client has the rights to it.
func TestCallsNeedRights(t *testing.T) {
	var free []string
	for _, call := range calls.Table() {
		if len(call.Rights) == 0 && len(call.And) == 0 {
			free = append(free, call.Name)
			continue
		}
		nobody := calls.Anybody("nobody")
		nobody.Rights = slices.DeleteFunc(slices.Clone(calls.AllRights), func(r calls.Right) bool {
			return r == calls.MayAdmin || slices.Contains(call.Rights, r) || slices.Contains(call.And, r)
		})
		_, err := call.Do(t.Context(), nil, &calls.Request{Client: &nobody}, func(reflect.Value) error {
			t.Errorf("%s reads what it was sent", call.Name)
			return errors.New("read")
		})
		if !errors.Is(err, api.ErrForbidden) || !errors.Is(calls.Check(&nobody, call.Name, nil), api.ErrForbidden) {
			t.Errorf("%s: %v, want %v", call.Name, err, api.ErrForbidden)
		}
	}
	want := []string{"carrier", "countTopic", "forecast", "listTopics", "listeners", "settings"}
	if !slices.Equal(free, want) {
		t.Errorf("these need no right: %q, want %q", free, want)
	}
}

// No call is made without what it requires, whatever checks the text.
func TestRequiredIsNotEmpty(t *testing.T) {
	t.Parallel()
	anybody := calls.Anybody("anybody")
	for _, call := range calls.Table() {
		err := calls.Check(&anybody, call.Name, nil)
		for _, p := range call.Params() {
			if p.Required && p.Fallback == "" && !slices.ContainsFunc(fault.All(err), func(f *fault.Fault) bool { return f.Field == p.Name }) {
				t.Errorf("%s without %s: %v", call.Name, p.Name, err)
			}
		}
	}
}

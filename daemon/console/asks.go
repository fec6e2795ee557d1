package console

import (
	"context"
	"strings"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// ask makes a call of the API as the viewer. The parameters are pairs of name and value; an empty value is not given.
func ask[R any](ctx context.Context, c *Console, v *visit, call string, pairs ...string) (R, error) {
	return calls.Ask[R](ctx, c.service, v.Client, call, paramsOf(pairs))
}

// check returns the error with which the API would refuse a call to the viewer before it does anything.
func (v *visit) check(call string, pairs ...string) error {
	return calls.Check(v.Client, call, paramsOf(pairs))
}

func paramsOf(pairs []string) map[string]string {
	params := make(map[string]string)
	for i := 0; i+1 < len(pairs); i += 2 {
		params[pairs[i]] = pairs[i+1]
	}
	return params
}

// typed returns a field of a form in which people write, without the blanks beside it.
func (v *visit) typed(name string) string { return strings.TrimSpace(v.r.PostForm.Get(name)) }

// Can reports whether the viewer has the rights to a call.
func (v *Viewer) Can(call string) bool { return v.does(calls.Named(call)) }

func (v *Viewer) does(call calls.Call) bool { return call.Admits(v.Client) == nil }

// Reads reports whether the viewer may read messages of the topics that it sees.
func (v *Viewer) Reads() bool { return v.does(calls.Inspect) }

// Publishes reports whether the viewer may publish to the topics that it sees.
func (v *Viewer) Publishes() bool { return v.does(calls.Publish) }

// button returns the name of the button that was pressed, one of some, and its value.
func (v *visit) button(names ...string) (name, value string, err error) {
	for _, name := range names {
		if v.r.PostForm.Has(name) {
			return name, v.r.PostForm.Get(name), nil
		}
	}
	last := len(names) - 1
	return "", "", fault.New("act", "act: a button named %s or %s says what to do; go back, and take one", strings.Join(names[:last], ", "), names[last])
}

// past are the words for what buttons did.
var past = map[string]string{"pause": "Paused", "resume": "Resumed", "delete": "Deleted", "retry": "Retried", "purge": "Purged"}

package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// messageActs are the acts on a message by the values of their buttons.
var messageActs = map[string]struct {
	right calls.Right
	ends  bool // the message is gone then, or soon
	do    func(ctx context.Context, c *Console, v *visit, topic, id string) (did string, err error)
}{
	"cancel": {calls.MayPublish, true, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		was, err := c.pub.Cancel(ctx, topic, id)
		return "Cancelled " + id + ", it was " + was.String(), err
	}},
	"stop": {calls.MayPublish, true, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		done, err := api.CancelIt(ctx, c.pub, topic, id, false, true)
		if done.Stopping {
			return "Told the worker of " + id + " to stop", err
		}
		return "Cancelled " + id + ", it was " + done.Was.String(), err
	}},
	"cancel-next": {calls.MayPublish, false, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		return "Cancelled what follows " + id, c.pub.CancelNext(ctx, topic, id)
	}},
	"reschedule": {calls.MayPublish, false, reschedule},
	"requeue": {calls.MayAdmin, false, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		return "Requeued " + id, oneOf(c.inspector.Requeue(ctx, topic, id))
	}},
	"purge": {calls.MayAdmin, true, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		return "Purged " + id, oneOf(c.inspector.Purge(ctx, topic, id))
	}},
}

// reschedule gives a message the due time of a form.
func reschedule(ctx context.Context, c *Console, v *visit, topic, id string) (string, error) {
	delay, due, err := whenOf(v.r.PostForm.Get("delay"), v.r.PostForm.Get("due"))
	if err != nil {
		return "", err
	}
	p, err := api.RescheduleTo(ctx, c.pub, topic, id, delay, due, "")
	return "Rescheduled " + id + dueText(p.Due), err
}

// whenOf reads a delay or a due time. The error joins a Fault for each that cannot be read.
func whenOf(delay, due string) (time.Duration, time.Time, error) {
	var m notify.Message
	var faults []error
	given := map[string]string{"delay": strings.TrimSpace(delay), "due": strings.TrimSpace(due)}
	for _, f := range fields.In[notify.Message]() {
		if text := given[f.Name]; text != "" {
			faults = append(faults, f.Set(reflect.ValueOf(&m).Elem(), text))
		}
	}
	if given["delay"] != "" && given["due"] != "" {
		faults = append(faults, fault.New("due", "delay and due: both are given; give one of them"))
	}
	return m.Delay, m.Due, errors.Join(faults...)
}

// oneOf returns an error if an act on one dead letter found none.
func oneOf(n int, err error) error {
	if err == nil && n == 0 {
		return fmt.Errorf("%w among the dead letters", notify.ErrNotFound)
	}
	return err
}

// changed describes the error of an act on a message that changed meanwhile.
func changed(err error) error {
	for cause, detail := range map[error]string{
		notify.ErrNotFound: "It is gone, or not in the state any more that the act needs.",
		notify.ErrLeased:   "A worker has it: it can be stopped, or rescheduled if that fails.",
		notify.ErrDead:     "It is dead, and has no due time: who may requeue it can make it ready again.",
	} {
		if errors.Is(err, cause) {
			return &pageFault{Status: http.StatusConflict, Title: "The message changed meanwhile", Detail: detail + " Nothing was done. (" + err.Error() + ")"}
		}
	}
	return err
}

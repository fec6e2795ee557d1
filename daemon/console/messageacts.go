package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A change is what an act does to a message.
type change struct {
	call string // of the API, to which the viewer must have the rights
	ends bool   // the message is gone then, or soon
	do   func(ctx context.Context, c *Console, v *visit, topic, id string) (did string, err error)
}

// changeOf returns the change of the button act of a form.
func changeOf(v *visit) (name string, do change, err error) {
	name = v.r.PostForm.Get("act")
	do, known := messageActs[name]
	if !known {
		err = fault.New("act", "act %.100q: use one of the buttons of the page", name)
	}
	return name, do, err
}

// check returns the error with which the change of a message is refused to the viewer, before it does anything.
func (do change) check(v *visit, topic, id string) error {
	return cmp.Or(calls.Named(do.call).Admits(v.Client), record.CheckTopic(topic), record.CheckID(id), v.AllowTopic(topic))
}

// messageActs are the acts on a message by the values of their buttons. The API acts on one dead letter as on all that a question asks for.
var messageActs = map[string]change{
	"cancel": {"cancel", true, cancel},
	"stop":   {"cancel", true, cancel},
	"cancel-next": {"cancel", false, func(ctx context.Context, c *Console, v *visit, topic, id string) (string, error) {
		_, err := ask[calls.Cancelled](ctx, c, v, "cancel", "topic", topic, "id", id, "next", "true")
		return "Cancelled what follows " + id, err
	}},
	"reschedule": {"reschedule", false, func(ctx context.Context, c *Console, v *visit, topic, id string) (string, error) {
		p, err := ask[api.Publication](ctx, c, v, "reschedule", "topic", topic, "id", id, "delay", v.typed("delay"), "due", v.typed("due"))
		return "Rescheduled " + id + dueText(p.Due), err
	}},
	"requeue": {"act", false, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		return "Requeued " + id, oneOf(c.inspector.Requeue(ctx, topic, id))
	}},
	"purge": {"act", true, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		return "Purged " + id, oneOf(c.inspector.Purge(ctx, topic, id))
	}},
}

// cancel cancels a message, and stops the work on it if the button says so.
func cancel(ctx context.Context, c *Console, v *visit, topic, id string) (string, error) {
	stop := fmt.Sprint(v.r.PostForm.Get("act") == "stop")
	done, err := ask[calls.Cancelled](ctx, c, v, "cancel", "topic", topic, "id", id, "stop", stop)
	if done.Stopping {
		return "Told the worker of " + id + " to stop", err
	}
	return "Cancelled " + id + ", it was " + done.Was.String(), err
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

package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

// putSchedulePage is the form that adds a schedule, or changes one.
var putSchedulePage = page{
	path: Root + "put/schedule", title: "Put a schedule", nav: "schedules", name: "putschedule", holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.schedulePut(ctx, v) },
}

// A putScheduleView is what the form of a schedule shows: what was typed, at first what the schedule has.
type putScheduleView struct {
	*visit
	Groups []inputs
	Shown  string     // the rule whose times are shown; empty: it cannot be read
	Next   []upcoming // none: it never fires
	Now    time.Time
}

// beside are the fields of each message beside those of a notify.Message.
type beside struct {
	Body    string `field:"body" doc:"of each message"`
	Encoded string `field:"body_base64" doc:"of each message, which is no text, in base64"`
	Headers string `field:"headers" example:"Tenant: acme" doc:"kept with the body: NAME: VALUE, a line each"`
	Mode    string `field:"mode" enum:"message,broadcast" doc:"a message goes to one worker, a broadcast to all who listen; missing: message"`
}

// schedulePut returns what the form of a schedule shows.
func (c *Console) schedulePut(ctx context.Context, v *visit) (any, error) {
	if err := v.check("listAllSchedules"); err != nil {
		return nil, err
	}
	if v.r.Method == http.MethodGet {
		if err := c.fillSchedule(ctx, v); err != nil {
			return nil, err
		}
	}
	view := &putScheduleView{visit: v, Now: c.now(ctx)}
	view.Groups = []inputs{
		{Label: "When it fires", All: v.inputsOf(fields.In[store.Schedule]())},
		{Label: "Each message", All: v.inputsOf(v.beside())},
		{Label: "More of each message", All: v.inputsOf(ofOccurrence()), Folds: true},
	}
	var tried store.Schedule
	if v.read(fields.In[store.Schedule](), reflect.ValueOf(&tried).Elem()) != nil {
		return view, nil
	}
	if _, err := tried.Rule(); err == nil {
		view.Shown = v.rule()
		for _, at := range tried.Following(&store.ScheduleState{}, view.Now, nextShown) {
			view.Next = append(view.Next, upcoming{At: at, Text: at.Format(calls.InZone)})
		}
	}
	return view, nil
}

const nextShown = 5 // times at which a schedule that is put would fire

// fillSchedule fills the form with what the address names: a schedule that is there, or the topic and the name of a new one.
func (c *Console) fillSchedule(ctx context.Context, v *visit) error {
	topic, name := v.query("topic"), v.query("name")
	form := url.Values{"topic": {topic}, "name": {name}, "revision": {"0"}}
	v.r.PostForm = form
	if topic == "" || name == "" {
		return nil
	}
	if err := v.check("showSchedule", "topic", topic, "name", name); err != nil {
		return err
	}
	s, state, _, err := c.store.Of(topic).Schedule(ctx, topic, name)
	switch {
	case errors.Is(err, store.ErrNoSchedule):
		return nil
	case notify.Retryable(err):
		return err
	case err == nil: // of one that cannot be read nothing is known but that it is there
		form = formOf(&s.Message)
		form.Set("mode", s.Message.Mode())
		for _, f := range fields.In[store.Schedule]() {
			form.Set(f.Name, typedOf(reflect.ValueOf(s).FieldByIndex(f.Index)))
		}
	}
	form.Set("topic", topic)
	form.Set("name", name)
	form.Set("revision", strconv.FormatInt(state.Revision, 10))
	if !state.Paused.IsZero() {
		form.Set("paused", "true")
	}
	if body := s.Message.Body; fitting(body) == "hex" || bytes.Contains(body, []byte("\r")) { // which a form does not keep
		form.Del("body")
		form.Set("body_base64", base64.StdEncoding.EncodeToString(body))
	}
	v.r.PostForm = form
	return nil
}

// Is reports whether the form changes a schedule that is there.
func (p *putScheduleView) Is() bool { return p.Written("revision") != "0" }

// Told reports whether the form was sent, and has more now: the times, and no fault.
func (p *putScheduleView) Told() bool { return p.r.Method == http.MethodPost && p.Refused == nil }

// isEncoded reports whether the form has a body that is no text.
func (v *visit) isEncoded() bool { return v.r.PostForm.Has("body_base64") }

// beside returns the fields of each message of the form: its body as text, or in base64.
func (v *visit) beside() []fields.Field {
	left := "body_base64"
	if v.isEncoded() {
		left = "body"
	}
	return slices.DeleteFunc(slices.Clone(fields.In[beside]()), func(f fields.Field) bool { return f.Name == left })
}

// ofOccurrence returns the fields of a message that an occurrence may have. Each is alone, so none is of a group.
func ofOccurrence() (all []fields.Field) {
	for _, f := range fields.In[notify.Message]() {
		if slices.Contains(calls.OfOccurrence(), f.Name) && !slices.Contains([]string{"group", "after_group", "on_dead"}, f.Name) {
			all = append(all, f)
		}
	}
	return all
}

// rule returns what was typed of when a schedule fires.
func (v *visit) rule() string {
	rule := make(url.Values)
	for _, f := range fields.In[calendar.Spec]() {
		rule.Set(f.Name, v.typed(f.Name))
	}
	return rule.Encode()
}

// typedSchedule returns the schedule that a form describes. The error joins a Fault for each field that is wrong.
func (v *visit) typedSchedule() (*store.Schedule, error) {
	s := &store.Schedule{Topic: v.typed("topic"), Name: v.typed("name")}
	bad := v.read(fields.In[store.Schedule](), reflect.ValueOf(s).Elem())
	m, wrong := v.messageOf(s.Topic, ofOccurrence())
	if m.Broadcast = v.typed("mode") == "broadcast"; v.isEncoded() {
		body, err := base64.StdEncoding.DecodeString(v.typed("body_base64"))
		if m.Body = body; err != nil {
			wrong = errors.Join(wrong, fault.New("body_base64", "body_base64: it is not the base64 of a body"))
		}
	}
	fields.Fill(&s.Message, &m)
	if wrong == nil {
		wrong = m.Faults("topic")
	}
	if bad == nil {
		bad = s.Check()
	}
	return s, errors.Join(bad, wrong)
}

// putScheduleAct puts a schedule, once its next times were shown.
var putScheduleAct = act{path: putSchedulePage.path, name: "put a schedule", form: &putSchedulePage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	if err := v.check("listAllSchedules"); err != nil {
		return "", 0, err
	}
	s, err := v.typedSchedule()
	if err != nil {
		return "", 0, err
	}
	if err := v.check("putSchedule", "topic", s.Topic, "name", s.Name); err != nil {
		return "", 0, err
	}
	if v.Written("shown") != v.rule() {
		return "", 0, errShown
	}
	revision, err := strconv.ParseInt(v.typed("revision"), 10, 64)
	if err != nil || revision < 0 { // which would be any
		return "", 0, fault.New("revision", "revision %.100q: it is none; load the page again", v.typed("revision"))
	}
	outcome, err := c.service.PutSchedule(ctx, s, revision)
	switch {
	case errors.Is(err, store.ErrScheduleChanged):
		return "", 0, c.meanwhile(ctx, v, s, revision)
	case oneIf(err) == 1:
		c.forgetSchedule(s.Topic, s.Name)
		v.instead = schedulePath(s.Topic, s.Name)
	}
	did := map[store.Outcome]string{notify.Created: "Added", notify.Replaced: "Changed", notify.Kept: "Nothing is new in"}[outcome]
	return fmt.Sprintf("%s the schedule %s of %s", did, s.Name, s.Topic), oneIf(err), err
}}

// meanwhile returns the Fault of a schedule that has another revision than its form. The form gets that which it has now.
func (c *Console) meanwhile(ctx context.Context, v *visit, s *store.Schedule, revision int64) error {
	_, state, _, err := c.store.Of(s.Topic).Schedule(ctx, s.Topic, s.Name)
	switch {
	case errors.Is(err, store.ErrNoSchedule):
		v.r.PostForm.Set("revision", "0")
		return fault.New("revision", "schedule %s: it was deleted meanwhile; send the form again to add it", s.Name)
	case notify.Retryable(err):
		return err
	case revision == 0:
		return fault.New("name", "name %s: %s has a schedule of this name; change that one on its page, or give another name", s.Name, s.Topic)
	}
	v.r.PostForm.Set("revision", strconv.FormatInt(state.Revision, 10))
	return fault.New("revision", "schedule %s: it was changed meanwhile, as its page shows; send the form again to have it as you wrote it", s.Name)
}

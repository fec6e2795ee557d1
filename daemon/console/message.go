package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/cache"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/fields"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/record"
)

const (
	mostShown = 64 << 10 // bytes of a body that a page shows
	mostKept  = 64 << 10 // bytes of the bodies of a message that is kept for other viewers
)

var messagePage = page{
	path: Root + "topics/{topic}/messages/{id}", title: "Message", nav: "topics", name: "message", live: true, holds: pageBytes,
	data: func(ctx context.Context, c *Console, v *visit) (any, error) { return c.message(ctx, v) },
}

// A messageView is what the page of a message shows.
type messageView struct {
	*visit
	Topic, ID string
	*notify.Info
	Now     time.Time
	Publish bool // the viewer may cancel and reschedule
	Act     bool // the viewer may requeue and purge
	Life    []event
	Asked   []named
	Body    shownBody
	Result  shownBody
	Next    shownBody // of what follows it
	Refused *pageFault
	Delay   string // as the form was sent
	Due     string
}

// An event is something in the life of a message.
type event struct {
	At     time.Time
	What   string
	Class  string // of the style; empty: as other text
	By     string
	Took   string
	Reason string
}

// messageOf returns the names in the address of a message, which the viewer must be allowed
// to read.
func messageOf(v *visit) (topic, id string, err error) {
	if topic, err = topicOf(v); err != nil {
		return "", "", err
	}
	if !v.Has(calls.MayPublish, calls.MayConsume) {
		return "", "", api.ErrForbidden
	}
	id = v.r.PathValue("id")
	return topic, id, errors.Join(record.CheckTopic(topic), record.CheckID(id))
}

// message returns what the page of a message shows.
func (c *Console) message(ctx context.Context, v *visit) (any, error) {
	topic, id, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	view := &messageView{
		visit: v, Topic: topic, ID: id, Now: c.now(ctx), Publish: v.Has(calls.MayPublish), Act: v.Has(calls.MayAdmin),
		Delay: v.r.PostForm.Get("delay"), Due: v.r.PostForm.Get("due"),
	}
	info, err := c.caches.messages.Get(ctx, record.Member(topic, id), cache.Keep{Age: rhythm}, func(ctx context.Context) (notify.Info, error) {
		return c.inspector.Inspect(ctx, topic, id)
	})
	if errors.Is(err, notify.ErrNotFound) {
		return view, &pageFault{
			Status: http.StatusNotFound, Title: fmt.Sprintf("There is no message %s in the topic %s", id, topic),
			Detail: "It was acknowledged, cancelled, purged or dropped since, or never published: what has ended is not kept. The archive may have it, if the daemon has one: bellhop archive show " + topic + " " + id,
		}
	}
	if err != nil {
		return nil, err
	}
	if held := len(info.Body) + len(info.Result); held > mostKept || info.Next != nil && held+len(info.Next.Body) > mostKept {
		c.caches.messages.Forget(record.Member(topic, id))
	}
	view.show(info)
	return view, nil
}

// show fills in what the page shows of a message.
func (m *messageView) show(info notify.Info) {
	m.Life = lifeOf(info)
	m.Asked = askedOf(info.Record)
	as := m.query("as")
	m.Body = bodyOf(info.Body, as)
	m.Result = bodyOf(info.Result, as)
	if info.Next != nil {
		m.Next = bodyOf(info.Next.Body, as)
		next := *info.Next
		next.Body, info.Next = nil, &next
	}
	info.Body, info.Result = nil, nil // their memory is free when the page is read
	m.Info = &info
}

// Path returns the address of the page.
func (m *messageView) Path() string { return messagePath(m.Topic, m.ID) }

// TopicPath returns the address of the page of the topic.
func (m *messageView) TopicPath() string { return topicPath(m.Topic) }

// Forms returns the forms in which the body can be shown.
func (m *messageView) Forms() (all []choice) {
	shown := m.Body.As
	if m.Info.State == notify.Done {
		shown = m.Result.As
	}
	for _, name := range []string{"text", "JSON", "hex"} {
		as := strings.ToLower(name)
		all = append(all, choice{name, m.Path() + "?as=" + as, as == shown})
	}
	return all
}

func (m *messageView) title() string { return m.ID + " of " + m.Topic }

// refuse shows why the form was refused.
func (m *messageView) refuse(f *pageFault) { m.Refused = f }

// Waits reports whether the message is scheduled, ready or blocked.
func (m *messageView) Waits() bool {
	return m.Info != nil && (m.State == notify.Scheduled || m.State == notify.Ready || m.State == notify.Blocked)
}

// Cancels reports whether the message can be cancelled, or its id be freed.
func (m *messageView) Cancels() bool { return m.Waits() || m.Info != nil && m.State == notify.Done }

// Stops reports whether the work on the message can be stopped.
func (m *messageView) Stops() bool {
	return m.Info != nil && m.State == notify.Leased && m.Info.Stop.IsZero()
}

// Dead reports whether the message is a dead letter.
func (m *messageView) Dead() bool { return m.Info != nil && m.State == notify.Dead }

// Unread returns why the record cannot be read; empty: it can.
func (m *messageView) Unread() string {
	if m.Info == nil || m.Info.Fault == nil {
		return ""
	}
	return legible(m.Info.Fault.Error())
}

// Headline returns the state of a message, and since when or until when it has that.
func (m *messageView) Headline() string {
	switch m.State {
	case notify.Scheduled:
		return "Scheduled, due " + soon(m.Now, m.Info.Due)
	case notify.Ready:
		return "Ready, due for " + short(max(m.Now.Sub(m.Info.Due), 0))
	case notify.Blocked:
		return "Blocked by " + brief(strings.Join(m.Info.Behind, ", ")) + ", due for " + short(max(m.Now.Sub(m.Info.Due), 0))
	case notify.Leased:
		return "Leased to " + orUnknown(m.By) + ", the lease " + ends(m.Now, m.Until)
	case notify.Dead:
		return "Dead: " + brief(store.Headline(m.Reason))
	case notify.Done:
		return "Done, its id is free in " + short(m.Until.Sub(m.Now))
	}
	return m.State.String()
}

// ends returns when something ends, or ended.
func ends(now, at time.Time) string {
	if left := at.Sub(now); left > 0 {
		return "ends in " + short(left)
	}
	return "ended " + short(now.Sub(at)) + " ago"
}

// Class returns the class of the style of the headline.
func (m *messageView) Class() string {
	switch {
	case m.State == notify.Dead:
		return "dead"
	case m.State == notify.Ready && m.Now.Sub(m.Info.Due) >= lateAfter:
		return "late"
	}
	return ""
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown worker"
	}
	return brief(name)
}

// lifeOf returns the events in the life of a message, in their order.
func lifeOf(i notify.Info) []event {
	var all []event
	add := func(e event) {
		if !e.At.IsZero() {
			e.By, e.Reason = brief(e.By), legible(e.Reason)
			all = append(all, e)
		}
	}
	add(event{At: i.Published, What: "Published"})
	before := max(len(i.History)-i.Attempts, 0) // attempts before it was dead and requeued
	switch {
	case before > 0:
		add(event{At: i.FirstDue, What: "Requeued"})
	case !i.FirstDue.Equal(i.Due):
		add(event{At: i.FirstDue, What: "First due"})
	}
	for n, a := range i.History {
		took, what := "", "Attempt failed, before it was requeued"
		if a.Took >= 0 {
			took = short(a.Took)
		}
		if n >= before {
			what = fmt.Sprintf("Attempt %d failed", i.Attempts-len(i.History)+n+1)
		}
		add(event{At: a.Ended, What: what, Class: "late", By: a.By, Took: took, Reason: a.Reason})
	}
	switch i.State {
	case notify.Scheduled:
		add(event{At: i.Due, What: "Due"})
	case notify.Ready:
		add(event{At: i.Due, What: "Ready"})
	case notify.Blocked:
		add(event{At: i.Due, What: "Blocked"})
	case notify.Leased:
		add(event{At: i.Since, What: "Claimed", By: i.By})
		add(event{At: i.Until, What: "Lease ends"})
	case notify.Dead:
		add(event{At: i.Died, What: "Died", Class: "dead", Reason: i.Reason})
	case notify.Done:
		add(event{At: i.Since, What: "Claimed", By: i.By})
		add(event{At: i.Ended, What: "Acknowledged", Class: "ok", By: i.By})
		add(event{At: i.Until, What: "Id is free"})
	}
	add(event{At: i.Expires, What: "Expires"})
	if i.Next != nil {
		add(event{At: i.Next.FirstDue, What: "Due: the message that follows it"})
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.At.Compare(b.At) })
	return all
}

// askedOf returns what the publisher of a message asked for.
func askedOf(r notify.Record) (all []named) {
	if r.Broadcast {
		all = append(all, named{"mode", r.Mode()})
	}
	for _, one := range asked.Of(r).Named() {
		all = append(all, named{legible(one.Name), legible(one.Text)})
	}
	return all
}

// A shownBody is a body as a page shows it.
type shownBody struct {
	As    string // text, json or hex
	Text  string
	Bytes int64 // of the whole body
	Cut   bool  // Text is of its first part
	Note  string
}

// bodyOf returns a body in a form; an empty one is the best that fits it.
func bodyOf(body []byte, as string) shownBody {
	b := shownBody{As: as, Bytes: int64(len(body))}
	if as != "text" && as != "json" && as != "hex" {
		b.As = fitting(body)
	}
	if b.As == "json" {
		var compact bytes.Buffer
		if json.Compact(&compact, body) == nil {
			b.Text, b.Cut = cutText(laidOut(compact.Bytes(), mostShown+1))
			return b
		}
		b.As, b.Note = "text", "It is not JSON."
	}
	b.Cut = len(body) > mostShown
	if b.As == "hex" {
		b.Text = hex.Dump(body[:min(len(body), mostShown)])
		return b
	}
	b.Text, b.Cut = cutText(body)
	return b
}

// laidOut returns compact JSON with a line for each value. It stops soon after so many bytes:
// what is nested deeply is longer by thousands of times.
func laidOut(compact []byte, most int) []byte {
	var b bytes.Buffer
	depth, quoted := 0, false
	line := func() { b.WriteString("\n" + strings.Repeat("  ", depth)) }
	for i := 0; i < len(compact) && b.Len() < most; i++ {
		switch c := compact[i]; {
		case quoted:
			if b.WriteByte(c); c == '\\' {
				i++
				b.WriteByte(compact[i])
			}
			quoted = c != '"'
		case c == '{' || c == '[':
			if b.WriteByte(c); compact[i+1] == c+2 { // it is empty
				i++
				b.WriteByte(c + 2)
				continue
			}
			depth++
			line()
		case c == '}' || c == ']':
			depth--
			line()
			b.WriteByte(c)
		case c == ',':
			b.WriteByte(c)
			line()
		case c == ':':
			b.WriteString(": ")
		default:
			b.WriteByte(c)
			quoted = c == '"'
		}
	}
	return b.Bytes()
}

// cutText returns the first part of a text, legible, and whether there is more.
func cutText(text []byte) (string, bool) {
	cut := len(text) > mostShown
	text = text[:min(len(text), mostShown)]
	if cut {
		for range utf8.UTFMax - 1 { // not through a character
			if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	return legible(string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))), cut
}

// fitting returns the form that shows a body best.
func fitting(body []byte) string {
	start := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(start) > 0 && (start[0] == '{' || start[0] == '[') && json.Valid(body):
		return "json"
	case utf8.Valid(body) && !bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' }):
		return "text"
	}
	return "hex"
}

// messageAct cancels, reschedules, requeues or purges a message: the form has a button act.
var messageAct = act{path: messagePage.path, name: "act on a message", form: &messagePage, do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	topic, id, err := messageOf(v)
	if err != nil {
		return "", 0, err
	}
	do, known := messageActs[v.r.PostForm.Get("act")]
	if !known {
		return "", 0, fault.New("act", "act %.100q: use one of the buttons of the page", v.r.PostForm.Get("act"))
	}
	if !v.Has(do.right) {
		return "", 0, api.ErrForbidden
	}
	did, err := do.do(ctx, c, v, topic, id)
	c.forget(topic)
	c.caches.messages.Forget(record.Member(topic, id))
	if do.ends {
		v.instead = topicPath(topic)
	}
	return did, oneIf(err), changed(err)
}}

// messageActs are the acts on a message by the values of their buttons.
var messageActs = map[string]struct {
	right calls.Right
	ends  bool // the message is gone then
	do    func(ctx context.Context, c *Console, v *visit, topic, id string) (did string, err error)
}{
	"cancel": {calls.MayPublish, true, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
		was, err := c.pub.Cancel(ctx, topic, id)
		return "Cancelled " + id + ", it was " + was.String(), err
	}},
	"stop": {calls.MayPublish, false, func(ctx context.Context, c *Console, _ *visit, topic, id string) (string, error) {
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

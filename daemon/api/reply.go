package api

import (
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/subscribers"
)

// Publication is the result of a publish, a broadcast or a rescheduling.
type Publication struct {
	Topic string       `json:"topic" example:"order.timeout"`
	ID    string       `json:"id" doc:"the given id, or a generated one" example:"order-4711"`
	Due   time.Time    `json:"due,omitzero" doc:"when it is due, by the clock of Redis; now, if the requested time is past; missing if done, and of one that waits for a group"`
	State notify.State `json:"state" enum:"scheduled,ready,blocked,leased,done" doc:"scheduled, or ready if it is due already; blocked if it is, and others of its key keep it back; leased if it follows the message of its id that is leased; done if it was dropped, or if the one that is kept has ended, and its id stays taken"`

	Left *int64 `json:"left,omitempty" doc:"of a message with after_group: how many of the group are left; it is due once that is 0"`

	Outcome     notify.Outcome `json:"outcome,omitempty" enum:"created,kept,replaced,moved,dropped" doc:"of a publish: a new message; or, as if_exists says, the one that was there is kept, replaced, or moved by debounce; dropped, as if_busy says: another of its key is under way"`
	PreviousDue *time.Time     `json:"previous_due,omitempty" doc:"when the message that was there was due; missing if there was none, or a dead one"`
}

// PublicationOf returns a publication in its JSON form, its time in UTC.
func PublicationOf(p notify.Publication) Publication {
	return Publication{Topic: p.Topic, ID: p.ID, Due: p.Due.UTC(), State: p.State, Left: p.Left, Outcome: p.Outcome, PreviousDue: Given(p.PreviousDue)}
}

// Text is a body in JSON: as Body if it is UTF-8, which may be empty, else as BodyBase64.
type Text struct {
	Body       *string `json:"body,omitempty" nullable:"false" doc:"the body, if it is UTF-8"`
	BodyBase64 []byte  `json:"body_base64,omitempty" doc:"the body, if it is not UTF-8"`
}

// Bytes returns the body.
func (t Text) Bytes() []byte {
	if t.Body != nil {
		return []byte(*t.Body)
	}
	return t.BodyBase64
}

// TextOf returns a body in its JSON form; nil is no body.
func TextOf(body []byte) Text {
	text, data := legible(body)
	return Text{Body: text, BodyBase64: data}
}

// legible returns bytes as text if they are UTF-8, else as they are; neither for nil.
func legible(data []byte) (*string, []byte) {
	if data == nil || !utf8.Valid(data) {
		return nil, data
	}
	return new(string(data)), nil
}

// Ms returns a duration in its JSON form: whole milliseconds, for a field whose name
// ends in _ms.
func Ms(d time.Duration) int64 { return d.Milliseconds() }

// Message is what is known of a message.
type Message struct {
	Topic        string       `json:"topic" example:"order.timeout"`
	ID           string       `json:"id" example:"order-4711"`
	Mode         string       `json:"mode,omitempty" enum:"broadcast" doc:"broadcast, for everyone who listens; missing: for one worker"`
	State        notify.State `json:"state" enum:"scheduled,ready,blocked,leased,dead,done" doc:"blocked: it is due, and waits for another of its key, see behind; done: it was acknowledged and is kept, or it has ended and only its id stays taken; ended tells them apart"`
	Due          *time.Time   `json:"due,omitempty" doc:"when it is due, if scheduled, ready or blocked; missing if it only waits for a group"`
	Left         *int64       `json:"left,omitempty" doc:"how many are left of the group that it waits for, see after_group; missing: it waits for none any more"`
	FirstDue     *time.Time   `json:"first_due,omitempty" doc:"due time of its first attempt, which a retry does not change; a broadcast has none"`
	Until        *time.Time   `json:"until,omitempty" doc:"end of its lease, if leased"`
	Died         *time.Time   `json:"died,omitempty" doc:"when it died, if dead"`
	Reason       string       `json:"reason,omitempty" doc:"why it died"`
	AttemptsUsed int          `json:"attempts_used" doc:"attempts used up, by expired leases and rejections"`
	History      []Attempt    `json:"history,omitempty" doc:"its last attempts that failed, oldest first, up to 10; missing: none did, or the topic's setting history is off"`
	Worker       string       `json:"worker,omitempty" doc:"name of the worker that has it, if leased, or that acknowledged it, if done; missing: unknown"`
	Claimed      *time.Time   `json:"claimed,omitempty" doc:"when that worker claimed it"`
	Progress     *int         `json:"progress,omitempty" doc:"how far that worker is, in percent, if leased, as it said when it extended the lease"`
	Note         string       `json:"note,omitempty" doc:"what it said beside that"`
	Stopping     *time.Time   `json:"stopping,omitempty" doc:"when it was cancelled with stop, if leased: it is gone once its lease ends, unless it is acknowledged"`
	Behind       []string     `json:"behind,omitempty" doc:"if blocked, the ids of those of its key that it waits for: they are ready, leased or put off, or died where on_dead is stop"`
	Ended        *time.Time   `json:"ended,omitempty" doc:"when it was acknowledged, if done and kept"`
	Snoozed      int          `json:"snoozed,omitempty" doc:"how often it was put off without using up an attempt"`
	Expires      *time.Time   `json:"expires,omitempty" doc:"end of its time to live"`
	TakenUntil   *time.Time   `json:"taken_until,omitempty" doc:"until when its id stays taken, and its result is kept, if done"`
	Published    *time.Time   `json:"published,omitempty"`
	Next         *Next        `json:"next,omitempty" doc:"the message of this id that follows it, once it is acknowledged, dead or dropped"`
	asked.Options
	Result
	Text
	Fault string `json:"fault,omitempty" doc:"why its record cannot be read; the body is then the whole record, or missing"`
}

// MessageOf returns what is known of a message in its JSON form.
func MessageOf(i notify.Info) Message {
	until, taken := i.Until, time.Time{}
	if i.State == notify.Done {
		until, taken = taken, until
	}
	m := Message{
		Topic: i.Topic, ID: i.ID, Mode: i.Mode(), State: i.State,
		Due: Given(i.Due), Left: i.Left, FirstDue: Given(i.FirstDue), Until: Given(until), Died: Given(i.Died), Reason: i.Reason,
		AttemptsUsed: i.Attempts, History: AttemptsOf(i.History), Worker: i.By, Claimed: Given(i.Since), Stopping: Given(i.Stop), Behind: i.Behind, Ended: Given(i.Ended), Snoozed: i.Snoozed, Expires: Given(i.Expires), TakenUntil: Given(taken), Published: Given(i.Published),
		Options: asked.Of(i.Record), Result: ResultOf(i.Result), Text: TextOf(i.Body),
	}
	if i.Progress != nil {
		m.Progress, m.Note = &i.Progress.Percent, i.Progress.Note
	}
	if i.Next != nil {
		m.Next = &Next{Due: i.Next.FirstDue.UTC(), Options: asked.Of(*i.Next), Text: TextOf(i.Next.Body)}
	}
	if i.Fault != nil {
		m.Fault = i.Fault.Error()
	}
	return m
}

// Next is a message that follows the one of its id that is leased.
type Next struct {
	Due time.Time `json:"due" doc:"when it is due; if that is past by then, it is due at once"`
	asked.Options
	Text
}

// Given returns a time in UTC; nil for the zero time.
func Given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Page is one page of a list of messages.
type Page struct {
	Messages []Message `json:"messages" nullable:"false"`
	Cursor   string    `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// Key names a message.
type Key struct {
	Topic string `json:"topic" example:"order.timeout"`
	ID    string `json:"id" example:"order-4711"`
}

// Handed is the part common to a message for a worker and a broadcast for a listener, beside their Key.
type Handed struct {
	Due       time.Time `json:"due" doc:"when it was due"`
	Published time.Time `json:"published"`
	asked.Delivered
	Text
}

// HandedOf returns a due time and a record in their JSON form.
func HandedOf(due time.Time, r notify.Record, fence int64) Handed {
	return Handed{
		Due: due.UTC(), Published: r.Published.UTC(), Delivered: asked.DeliveredOf(&r, fence), Text: TextOf(r.Body),
	}
}

// Delivery is a claimed message.
type Delivery struct {
	Key
	Receipt subscribers.Receipt `json:"receipt,omitempty" doc:"proves the claim when the message is settled, and stays the same when its lease is extended; it is the end of the lease that the claim gave, in Unix microseconds by the clock of Redis; missing with ack=now"`
	Attempt int                 `json:"attempt" doc:"1 on first delivery"`
	LateMs  int64               `json:"late_ms" doc:"from due to claimed, less the min_age of the claim" example:"2"`

	FirstDue *time.Time `json:"first_due,omitempty" doc:"due time of the first attempt; due is that of this one"`
	History  []Attempt  `json:"history,omitempty" doc:"the last attempts that failed, oldest first, up to 10"`
	Handed
}

// DeliveryOf returns a claimed message in its JSON form.
func DeliveryOf(d subscribers.Delivery) Delivery {
	return Delivery{
		Key: Key{d.Topic, d.ID}, Receipt: d.Receipt, Attempt: d.Attempt, LateMs: Ms(d.Late()),
		FirstDue: Given(d.FirstDue), History: AttemptsOf(d.History), Handed: HandedOf(d.Due, d.Record, d.Fence),
	}
}

// Claimed are the messages of a claim.
type Claimed struct {
	Messages []Delivery `json:"messages" nullable:"false" doc:"oldest due time first; empty: no message came, not even within the wait"`
}

// Extended is an extended lease.
type Extended struct {
	Receipt subscribers.Receipt `json:"receipt" doc:"the receipt that was given, which stays valid while the lease goes on"`
	Until   time.Time           `json:"until" doc:"end of the lease: earlier than asked for where the try_timeout of the message is"`
}

// Acked is the result of acknowledging many messages.
type Acked struct {
	Acked int      `json:"acked" doc:"how many messages were acknowledged, and are gone"`
	Lost  []string `json:"lost" nullable:"false" doc:"ids of the messages whose lease was lost: other workers may have them"`
}

// Broadcast is a broadcast for a listener.
type Broadcast struct {
	Key
	Handed
}

// BroadcastOf returns a broadcast in its JSON form.
func BroadcastOf(b *subscribers.Broadcast) Broadcast {
	return Broadcast{Key{b.Topic, b.ID}, HandedOf(b.Due, b.Record, 0)}
}

// Gap reports to a listener that broadcasts of a topic were removed before they were
// read, or that some may be missing because Redis lost its data.
type Gap struct {
	Topic string          `json:"topic" doc:"topic of the missing broadcasts; if Redis lost its data, the topic or pattern of the listener"`
	After notify.Position `json:"after" doc:"the missing broadcasts are those after this position"`
	UpTo  notify.Position `json:"up_to" doc:"and up to this position, included"`
}

package api

import (
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// Publication says what became of a message that was published or rescheduled.
type Publication struct {
	Topic string       `json:"topic" example:"order.timeout"`
	ID    string       `json:"id" doc:"the one that was given, or a generated one" example:"order-4711"`
	Due   time.Time    `json:"due" doc:"when it is due, by the clock of Redis; where that was asked for in the past: now"`
	State notify.State `json:"state" enum:"scheduled,ready" doc:"scheduled, or ready if it is due already"`
}

// PublicationOf returns a publication as it is told, its time in UTC.
func PublicationOf(p notify.Publication) Publication {
	return Publication{Topic: p.Topic, ID: p.ID, Due: p.Due.UTC(), State: p.State}
}

// Cancelled says that a message is cancelled, and which state it was in.
type Cancelled struct {
	Cancelled bool         `json:"cancelled" doc:"true"`
	Was       notify.State `json:"was" enum:"scheduled,ready,dead" doc:"the state that it was in"`
}

// CancelledOf returns what a cancellation is told as.
func CancelledOf(was notify.State) Cancelled { return Cancelled{Cancelled: true, Was: was} }

// Text is a body in JSON, under one name if it is text, which may be empty, and another if it is not.
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

// TextOf returns a body as it is told; none is nil.
func TextOf(body []byte) Text {
	if body == nil {
		return Text{}
	}
	if text := string(body); utf8.ValidString(text) {
		return Text{Body: &text}
	}
	return Text{BodyBase64: body}
}

// Ms returns a duration or an age as JSON has them: in whole milliseconds, in a
// field whose name ends in _ms.
func Ms(d time.Duration) int64 { return d.Milliseconds() }

// Message is what is known of a message.
type Message struct {
	Topic        string            `json:"topic" example:"order.timeout"`
	ID           string            `json:"id" example:"order-4711"`
	Mode         string            `json:"mode,omitempty" enum:"broadcast" doc:"broadcast, for everyone who listens; missing: for one worker"`
	State        notify.State      `json:"state" enum:"scheduled,ready,leased,dead"`
	Due          *time.Time        `json:"due,omitempty" doc:"of a scheduled or ready one"`
	FirstDue     *time.Time        `json:"first_due,omitempty" doc:"of its first attempt, which a retry leaves; a broadcast has none"`
	Until        *time.Time        `json:"until,omitempty" doc:"the end of the lease of a leased one"`
	Died         *time.Time        `json:"died,omitempty" doc:"of a dead one"`
	Reason       string            `json:"reason,omitempty" doc:"why it died"`
	AttemptsUsed int               `json:"attempts_used" doc:"by leases that ended and by refusals"`
	Attempts     int               `json:"attempts,omitempty" doc:"its limit of them; missing: the default"`
	TTLMs        int64             `json:"ttl_ms,omitempty" doc:"its time to live" example:"86400000"`
	Expires      *time.Time        `json:"expires,omitempty" doc:"the end of it"`
	Published    *time.Time        `json:"published,omitempty"`
	ContentType  string            `json:"content_type,omitempty"`
	Headers      map[string]string `json:"headers,omitempty" doc:"that were carried along"`
	Text
	Fault string `json:"fault,omitempty" doc:"why its record cannot be read; the body is all of it then, or there is none"`
}

// MessageOf returns what is known of a message as it is told.
func MessageOf(i notify.Info) Message {
	m := Message{
		Topic: i.Topic, ID: i.ID, Mode: i.Mode(), State: i.State,
		Due: given(i.Due), FirstDue: given(i.FirstDue), Until: given(i.Until), Died: given(i.Died), Reason: i.Reason, TTLMs: Ms(i.TTL),
		AttemptsUsed: i.Attempts, Attempts: i.MaxAttempts, Expires: given(i.Expires), Published: given(i.Published),
		ContentType: i.ContentType, Headers: i.Headers, Text: TextOf(i.Body),
	}
	if i.Fault != nil {
		m.Fault = i.Fault.Error()
	}
	return m
}

// given returns a time in UTC, nil for none.
func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Page is a part of a list of messages.
type Page struct {
	Messages []Message `json:"messages" nullable:"false"`
	Cursor   string    `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// PageOf returns a page as it is told.
func PageOf(p notify.Page) Page {
	page := Page{Messages: make([]Message, len(p.Messages)), Cursor: p.Cursor}
	for i, info := range p.Messages {
		page.Messages[i] = MessageOf(info)
	}
	return page
}

// Key is what a message is known by.
type Key struct {
	Topic string `json:"topic" example:"order.timeout"`
	ID    string `json:"id" example:"order-4711"`
}

// Handed is what a worker gets of a message, and a listener of a broadcast, beside its Key.
type Handed struct {
	Due         time.Time         `json:"due" doc:"since when it is ready"`
	Published   time.Time         `json:"published"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Text
}

// HandedOf returns what is handed over as it is told.
func HandedOf(due time.Time, r notify.Record) Handed {
	return Handed{
		Due: due.UTC(), Published: r.Published.UTC(),
		ContentType: r.ContentType, Headers: r.Headers, Text: TextOf(r.Body),
	}
}

// Delivery is a message that was claimed.
type Delivery struct {
	Key
	Receipt subscribers.Receipt `json:"receipt" doc:"settles it: the end of the lease, in Unix microseconds by the clock of Redis"`
	Attempt int                 `json:"attempt" doc:"1 on first delivery"`

	FirstDue *time.Time `json:"first_due,omitempty" doc:"of the first attempt: due is that of this one"`
	Handed
}

// DeliveryOf returns a claimed message as it is told.
func DeliveryOf(d subscribers.Delivery) Delivery {
	return Delivery{Key: Key{d.Topic, d.ID}, Receipt: d.Receipt, Attempt: d.Attempt, FirstDue: given(d.FirstDue), Handed: HandedOf(d.Due, d.Record)}
}

// Claimed are messages that were claimed.
type Claimed struct {
	Messages []Delivery `json:"messages" nullable:"false" doc:"oldest due first; none: there was none, not even within the wait"`
}

// ClaimedOf returns messages that were claimed as they are told.
func ClaimedOf(ds []subscribers.Delivery) Claimed {
	claimed := Claimed{Messages: make([]Delivery, len(ds))}
	for i, d := range ds {
		claimed.Messages[i] = DeliveryOf(d)
	}
	return claimed
}

// Extended is a lease that was extended.
type Extended struct {
	Receipt subscribers.Receipt `json:"receipt" doc:"of the new lease; the one before is void"`
}

// Acked says what became of messages that were acknowledged.
type Acked struct {
	Acked int      `json:"acked" doc:"how many are done and gone"`
	Lost  []string `json:"lost" nullable:"false" doc:"ids of those whose lease was lost: they may be in other hands"`
}

// Broadcast is a broadcast as a listener gets it.
type Broadcast struct {
	Key
	Handed
}

// BroadcastOf returns a broadcast as it is told.
func BroadcastOf(b *subscribers.Broadcast) Broadcast {
	return Broadcast{Key{b.Topic, b.ID}, HandedOf(b.Due, b.Record)}
}

// Gap tells a listener that broadcasts of a topic were removed before it got to
// them, or may have been, since Redis lost all that it held.
type Gap struct {
	Topic string          `json:"topic" doc:"or, where Redis lost all that it held, what the listener listens to"`
	After notify.Position `json:"after" doc:"those behind this position are missing,"`
	UpTo  notify.Position `json:"up_to" doc:"up to and with this one"`
}

// Topic counts the messages of a topic.
type Topic struct {
	notify.Counts
	OverdueMs  int64 `json:"overdue_ms" doc:"for how long its oldest ready message is due" example:"1500"`
	LatenessMs int64 `json:"lateness_ms" doc:"from due to claimed, of the oldest message of the last claim" example:"2"`
}

// TopicOf returns the counts of a topic as they are told.
func TopicOf(c notify.Counts) Topic {
	return Topic{Counts: c, OverdueMs: Ms(c.Overdue), LatenessMs: Ms(c.Lateness)}
}

// Topics counts the messages of topics, by name: a part of all.
type Topics struct {
	Topics []Topic `json:"topics" nullable:"false" doc:"fewer than the limit, or none, is not the last page where there is a cursor"`
	Cursor string  `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
}

// TopicsOf returns counts as they are told, with a cursor where there are more.
func TopicsOf(counts []notify.Counts, cursor string) Topics {
	t := Topics{Topics: make([]Topic, len(counts)), Cursor: cursor}
	for i, one := range counts {
		t.Topics[i] = TopicOf(one)
	}
	return t
}

// Count is how many messages a call dealt with.
type Count struct {
	Count int `json:"count"`
}

// Carrier is who carries.
type Carrier struct {
	Name    string     `json:"name" doc:"of the elected carrier; empty: nobody is elected"`
	Epoch   int64      `json:"epoch" doc:"number of its election"`
	Since   *time.Time `json:"since,omitempty" doc:"of the election"`
	LeaseMs int64      `json:"lease_ms" doc:"what is left of its lease" example:"2400"`
	Next    *time.Time `json:"next,omitempty" doc:"when the next message or broadcast is due; missing: nothing is scheduled"`
}

// CarrierOf returns who carries as it is told.
func CarrierOf(s carrier.Status) Carrier {
	return Carrier{Name: s.Name, Epoch: s.Epoch, Since: given(s.Since), LeaseMs: Ms(s.Lease), Next: given(s.Next)}
}

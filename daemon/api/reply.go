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

// TextOf returns a body as it is told.
func TextOf(body []byte) Text {
	if text := string(body); utf8.ValidString(text) {
		return Text{Body: &text}
	}
	return Text{BodyBase64: body}
}

// Message is what is known of a message.
type Message struct {
	Topic        string            `json:"topic" example:"order.timeout"`
	ID           string            `json:"id" example:"order-4711"`
	Mode         string            `json:"mode,omitempty" enum:"broadcast" doc:"broadcast, for everyone who listens; missing: for one worker"`
	State        notify.State      `json:"state" enum:"scheduled,ready,leased,dead"`
	Due          *time.Time        `json:"due,omitempty" doc:"of a scheduled or ready one"`
	Until        *time.Time        `json:"until,omitempty" doc:"the end of the lease of a leased one"`
	Died         *time.Time        `json:"died,omitempty" doc:"of a dead one"`
	Reason       string            `json:"reason,omitempty" doc:"why it died"`
	AttemptsUsed int               `json:"attempts_used" doc:"by leases that ended and by refusals"`
	Attempts     int               `json:"attempts,omitempty" doc:"its limit of them; missing: the default"`
	TTL          string            `json:"ttl,omitempty" doc:"its time to live" example:"24h0m0s"`
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
		Topic: i.Topic, ID: i.ID, State: i.State,
		Due: given(i.Due), Until: given(i.Until), Died: given(i.Died), Reason: i.Reason,
		AttemptsUsed: i.Attempts, Attempts: i.MaxAttempts, Expires: given(i.Expires), Published: given(i.Published),
		ContentType: i.ContentType, Headers: i.Headers,
	}
	if i.Broadcast {
		m.Mode = notify.ModeBroadcast
	}
	if i.TTL > 0 {
		m.TTL = i.TTL.String()
	}
	if i.Fault != nil {
		m.Fault = i.Fault.Error()
	}
	if i.Body != nil { // its record is there
		m.Text = TextOf(i.Body)
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

// Delivery is a message that was claimed.
type Delivery struct {
	Topic       string              `json:"topic" example:"order.timeout"`
	ID          string              `json:"id" example:"order-4711"`
	Receipt     subscribers.Receipt `json:"receipt" doc:"settles it: the end of the lease, in Unix microseconds by the clock of Redis"`
	Attempt     int                 `json:"attempt" doc:"1 on first delivery"`
	Due         time.Time           `json:"due" doc:"since when it is ready"`
	Published   time.Time           `json:"published"`
	ContentType string              `json:"content_type,omitempty"`
	Headers     map[string]string   `json:"headers,omitempty"`
	Text
}

// DeliveryOf returns a claimed message as it is told.
func DeliveryOf(d subscribers.Delivery) Delivery {
	return Delivery{
		Topic: d.Topic, ID: d.ID, Receipt: d.Receipt, Attempt: d.Attempt, Due: d.Due.UTC(), Published: d.Published.UTC(),
		ContentType: d.ContentType, Headers: d.Headers, Text: TextOf(d.Body),
	}
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
	Topic       string            `json:"topic" example:"prices.gold"`
	ID          string            `json:"id"`
	Due         time.Time         `json:"due"`
	Published   time.Time         `json:"published"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Text
}

// BroadcastOf returns a broadcast as it is told.
func BroadcastOf(b *subscribers.Broadcast) Broadcast {
	return Broadcast{
		Topic: b.Topic, ID: b.ID, Due: b.Due.UTC(), Published: b.Published.UTC(),
		ContentType: b.ContentType, Headers: b.Headers, Text: TextOf(b.Body),
	}
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
	OldestOverdue string `json:"oldest_overdue" doc:"for how long its oldest ready message is due" example:"1.5s"`
	Lateness      string `json:"lateness" doc:"from due to claimed, of the oldest message of the last claim" example:"2ms"`
}

// TopicOf returns the counts of a topic as they are told.
func TopicOf(c notify.Counts) Topic {
	return Topic{Counts: c, OldestOverdue: c.Overdue.String(), Lateness: c.Lateness.String()}
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
	Name  string     `json:"name" doc:"of the elected carrier; empty: nobody is elected"`
	Epoch int64      `json:"epoch" doc:"number of its election"`
	Since *time.Time `json:"since,omitempty" doc:"of the election"`
	Lease string     `json:"lease" doc:"what is left of its lease" example:"2.4s"`
	Next  *time.Time `json:"next,omitempty" doc:"when the next message or broadcast is due; missing: nothing is scheduled"`
}

// CarrierOf returns who carries as it is told.
func CarrierOf(s carrier.Status) Carrier {
	return Carrier{Name: s.Name, Epoch: s.Epoch, Since: given(s.Since), Lease: s.Lease.String(), Next: given(s.Next)}
}

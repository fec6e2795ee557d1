package api

import (
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
)

// Publication says what became of a message that was published or rescheduled.
type Publication struct {
	Topic string       `json:"topic"`
	ID    string       `json:"id"`
	Due   time.Time    `json:"due"`
	State notify.State `json:"state"`
}

// PublicationOf returns a publication as it is told, its time in UTC.
func PublicationOf(p notify.Publication) Publication {
	return Publication{Topic: p.Topic, ID: p.ID, Due: p.Due.UTC(), State: p.State}
}

// Cancelled says which state a cancelled message was in.
type Cancelled struct {
	State notify.State `json:"state"`
}

// Message is what is known of a message.
type Message struct {
	Topic        string            `json:"topic"`
	ID           string            `json:"id"`
	Mode         string            `json:"mode,omitempty"` // broadcast; empty: a message for one worker
	State        notify.State      `json:"state"`
	Due          *time.Time        `json:"due,omitempty"`          // of a scheduled or ready one
	Until        *time.Time        `json:"until,omitempty"`        // the end of the lease of a leased one
	Died         *time.Time        `json:"died,omitempty"`         // of a dead one
	Reason       string            `json:"reason,omitempty"`       // why it died
	AttemptsUsed int               `json:"attempts_used"`          //
	Attempts     int               `json:"attempts,omitempty"`     // its limit of them; none: the default
	TTL          string            `json:"ttl,omitempty"`          // such as 24h0m0s
	Expires      *time.Time        `json:"expires,omitempty"`      //
	Published    *time.Time        `json:"published,omitempty"`    //
	ContentType  string            `json:"content_type,omitempty"` //
	Headers      map[string]string `json:"headers,omitempty"`      //
	Body         string            `json:"body,omitempty"`         // if it is UTF-8; else
	BodyBase64   []byte            `json:"body_base64,omitempty"`  //
	Fault        string            `json:"fault,omitempty"`        // why its record cannot be read; the body is all of it then
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
	if utf8.Valid(i.Body) {
		m.Body = string(i.Body)
	} else {
		m.BodyBase64 = i.Body
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

package notify

import (
	"errors"
	"fmt"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/calendar"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// DefaultMaxBody is the largest body in bytes, unless PublisherOptions.MaxBody is set.
const DefaultMaxBody = 256 << 10

// A Message is what is published. Its tags say what each field asks for, its range, and what a
// zero value, which counts as missing, means; they become flag descriptions and the OpenAPI
// document. The comments say what is left.
type Message struct {
	Topic string // required: tokens of A-Z a-z 0-9 _ - joined by dots, at most MaxTopic bytes
	Body  []byte // opaque; empty if the message is only a signal

	// ID, where it is generated, sorts by time.
	ID string `field:"id" is:"id" maxLength:"128" pattern:"^(\\.{0,2}[A-Za-z0-9_~:-]|\\.{3})[A-Za-z0-9._~:-]*$" example:"order-4711" doc:"names it, so that a publish may be repeated, a broadcast until it is sent; missing: one is made"`

	// Key: of the messages of a key in a topic one at a time is ready or leased, or waits for
	// another attempt; the next is the one due first, then by id.
	Key string `field:"key" of:"message" maxLength:"128" pattern:"^[A-Za-z0-9._:-][A-Za-z0-9._~:-]*$" words:"letters, digits and . _ ~ : -, not ~ first" example:"acct-7" doc:"names what it is about, such as an account: of a key one message goes at a time, the one due first; is handed to its handler, and found by key:"`

	// IfBusy: Publication.Outcome is dropped if it is dropped at once.
	IfBusy string `field:"if_busy" of:"message" enum:"wait,drop" example:"drop" doc:"what becomes of it when it is due first, and another of its key is ready, leased or put off: wait until that has ended, or drop it; missing: wait"`

	// Group: one is made by its first message, or by the first that waits for it.
	Group string `field:"group" of:"message" maxLength:"128" pattern:"^[A-Za-z0-9._:-][A-Za-z0-9._~:-]*$" words:"letters, digits and . _ ~ : -, not ~ first" example:"import-7" doc:"names a group of the topic's messages, in which it is until it ends; another message waits for the last of them with after_group"`

	// AfterGroup: Publication.Left reports how many are left, and Headers get what became of them.
	AfterGroup string `field:"after_group" of:"message" is:"group" maxLength:"257" pattern:"^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*:[A-Za-z0-9._:-][A-Za-z0-9._~:-]{0,127}$" words:"TOPIC:GROUP" example:"row.import:import-7" doc:"TOPIC:GROUP: due once all messages of that group have ended, also if there are none; reschedule gives it a time at the latest"`
	OnDead     string `field:"on_dead" of:"message" enum:"stop,go" example:"go" doc:"what a dead letter of the group does to a message with after_group: stop holds it back until that is requeued or purged, go lets it pass; missing: stop"`

	// Delay and Due are rounded up to a millisecond. A Due in the past becomes the time of the
	// publish, except for a broadcast. Zone is that of a Due in calendar.Wall.
	Delay time.Duration `field:"delay" shortest:"0s" example:"30m" doc:"due so long after Redis has taken it"`
	Due   time.Time     `field:"due" without:"delay" example:"2030-01-02T15:04:05.678Z" zone:"zone" doc:"due at this time; in the past: at once, and the answer tells since when. With a zone beside it a time without an offset. Give a delay, or this, or neither"`
	Zone  string        `field:"zone" is:"zone" without:"delay" example:"Europe/Berlin" doc:"time zone of a due without an offset, such as 2030-01-02T08:00: due when the wall clock there shows that first, or at the end of a gap that has it"`

	Spread time.Duration `field:"spread" shortest:"1ms" longest:"24h" example:"10m" doc:"due up to so much later, always the same for one id, so that many of one time do not come at once; missing: no later"`

	// TTL is rounded down to a millisecond. Behind it a broadcast is not sent, and listeners
	// that read it later leave it out.
	TTL time.Duration `field:"ttl" shortest:"1ms" example:"24h" doc:"time to live behind the due time; missing: for ever"`

	MaxAttempts int `field:"attempts" of:"message" minimum:"1" maximum:"1000000" example:"5" doc:"limit of attempts; missing: that of the topic's settings"`

	Lease time.Duration `field:"lease" of:"message" shortest:"100ms" longest:"24h" example:"30s" doc:"lease that a claim of it gives, before that of the claim and of the topic's settings"`

	// TryTimeout: when it is over the handler's context ends, and the attempt is used up.
	TryTimeout time.Duration `field:"try_timeout" of:"message" shortest:"100ms" longest:"24h" example:"5m" doc:"how long an attempt may take, with all extensions of its lease; missing: as long as it is extended"`

	Fail Fail `field:"fail" of:"message" enum:"bury,drop" example:"drop" doc:"what becomes of it at its last failed attempt and when it expires: bury keeps a dead letter, drop only counts it; missing: bury"`

	LateAfter time.Duration `field:"late_after" of:"message" shortest:"1ms" example:"10m" doc:"how long after its first due time a claim is too late; missing: never"`
	Late      Late          `field:"late" of:"message" enum:"bury,drop" or:"leave late_after out to get it in any case: each delivery says when it was first due, and how late it is" example:"drop" doc:"what becomes of it when it is claimed too late: bury keeps a dead letter, drop only counts it; missing: bury"`

	// IfExists: Publication.Outcome reports what was done.
	IfExists IfExists `field:"if_exists" enum:"refuse,keep,replace,debounce" example:"debounce" doc:"what happens if a message of that id waits or is ready: refuse and keep leave it, replace puts this one in its place, debounce does too and starts the delay anew; missing: refuse"`

	MaxWait time.Duration `field:"max_wait" shortest:"1ms" example:"1m" doc:"how long debounce may put it off, from its first publish on; missing: without end"`

	Then Then `field:"then" of:"message" enum:"after" example:"after" doc:"if a message of that id is leased: after lets this one follow it, once it is acknowledged, dead or dropped; missing: it is refused"`

	// UniqueFor: a cancel or a purge frees the ID at once.
	UniqueFor time.Duration `field:"unique_for" shortest:"1ms" longest:"168h" example:"1h" doc:"how long the id stays taken after the end of the message; missing: it is free at once"`

	ContentType string `field:"content_type" is:"media type" maxLength:"255" example:"application/json" doc:"of the body; is kept with it"`

	Headers map[string]string // kept with the body; no two names are equal without regard to case

	// Broadcast sends the message to everyone who listens to the topic, instead of to
	// one worker. A broadcast has none of the fields that are about attempts and leases.
	Broadcast bool

	// Restore is what the message had in another store; nil: it is new.
	Restore *Restore
}

// What becomes of a message that fails or is late.
type (
	Fail = record.Fail
	Late = record.Late
)

// The values of Fail and Late.
const (
	FailBury = record.FailBury // it is a dead letter, kept with the reason
	FailDrop = record.FailDrop // it is counted, and gone
	LateDrop = record.LateDrop // it is counted, and gone
	LateBury = record.LateBury // it is a dead letter with the reason late
)

// IfExists says what a publish does if a message of its id waits or is ready.
type IfExists = store.IfExists

// The values of IfExists. An empty one is Refuse.
const (
	Refuse   = store.Refuse   // the publish is refused with ErrExists
	Keep     = store.Keep     // the message that is there stays as it is
	Replace  = store.Replace  // the new message takes its place, also that of a dead letter
	Debounce = store.Debounce // as Replace, but with the time of the first publish, from which MaxWait counts
)

// Then says what a publish does if a message of its id is leased.
type Then string

// After has the published message follow the leased one, once that is acknowledged, dead
// or dropped.
const After Then = "after"

// record returns the record of a message, without times.
func (m *Message) record() *Record {
	return &Record{
		Key: m.key(), IfBusy: m.IfBusy, Group: m.Group, AfterGroup: m.AfterGroup, OnDead: m.OnDead, ContentType: m.ContentType, Headers: m.headers(), TTL: m.TTL, MaxAttempts: m.MaxAttempts, Broadcast: m.Broadcast, Body: m.Body,
		Lease: m.Lease, TryTimeout: m.TryTimeout, UniqueFor: m.UniqueFor, Fail: m.Fail, LateAfter: m.LateAfter, Late: m.Late,
	}
}

// key returns the key of a message, which a restored one may have from its schedule.
func (m *Message) key() string {
	if r := m.Restore; r != nil && r.Schedule != "" {
		return store.ScheduleKey(r.Schedule)
	}
	return m.Key
}

// An Outcome is what became of a message that was published.
type Outcome = store.Outcome

// The outcomes of a publish.
const (
	Created  = store.OutcomeCreated  // it is a new message, or follows a leased one
	Kept     = store.OutcomeKept     // the one that was there stays, and this one is gone
	Replaced = store.OutcomeReplaced // it took the place of the one that was there
	Moved    = store.OutcomeMoved    // as Replaced, and it was put off: see Debounce
	Refused  = store.OutcomeRefused  // nothing was changed
)

// A State is one of the five states of a message, or Done.
type State = record.State

// The states of a message.
const (
	Scheduled = record.Scheduled // waits for its due time
	Ready     = record.Ready     // due, waits for a worker
	Blocked   = record.Blocked   // due, waits until another message of its key has ended
	Leased    = record.Leased    // a worker has it
	Dead      = record.Dead      // out of attempts, expired or refused for good
	Done      = record.Done      // ended, and its id stays taken for Message.UniqueFor
)

// check returns a joined Fault for each invalid field of a message.
func (m *Message) check(maxBody int) error {
	return errors.Join(
		record.CheckTopic(m.Topic), fields.Check(m, m.Broadcast), m.checkBody(maxBody), record.CheckHeaders(m.Headers),
		m.checkDue(), m.checkRestore(), m.checkAsks(), m.checkBranch(),
	)
}

// checkBranch returns a Fault for a broadcast to a branch.
func (m *Message) checkBranch() error {
	if of, branch := record.SplitBranch(m.Topic); m.Broadcast && branch != "" {
		return fault.New("broadcast", "broadcast: a branch has none; send it to %s", of)
	}
	return nil
}

// checkDue returns a Fault for a due time without its zone, or a zone without its due time.
func (m *Message) checkDue() error {
	if _, err := calendar.Zone(m.Zone); err != nil || m.Delay != 0 {
		return nil // it is refused as it is, or a delay excludes both
	}
	_, err := calendar.Local(m.Due, m.Zone)
	return err
}

func (m *Message) checkBody(most int) error {
	if len(m.Body) > most {
		return &Fault{Field: "body", Err: fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrTooLarge, len(m.Body), most)}
	}
	return nil
}

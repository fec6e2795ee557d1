package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// An Op is the kind of an operation or event.
type Op string

// The kinds of operations and events.
const (
	Publish    Op = "publish"
	Broadcast  Op = "broadcast"
	Cancel     Op = "cancel"
	CancelNext Op = "cancel-next" // a successor alone
	Reschedule Op = "reschedule"
	Requeue    Op = "requeue"

	Claim   Op = "claim"
	Take    Op = "take" // a claimed message
	Handle  Op = "handle"
	Ack     Op = "ack"
	Nack    Op = "nack"
	Snooze  Op = "snooze" // give back without an attempt, due later
	Bury    Op = "bury"
	Release Op = "release"
	Extend  Op = "extend"

	Await Op = "await" // the end of a message

	Listen  Op = "listen"
	Receive Op = "receive"
	Gap     Op = "gap"
	Push    Op = "push"    // a broadcast in a request to a URL
	Store   Op = "store"   // a broadcast in a JetStream stream
	Archive Op = "archive" // a row of the archive

	Fault Op = "fault"
	Heal  Op = "heal"
	Start Op = "start"
	Stop  Op = "stop"
	Kill  Op = "kill"
	Beat  Op = "beat"

	Drained Op = "drained"
)

// A Phase is the call or the end of an operation. Events have none.
type Phase string

// The phases of an operation.
const (
	Event   Phase = ""
	Call    Phase = "call"
	OK      Phase = "ok"
	No      Phase = "no"      // refused for certain: nothing was changed
	Unknown Phase = "unknown" // it may have happened, or may still happen
)

// events reports whether a kind is an event, of one record.
var events = map[Op]bool{
	Publish: false, Broadcast: false, Cancel: false, CancelNext: false, Reschedule: false, Requeue: false,
	Claim: false, Take: true, Handle: false, Ack: false, Nack: false, Snooze: false, Bury: false, Release: false, Extend: false,
	Await: false, Listen: true, Receive: false, Push: false, Gap: true, Store: true, Archive: true,
	Fault: false, Heal: false, Start: true, Stop: true, Kill: true, Beat: true, Drained: true,
}

// A Record is a line of a history.
type Record struct {
	At      int64  `json:"at"`          // by the clock of the machine, Unix µs
	Process string `json:"process"`     // the writer; each start of a program is another process
	N       int64  `json:"n,omitempty"` // number of the operation in its process, from 1
	Op      Op     `json:"op"`
	Phase   Phase  `json:"phase,omitempty"`

	Topic    string `json:"topic,omitempty"`
	ID       string `json:"id,omitempty"`
	Due      int64  `json:"due,omitempty"`      // Unix ms by Redis's clock
	Busy     bool   `json:"busy,omitempty"`     // it is dropped if another of its key is under way
	TTL      int64  `json:"ttl,omitempty"`      // ms
	Limit    int    `json:"limit,omitempty"`    // limit of attempts
	Key      string `json:"key,omitempty"`      // of which one message at a time is handed out
	Attempt  int    `json:"attempt,omitempty"`  // 1 on first delivery
	Stop     bool   `json:"stop,omitempty"`     // of a Cancel: a leased message is cancelled when its lease ends, unless it is acknowledged
	Handed   bool   `json:"handed,omitempty"`   // over with the ring, and not claimed
	Webhook  string `json:"webhook,omitempty"`  // webhook-id of a request to a URL
	Forged   bool   `json:"forged,omitempty"`   // the request has no signature of its push
	Hands    int    `json:"hands,omitempty"`    // how many messages of the topic the process takes at a time; 0: unknown
	Receipt  int64  `json:"receipt,omitempty"`  // end of the lease, Unix us by Redis's clock
	Was      int64  `json:"was,omitempty"`      // the receipt by which a lease is extended; the position after which a gap begins
	Lease    int64  `json:"lease,omitempty"`    // ms
	Position int64  `json:"position,omitempty"` // of a broadcast, Unix µs by Redis's clock
	Bookmark string `json:"bookmark,omitempty"` // where a listener to several shards stands
	State    string `json:"state,omitempty"`    // scheduled, ready, leased, dead, done, gone, dropped, cancelled, acked or removed
	Count    int    `json:"count,omitempty"`    // messages of a claim, in its call the most; concurrency of a listener
	Redis    int64  `json:"redis,omitempty"`    // Redis's clock in a reply or a row, Unix µs
	Error    string `json:"error,omitempty"`

	Version   string `json:"version,omitempty"`    // which publish's body it is, of an id that is published more than once
	Mode      string `json:"mode,omitempty"`       // keep, replace or debounce; empty: refuse
	After     bool   `json:"after,omitempty"`      // a publish behind the message in hand, as its successor
	MaxWait   int64  `json:"max_wait,omitempty"`   // ms
	Unique    int64  `json:"unique,omitempty"`     // ms for which the id stays taken after the end
	Outcome   string `json:"outcome,omitempty"`    // created, replaced or moved; with No: kept or refused
	Previous  int64  `json:"previous,omitempty"`   // due time of the message that was there, Unix ms by Redis's clock
	Fail      string `json:"fail,omitempty"`       // bury or drop
	LateAfter int64  `json:"late_after,omitempty"` // ms
	LateMode  string `json:"late_mode,omitempty"`  // bury or drop; empty: bury
	Try       int64  `json:"try,omitempty"`        // timeout of a try, ms
	Now       bool   `json:"now,omitempty"`        // the claim acknowledges
	Topics    string `json:"topics,omitempty"`     // of a claim of several, with commas between
	Keep      int64  `json:"keep,omitempty"`       // of an Ack: ms for which the message is kept with its result
	Result    string `json:"result,omitempty"`     // of an Ack, of a message that is kept, or of a row of the archive
	Forgotten bool   `json:"forgotten,omitempty"`  // of an Ack: memory was short, so the message is not kept
	Wait      int64  `json:"wait,omitempty"`       // of an Await, at the most, ms

	Group      string `json:"group,omitempty"`       // of the topic, in which the message is
	AfterGroup string `json:"after_group,omitempty"` // TOPIC:NAME of that for which it waits
	Go         bool   `json:"go,omitempty"`          // dead ones of that count as ended

	Listener string `json:"listener,omitempty"` // one of the process's listeners
	Name     string `json:"name,omitempty"`     // name of a named listener
	Pattern  string `json:"pattern,omitempty"`

	Kind    string `json:"kind,omitempty"`    // kind of a fault
	Target  string `json:"target,omitempty"`  // the process, or other thing, that a fault hits
	Offset  int64  `json:"offset,omitempty"`  // ms that Redis's clock is ahead of the machine's from now on
	Loss    int64  `json:"loss,omitempty"`    // ms before a fault within which Redis may forget confirmed operations
	Waited  bool   `json:"waited,omitempty"`  // of a loss: a replica takes over, and has what calls waited for
	Halfway bool   `json:"halfway,omitempty"` // a call may stop in the middle until the fault is healed
	Epoch   int64  `json:"epoch,omitempty"`   // of a beat, or of a carrier that is the target
	Shard   int    `json:"shard,omitempty"`   // of a beat
	Shards  string `json:"shards,omitempty"`  // that a fault concerns, with commas between; empty: all
	Epochs  string `json:"epochs,omitempty"`  // of a carrier of several shards that is the target: SHARD:EPOCH, with commas between
}

// String returns the record as its line of JSON.
func (r Record) String() string {
	line, err := json.Marshal(r)
	if err != nil { // never, with fields of numbers and text
		return err.Error()
	}
	return string(line)
}

// check reports what is wrong with a record.
func (r *Record) check() error {
	event, known := events[r.Op]
	_, badShards := numbers(r.Shards)
	_, badEpochs := termsIn(r.Epochs)
	badNumbers := cmp.Or(badShards, badEpochs)
	switch {
	case r.At <= 0:
		return fmt.Errorf("at %d: it is not a time in Unix microseconds", r.At)
	case r.Process == "":
		return errors.New("process: it is empty")
	case !known:
		return fmt.Errorf("op %q: there is no such operation", r.Op)
	case badNumbers != nil:
		return badNumbers
	case event && r.Phase != Event:
		return fmt.Errorf("phase %q: %s is an event and has none", r.Phase, r.Op)
	case event:
		return nil
	case r.N < 1:
		return fmt.Errorf("n %d: an operation has a number from 1", r.N)
	}
	switch r.Phase {
	case Call, OK, No, Unknown:
		return nil
	}
	return fmt.Errorf("phase %q: use call, ok, no or unknown", r.Phase)
}

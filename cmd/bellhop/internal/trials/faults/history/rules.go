package history

import (
	"fmt"
	"strings"
)

// A Rule must hold for every history.
type Rule string

// The rules.
const (
	Lost         Rule = "lost"          // a message whose publish was acknowledged is settled, or still there, in each branch
	Unpublished  Rule = "unpublished"   // only published messages are handed out, sent or there
	Early        Rule = "early"         // no message is handed out or sent before it is due
	Expired      Rule = "expired"       // no message is handed out after its time to live
	Cancelled    Rule = "cancelled"     // no message is handed out after its cancel was acknowledged
	Stopped      Rule = "stopped"       // no lease is extended after its message was to be cancelled, and what is not acknowledged then is gone
	Again        Rule = "again"         // no message is handed out after its acknowledgement was confirmed
	Double       Rule = "double"        // no message is handed out twice unless its lease expired or it was given back, nor is in a branch twice
	Attempts     Rule = "attempts"      // attempts count as documented
	Hands        Rule = "hands"         // nobody is handed more messages at a time than it asked for
	Receipts     Rule = "receipts"      // no stale or unknown receipt settles a message, and none is given twice
	Late         Rule = "late"          // no message is handed out later than stated
	Overdue      Rule = "overdue"       // at the end no message waits that should have been moved
	Order        Rule = "order"         // broadcasts are sent and received in order, and one worker handles messages in order
	Twice        Rule = "twice"         // a broadcast is sent once, and received once by a listener without a name
	Missed       Rule = "missed"        // every listener receives a broadcast, or is told of the gap, and so does the URL of a push
	FalseGap     Rule = "false gap"     // listeners are told of a gap only if broadcasts were removed
	Stored       Rule = "stored"        // a JetStream stream holds each broadcast once
	Mover        Rule = "mover"         // no carrier beats after a later one was elected
	Takeover     Rule = "takeover"      // the next carrier takes over in time
	Orphan       Rule = "orphan"        // no key holds anything that belongs to no message
	Replaced     Rule = "replaced"      // no body is handed out after a publish that replaced it was acknowledged
	Previous     Rule = "previous"      // a publish that replaces a message says when that was due
	Debounced    Rule = "debounced"     // a debounced message is due max_wait after its first publish at the latest
	Refused      Rule = "refused"       // a publish is refused, or another one kept, only while the id is in use
	Unique       Rule = "unique"        // no message has an id that is still taken
	Seat         Rule = "seat"          // of a key one message at a time is between its first handout and its end
	KeyOrder     Rule = "key order"     // the messages of a key are handed out in the order in which they are due
	Webhook      Rule = "webhook"       // each request of a push has a signature of the push, and the id of its message
	Limited      Rule = "limit"         // no more messages of a topic are leased at once than its concurrency
	Rate         Rule = "rate"          // no more messages of a topic are handed out in a time than its rate and its burst
	Successor    Rule = "successor"     // no successor is handed out while the message before it is in hand
	Dropped      Rule = "dropped"       // what was dropped is counted, and leaves no dead letter
	TooLate      Rule = "too late"      // what is claimed too late is dropped or buried, as it asks
	Lease        Rule = "lease"         // a claim gives the lease that a message asks for, and no lease exceeds the timeout of its try
	Asked        Rule = "asked"         // a claim gets no more than it asked for, of the topics that it asked for
	Kept         Rule = "kept"          // what was acknowledged with a keep is there with its result, and nothing else is
	Awaited      Rule = "awaited"       // an await says how a message ended, and says so in time
	Archived     Rule = "archived"      // the archive holds each end once
	GroupEarly   Rule = "group early"   // nothing is handed out that waits for a group while a message of that has not ended
	GroupMissing Rule = "group missing" // at the end nothing waits for a group of which nobody is left
	TwoCallbacks Rule = "two callbacks" // of a group one message waits for it
	Died         Rule = "died"          // no message dies that handlers neither buried nor failed often enough
)

// A Violation is a rule that was broken.
type Violation struct {
	Rule    Rule
	Message string
	Records []Record // the evidence
}

// maxShown is how many records of a violation are printed.
const maxShown = 24

// String returns the violation and its records, each in a line.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Rule, v.Message)
	for i, r := range v.Records {
		if i == maxShown {
			fmt.Fprintf(&b, "\n\tand %d more", len(v.Records)-i)
			break
		}
		b.WriteString("\n\t" + r.String())
	}
	return b.String()
}

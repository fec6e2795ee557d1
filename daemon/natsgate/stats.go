package natsgate

import (
	"sync/atomic"
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Stats are the counts of a gateway since it was made.
type Stats struct {
	Connected          bool  // now
	Connects           int64 // connections made
	ConnectFailures    int64 // rounds over all servers without a connection
	CredentialsRefused int64 // of them, the ones with a server that refused the credentials

	Permissions    int64 // subjects that NATS does not permit
	Floods         int64 // times that so many requests waited that some were lost
	Faults         int64 // other faults of the connection
	NoReply        int64 // requests refused for having no reply subject
	RefusedReplies int64 // requests refused because their reply subject is one of NATS itself, or under the prefix, or a pattern
	LostReplies    int64 // replies, and claimed messages, that could not be sent
	Claimed        int64 // messages sent to the clients that claimed them
	Returned       int64 // of them, the ones released because no client received them
	TooLarge       int64 // claimed and delivered messages buried because they exceed max_payload

	Waits              int64 // requests that wait for messages, or for the end of one, now
	Hints              int64 // wake-ups, beats and deaths sent
	LostHints          int64 // those that could not be sent
	Broadcasts         int64 // sent, and confirmed by NATS
	Resent             int64 // times that an unconfirmed broadcast was sent again
	Refusals           int64 // times that NATS refused broadcasts, or had no stream for them
	TooLargeBroadcasts int64 // broadcasts skipped because they exceed max_payload
	Gaps               int64 // times that broadcasts were removed before they could be sent, or may have been, since Redis lost all its data
	Delivered          int64 // messages delivered and acknowledged
	Snoozed            int64 // messages put off without an attempt used up
	Nobody             int64 // deliveries for which no client listened
	NoAnswer           int64 // deliveries without an answer in time
	BadAnswers         int64 // answers other than +ACK, -NAK, +WPI and +TERM
	LateAnswers        int64 // answers that came after the delivery was given up

	Publisher notify.PublisherStats

	Hinting  time.Time // when the loop that sends hints last made progress, of several the one that waits the longest; zero: none runs
	Bridging time.Time // the same for the loop that reads broadcasts

	Endpoints map[string]Tally // by the token behind the prefix: publish, claim, settle and so on
}

// Tally counts the requests of an endpoint.
type Tally struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"` // with a status 4xx: the requester has to change something
	Failed   int64 `json:"failed"`  // with a status 5xx: the request may be repeated
}

// counters are the source of Stats.
type counters struct {
	connected                                     atomic.Bool
	connects, connectFailures, credentialsRefused atomic.Int64
	permissions, floods, faults                   atomic.Int64
	noReply, refusedReplies, lostReplies          atomic.Int64
	claimed, returned, tooLarge                   atomic.Int64
	hints, lostHints                              atomic.Int64
	broadcasts, resent, refusals                  atomic.Int64
	tooLargeBroadcasts, gaps                      atomic.Int64
	delivered, snoozed, nobody, noAnswer          atomic.Int64
	badAnswers, lateAnswers                       atomic.Int64
}

// read returns the counts.
func (c *counters) read() Stats {
	return Stats{
		Connected: c.connected.Load(), Connects: c.connects.Load(),
		ConnectFailures: c.connectFailures.Load(), CredentialsRefused: c.credentialsRefused.Load(),
		Permissions: c.permissions.Load(), Floods: c.floods.Load(), Faults: c.faults.Load(),
		NoReply: c.noReply.Load(), RefusedReplies: c.refusedReplies.Load(), LostReplies: c.lostReplies.Load(), Claimed: c.claimed.Load(), Returned: c.returned.Load(), TooLarge: c.tooLarge.Load(),
		Hints: c.hints.Load(), LostHints: c.lostHints.Load(),
		Broadcasts: c.broadcasts.Load(), Resent: c.resent.Load(), Refusals: c.refusals.Load(), TooLargeBroadcasts: c.tooLargeBroadcasts.Load(), Gaps: c.gaps.Load(),
		Delivered: c.delivered.Load(), Snoozed: c.snoozed.Load(), Nobody: c.nobody.Load(), NoAnswer: c.noAnswer.Load(),
		BadAnswers: c.badAnswers.Load(), LateAnswers: c.lateAnswers.Load(),
	}
}

type tally struct{ requests, refused, failed atomic.Int64 }

func (t *tally) read() Tally {
	return Tally{Requests: t.requests.Load(), Refused: t.refused.Load(), Failed: t.failed.Load()}
}

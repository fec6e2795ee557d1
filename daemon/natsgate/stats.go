package natsgate

import (
	"sync/atomic"
	"time"
)

// Stats are what a gate counted since it was made.
type Stats struct {
	Connected          bool  // now
	Connects           int64 // connections that were made
	ConnectFailures    int64 // rounds over all servers that made none
	CredentialsRefused int64 // of them, those where a server refused the credentials

	Permissions    int64 // subjects that NATS does not permit
	Floods         int64 // times that requests came faster than they were handled for so long that some were lost
	Faults         int64 // other faults of the connection
	NoReply        int64 // requests that were refused because they had no reply subject
	RefusedReplies int64 // requests that were refused because their reply subject is one of NATS itself, or under the prefix, or a pattern
	LostReplies    int64 // replies, and claimed messages, that could not be sent
	Claimed        int64 // messages that were sent to who claimed them
	TooLarge       int64 // claimed and delivered messages that were buried because they do not fit into a message of NATS

	Hints              int64 // wake-ups, beats and deaths that were sent
	LostHints          int64 // those that could not be
	Broadcasts         int64 // that were sent, and confirmed by NATS
	Resent             int64 // times that one was sent again, since it was not confirmed
	Refusals           int64 // times that NATS refused some, or had no stream for them
	TooLargeBroadcasts int64 // that were passed over because they do not fit into a message of NATS
	Gaps               int64 // gaps: broadcasts were removed before they could be sent, or may have been, since Redis lost all that it held
	Delivered          int64 // messages that were delivered and acknowledged
	Nobody             int64 // deliveries that nobody listened to
	NoAnswer           int64 // deliveries that nobody answered within the lease
	BadAnswers         int64 // answers that are none of +ACK, -NAK, +WPI and +TERM
	LateAnswers        int64 // answers to deliveries that were given up by then

	Hinting  time.Time // when the loop that sends hints last came around; zero: it does not run
	Bridging time.Time // the same of the loop that reads the broadcasts to be passed on

	Endpoints map[string]Tally // by the word behind the prefix: publish, claim, settle and so on
}

// Tally counts the requests of an endpoint.
type Tally struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"` // by an error 4xx: the requester has to do something else
	Failed   int64 `json:"failed"`  // by an error 5xx: it may be repeated
}

// counters are what Stats is made from.
type counters struct {
	connected                                     atomic.Bool
	connects, connectFailures, credentialsRefused atomic.Int64
	permissions, floods, faults                   atomic.Int64
	noReply, refusedReplies, lostReplies          atomic.Int64
	claimed, tooLarge                             atomic.Int64
	hints, lostHints                              atomic.Int64
	broadcasts, resent, refusals                  atomic.Int64
	tooLargeBroadcasts, gaps                      atomic.Int64
	delivered, nobody, noAnswer                   atomic.Int64
	badAnswers, lateAnswers                       atomic.Int64
}

type tally struct{ requests, refused, failed atomic.Int64 }

func (t *tally) read() Tally {
	return Tally{Requests: t.requests.Load(), Refused: t.refused.Load(), Failed: t.failed.Load()}
}

// Stats returns what was counted.
func (g *Gate) Stats() Stats {
	c := &g.count
	s := Stats{
		Connected: c.connected.Load(), Connects: c.connects.Load(),
		ConnectFailures: c.connectFailures.Load(), CredentialsRefused: c.credentialsRefused.Load(),
		Permissions: c.permissions.Load(), Floods: c.floods.Load(), Faults: c.faults.Load(),
		NoReply: c.noReply.Load(), RefusedReplies: c.refusedReplies.Load(), LostReplies: c.lostReplies.Load(), Claimed: c.claimed.Load(), TooLarge: c.tooLarge.Load(),
		Hints: c.hints.Load(), LostHints: c.lostHints.Load(),
		Broadcasts: c.broadcasts.Load(), Resent: c.resent.Load(), Refusals: c.refusals.Load(), TooLargeBroadcasts: c.tooLargeBroadcasts.Load(), Gaps: c.gaps.Load(),
		Delivered: c.delivered.Load(), Nobody: c.nobody.Load(), NoAnswer: c.noAnswer.Load(),
		BadAnswers: c.badAnswers.Load(), LateAnswers: c.lateAnswers.Load(),
		Hinting: g.hinting.Last(), Bridging: g.listener.Stats().Progress,
		Endpoints: make(map[string]Tally),
	}
	for _, e := range g.endpoints {
		s.Endpoints[e.name] = e.tally.read()
	}
	return s
}

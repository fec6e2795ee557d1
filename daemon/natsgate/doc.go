// Package natsgate connects Bellhop to NATS, so that programs in any language
// listen to broadcasts, are woken, and publish, claim and settle messages with
// nothing but a NATS client:
//
//	gate, err := natsgate.New(store, natsgate.Options{URL: "nats://127.0.0.1:4222"})
//	...
//	carry, err := carrier.New(store, carrier.Options{OnTerm: gate.Term})
//	...
//	err = gate.Run(ctx) // until ctx ends; carry.Run beside it
//
// # What is sent
//
// Of many daemons the elected carrier's sends. The prefix, here bellhop, may be another one.
//
//	bellhop.wake.TOPIC           messages were made ready: how many. A hint, at most once; in a queue group one listener is woken
//	bellhop.broadcast.TOPIC      a broadcast: the body, with the headers of CloudEvents' binary mode, Nats-Msg-Id and Bellhop-Position
//	bellhop.beat                 {"carrier","epoch","time"} with each heartbeat: who misses three claims by itself
//	bellhop.event.carrier        the same, when a carrier was elected
//	bellhop.event.dead.TOPIC     {"topic","id","reason","attempts"}: a message died
//	bellhop.deliver.TOPIC        a message of a topic that Options.Deliver names, as a request
//
// Broadcasts are read from the log in Redis. The place up to which they were
// passed on is kept there, and moves on when NATS has confirmed them: with
// Options.JetStream by the acknowledgement of the stream, else by its answer to a
// ping behind them. So none is lost while NATS is away, nor when the carrier
// changes, as long as the log keeps it; those that were not confirmed are sent
// again. A stream stores such a one once, by its Nats-Msg-Id, within its window of
// duplicates, which is two minutes where the gate made the stream. Who listens
// without a stream may get it twice, and misses what was sent while he was away himself.
//
// A message that is delivered is claimed first. Whoever listens, best in a queue
// group, answers as to the reply subject of a claimed message, below; +WPI gives
// the lease again. Who does not answer within the lease, until Bellhop-Lease-Until
// at the earliest, uses up an attempt. While nobody listens, messages stay as they are: it is tried with one of them twice a
// second, and no attempt is used up. Up to 64 messages of a topic are out at a
// time, or as many as Deliver.InFlight says: choose it so that the listeners
// handle that many within a lease.
//
// # Requests
//
// Every daemon answers: the subjects are those of one NATS micro service named
// bellhop, in a queue group of that name.
//
//	bellhop.publish.TOPIC            the data is the body, which may be empty
//	bellhop.publish-broadcast.TOPIC  likewise, for everyone who listens
//	bellhop.claim.TOPIC              {"max":10,"lease":"30s"}, or nothing for one message
//	bellhop.settle.TOKEN             the reply subject of a claimed message
//	bellhop.cancel.TOPIC             {"id":"order-4711"}
//	bellhop.reschedule.TOPIC         {"id":"order-4711","delay":"1h"}, or "due", or neither for at once
//	bellhop.inspect.TOPIC            {"id":"order-4711"}
//	bellhop.settings.TOPIC           {"attempts":5,"lease":"1m","backoff_max":null}, or nothing to look at them
//	bellhop.defaults                 likewise, for all topics that have no settings of their own
//
// A request to publish has the headers Bellhop-Id, Bellhop-Delay, Bellhop-Due,
// Bellhop-Ttl and Bellhop-Attempts, all optional; Content-Type or
// ce-datacontenttype; and Bellhop-Header-NAME for each header NAME that is
// carried along. Their names are read without regard to case.
//
// A request to change settings names those that change: attempts, lease,
// backoff_min, backoff_max, and paused, which is of single topics. What is null has
// the default again. They hold for every way to claim, not for NATS alone.
//
// The reply is JSON (package daemon/api). An error has the headers
// Nats-Service-Error and Nats-Service-Error-Code, a status of HTTP, and as its
// data an RFC 9457 problem. A refused request has changed nothing.
//
// The reply subject is the requester's own, as a rule an inbox. One that begins
// with $ or with the prefix and a dot, or is no literal subject, is refused: the
// gate answers with its own rights, so the answer could do what the requester must
// not. There is no place to say so: it is counted as Stats.RefusedReplies, and
// logged.
//
// A claim is answered by a message for each that was claimed, and at the end by
// an empty one with the header Status: 204. It never waits. A claimed message
// has the body as its data, the headers of CloudEvents' binary mode,
// Bellhop-Attempt, Bellhop-First-Due, which is the ce-time of its first attempt, and
// Bellhop-Lease-Until. It is settled by an answer to its
// reply subject: +ACK when it is done, -NAK to have it again after a backoff,
// -NAK {"delay":"5s"} to choose when, +WPI for the time again that the claim
// gave, +TERM or +TERM REASON to bury it. The reply subject stays the same
// however often the lease is extended. A settlement that is sent as a request is
// answered +OK; else an error is only counted.
//
// # Guarantees
//
// Publishing over NATS is acknowledged by the reply: a requester that got none
// repeats it with the same Bellhop-Id. A claimed message is leased as any other:
// what gets lost between the gate and its handler is handed out again when the
// lease ends. Whichever daemon gets a settlement can carry it out, also that of a
// message which another one claimed that is gone by now.
//
// A body that does not fit into the server's max_payload, headers included, is
// buried with that reason when it is claimed: it is kept among the dead letters.
//
// Up to 256 requests are handled at the same time, so that one that waits for
// Redis does not hold up others; fewer of large ones, and 16 claims, so that
// they fit into memory. More wait in this process: of an endpoint up to 65,536,
// and 64 MiB of those to publish or 8 MiB of others. Beyond that they are lost,
// counted as Stats.Floods, and their requesters' timeouts end. What waits when the
// connection breaks is lost, too.
//
// # Connection
//
// NATS may be away when a gate starts, or go away, or refuse the credentials:
// each change is logged once, all is counted, and the gate connects again within
// about a second after NATS is there. The files of credentials and certificates
// are read anew each time. Nothing is buffered meanwhile: what cannot be sent is
// counted as lost. No password or token is logged.
//
// # Rights
//
// A gate answers wherever a requester wants it to, within the rights of its own
// user at NATS. So give it no more than it needs, here with a stream called NAME.
// To subscribe to:
//
//	bellhop.publish.>  bellhop.publish-broadcast.>  bellhop.claim.>  bellhop.settle.*
//	bellhop.cancel.>  bellhop.reschedule.>  bellhop.inspect.>  bellhop.settings.>  bellhop.defaults
//	$SRV.>  _INBOX.>
//
// To publish to:
//
//	bellhop.wake.>  bellhop.broadcast.>  bellhop.beat  bellhop.event.>  bellhop.deliver.>
//	_INBOX.>, and where else its clients have their inboxes
//	$JS.API.STREAM.INFO.NAME  $JS.API.STREAM.CREATE.NAME  to find the stream, or make it
//	$JS.API.STREAM.NAMES                                  to say which stream has its subjects
//
// Nobody else should publish to what is sent, since nothing signs it:
//
//	bellhop.deliver.TOPIC    has listeners handle a message that Bellhop never had
//	bellhop.broadcast.TOPIC  tells everyone who listens what was never sent; a stream stores it, and takes a true one
//	                         whose Nats-Msg-Id it has for a duplicate
//	bellhop.wake.TOPIC       has workers claim for nothing
//	bellhop.beat             hides that no carrier runs from those who miss its beats
//	bellhop.event.>          tells of elections and deaths that never were
//
// Who may publish to bellhop.settings.TOPIC pauses that topic, or has its messages
// die at the first failure, and who may publish to bellhop.defaults nearly that for
// all: that is for operators.
//
// Who may publish to _INBOX.> can answer for others whose inbox he knows, and
// settle what was delivered to them: a listener needs no more than allow_responses,
// with a max above 1 where it sends +WPI. Who may subscribe to it reads what others claim, and can settle
// that: best each user has an inbox prefix of his own. Who may subscribe to the
// subjects of requests reads them and, in the queue group bellhop, takes them away.
package natsgate

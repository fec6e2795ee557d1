// Package push hands messages on to URLs and to NATS: a worker in the daemon for the topics of each push, whose handler is a request.
//
//	p, err := push.New(store, push.Options{Allow: "public", NATS: gate})
//	...
//	err = p.Run(ctx)
//
// Pushes stand in Redis (store.Push), so that each daemon knows them, and hears of changes at once. A daemon works for them while it
// may push: its options say to which addresses. Leases, attempts, keys and limits hold as for any worker; where several daemons push,
// they share the messages as workers do.
//
// # Patterns
//
// The topics of a push may be patterns, such as order.*. A daemon works for the topics that a pattern names and that there are when the
// push comes, or when the connection is new. A topic that is new later is named by a beat, since something is ready and nobody waits: so its
// first message is up to a second late, and where very many are new at once more, since a beat names some 4 KiB of topics. Its next ones
// are rung, as those of any topic.
//
// A daemon works for a thousand such topics of pushes to URLs, and for as many of pushes to NATS. Beyond that one that is ready takes the
// place of the one that had nothing for longest; while all are busy it waits, which Stats counts. One that had nothing for an hour is let
// go, since a topic for which somebody waits is never forgotten. So is any topic that no push has any more; what is under way may go on.
//
// # Broadcasts
//
// A push of broadcasts is a named listener to one topic or pattern, push.NAME, which all daemons share: each broadcast from its put on goes to
// the URL at least once, in the order of its topic where one daemon pushes one at a time, and later what was sent while it was paused, or no
// daemon ran, as long as the log keeps that. With another pattern it goes on where it stood: what that matches, and was sent since then. What
// was still to be sent of other topics is dropped, as the answer to the put says. Its lease, its attempts and the pauses between them are those that the daemon has for named listeners.
//
// # NATS
//
// A push to nats:SUBJECT is a request on that subject, answered as package natsgate says. While NATS is away nothing is claimed. While
// nobody listens messages stay ready, and a subject is tried by one message a second, or of many ten in all. That a client vanished without
// a word, NATS does not say: what was sent to it fails when the timeout is over, and has its place until then. A stream that stores the
// subject answers first, which is passed over: without another answer in time it is as if nobody listened.
//
// # The request to a URL
//
// A POST with the body and the content type of the message. Its headers are those of a claim with as=body (package httpapi), but for the
// receipt, and of a broadcast Bellhop-Late-Ms; traceparent and tracestate of the message are sent under their own names, too. Each request
// is signed as Standard Webhooks says (https://www.standardwebhooks.com): webhook-id is TOPIC:ID, the same for all attempts,
// with %2E for a dot before a token of ten digits or more, which could pass for the time in what is signed; webhook-timestamp the time of the request by the clock of the daemon; webhook-signature has one signature for each secret.
//
// # The answer
//
//	2xx                            the message is done
//	429, 503 with a Retry-After    it is put off for so long, a day or to the end of its time to live at the most, and no attempt is used
//	                               up; below 1 s it may count as below, from 1 s on no daemon asks the endpoint before: other messages
//	                               stay ready, then one asks, then all
//	410                            the push is paused, with that as the reason, and the message is ready
//	413, 415, 422, 431             the attempt failed, by the message; of the endpoint that says nothing
//	all else, or none in time      the attempt failed: the reason has the status and up to 1 KiB of the answer
//
// Redirects are not followed. A connection of HTTP/2 on which nothing came for 10 s, nor then for 20 s the answer to a ping, is cut. A message may come twice, as with any worker: receivers tell by webhook-id.
//
// An endpoint that failed five times in a row is asked by one request at a time, of each daemon, after a pause that doubles from a second
// to a minute. Until one succeeds its messages are ready as before and use up no attempts; they are tried in turn, since the endpoint may
// refuse one alone, and how late one that is tried is does not count. Broadcasts are tried in order. What is known of that stands in Redis.
//
// # Bounds
//
// Requests, and the connections that are kept for more, have at most Options.Files open, in the daemon a quarter of all; those to one
// endpoint (scheme, host and port), whatever its pushes and topics are, half of the requests. Bodies in flight are 64 MiB to one endpoint, or
// of one push to NATS, and 256 MiB in all. Beyond that nothing is claimed: messages wait in Redis, or another daemon has them. Where this
// process has no file left, no attempt is used up, and the endpoint does not count as failing.
//
// # Addresses
//
// The address that is dialled is judged at each connection, after the look-up: so neither a redirect, nor a name that changes its
// address, nor another spelling leads to an address that is not allowed. See [ParseAllow]. Proxies of the environment are not used.
// Certificates are those of the authorities of the machine, and of the file that SSL_CERT_FILE names in the environment.
package push

// Package httpapi offers everything over HTTP, to programs of any language.
//
// Requests are as plain as they can be: the body of a publish is the body of the
// message, all else is in the query. Answers are JSON, and errors problem details
// (RFC 9457) that name each parameter that is wrong. GET /v1/openapi.json
// describes all calls; it is made from the types that read the requests.
//
// A claim may wait until there is a message. It is woken by the carrier's ring,
// never by a timer, and any number of them share one subscription to Redis
// (subscribers.Claimer). GET /v1/topics/{topic}/broadcasts is an endless stream of
// server-sent events, read once for all listeners (subscribers.Listener): each
// event's id is the broadcast's position, with which a client resumes.
//
// Who may do what is up to a file of bearer tokens; without it everybody may do
// everything, so the daemon listens on loopback then. What no token guards is only
// for who calls by a name of this machine, which no page of a browser does. Slow
// clients are bounded in time, large ones in bytes, all of them in number, and a stop
// answers what is under way before it closes.
//
// Answers with bodies are sent a piece at a time, so that a client that does not read
// has the daemon hold the bodies that it is to get, and little more. These count, as
// what clients send does, against the memory of their token; a broadcast counts once
// for all streams of a token. What finds no room waits, for 10 s, and is refused: a
// claim at once, and what it took is given back; a stream is cut off, and its client
// goes on by the id of the last event.
package httpapi

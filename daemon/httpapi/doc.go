// Package httpapi is the daemon's gateway for HTTP: it offers everything to programs
// of any language.
//
// Requests are plain: the body of a publish is the body of the message, all else is in
// the query. Answers are JSON, and errors are problem details (RFC 9457) that name each
// wrong parameter. GET /v1/openapi.json describes all calls; it is made from the types
// that read the requests.
//
// A claim may wait until there is a message. The carrier's ring wakes it, never a
// timer, and all claims share one subscription to Redis (subscribers.Claimer). GET
// /v1/topics/{topic}/broadcasts is an endless stream of server-sent events, read once
// for all listeners (subscribers.Listener). Each event's id is an opaque
// bookmark, by which a client resumes.
//
// A file of bearer tokens says what each caller may do. Without it everybody may do
// everything, so the daemon binds to loopback only. A request that no token guards must
// name this machine in its Host, which no web page from elsewhere can do. Slow clients
// are bounded in time, large bodies in bytes, and all clients in number. A stop answers
// the requests under way before it closes.
//
// Answers with bodies are sent a piece at a time: for a client that does not read, the
// daemon keeps the bodies that it has yet to send, and little more. Bodies that come
// and bodies that go count against the memory of their token, and so does what a list in
// JSON becomes when it is read; a broadcast counts once for all streams of a token. A request for which no memory is free waits for 10 s and
// is then refused. A claim is refused at once and gives back its messages. A stream is
// cut off, and its client resumes by the id of the last event.
package httpapi

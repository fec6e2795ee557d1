// Package api is what the daemon's gateways have in common, so that a request means the
// same over NATS and HTTP: the JSON of messages, pushes and settings, how strictly it is
// read, and how errors are reported. That of one call stands beside it in daemon/calls.
//
// Durations in a request are written as in Go, such as 90s or 1h30m, and also with days,
// such as 1d. In a reply they are whole milliseconds, in fields whose names end in _ms.
// Times are RFC 3339. A request with a field that is unknown, of a wrong type or given
// twice is refused as a whole; the error names the field and what would be right. Every
// error becomes a [Problem].
package api

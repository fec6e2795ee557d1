// Package api is what the gateways of the daemon have in common, so that a
// request means the same over NATS and over HTTP: the JSON of requests and
// replies, how strictly it is read, and what an error is told as.
//
// Durations of a request are those of Go, such as 90s, 1h30m or 1d; in a reply they
// are whole milliseconds, in fields whose names end in _ms. Times are RFC 3339. A request
// with a field that is unknown, of a wrong type or given twice is refused as a whole,
// and the error names the field and what would be right. Every error becomes a [Problem].
package api

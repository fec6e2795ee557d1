// Package console is a page for operators: what a store holds, how late it is, what falls
// due, and acts on it. It is served under /ui/ by the gateway of HTTP, with the gateway's
// tokens and rights.
//
// Every page works without JavaScript. A request for a page that accepts an event stream
// gets the page's live part instead, each time that it changed, at most once a second. What
// pages read from Redis is kept for a second for all viewers, so without viewers nothing is read.
//
// Addresses on pages are relative, so that a proxy may serve them below any path.
package console

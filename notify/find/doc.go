// Package find finds messages by what they hold, and acts on all that match.
//
// A question is a line of terms, which all must hold:
//
//	topic:order.*,refund    of these topics, or of those that match a pattern
//	state:dead,leased       scheduled, ready, blocked, leased, dead or done
//	id:order-47*            * stands for any text
//	reason~timeout          in the reason of a death
//	key:acct-7              the whole key
//	group:import-7          the whole name of a group; copies in branches of the topics are in it, too
//	header.tenant=acme      the name in any case, and the whole value
//	body~4711               in the body
//	due<2026-12-01 due>-1h  a day of UTC, a time of RFC 3339, or how long from now
//
// A value with spaces stands in double quotes, in which \" and \\ are a quote and a backslash. Texts
// are compared byte by byte. The due time is that of a scheduled, ready or blocked message, and of any other
// that of its first attempt; what succeeded and is kept has none, and no body. Now is when the search
// began, by Redis's clock.
//
// A search looks at all messages of the topics and states in question, unless it asks for a whole id or
// for due times of what is scheduled or ready: then it looks at these alone. It takes Redis a
// millisecond at a time, and pauses as long in between, so that it delays others by less than that.
// It is no snapshot: a message that moves meanwhile may be found twice, or not at all.
package find

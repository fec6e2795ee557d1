package console

import "net/url"

// findPath returns the address of the page that answers a question.
func findPath(q string) string { return Root + "find?q=" + url.QueryEscape(q) }

// removePath returns the address of the page that asks whether to remove a listener.
func removePath(name string) string { return Root + "broadcasts/remove?name=" + url.QueryEscape(name) }

// deadPath returns the address of the dead letters of a topic, with a reason or without.
func deadPath(topic, reason string) string {
	q := url.Values{"topic": {topic}}
	if reason != "" {
		q.Set("reason", reason)
	}
	return Root + "dead/letters?" + q.Encode()
}
